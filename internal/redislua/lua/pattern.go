package lua

import (
	"strings"
	"sync"
)

// pattern is a pattern of Lua, ready to match. It knows classes, sets, repetitions, captures and anchors; no script uses
// the rest.
type pattern struct {
	anchored bool
	items    []item
	captures int
}

// item is one step of a pattern.
type item struct {
	kind byte
	// set has the bytes that a oneOf takes, and repeats how often it takes one: 0 for once, or the sign in the pattern.
	set     *[256]bool
	repeats byte
	// capture is the number of the capture that opens or closes.
	capture int
}

const (
	oneOf = iota
	opens
	closes
	ends // the anchor $
)

// patterns has the patterns that were used before, by their text.
var patterns sync.Map

func patternOf(text string) *pattern {
	if p, known := patterns.Load(text); known {
		return p.(*pattern)
	}
	r := patternReader{rest: text}
	p := r.pattern()
	patterns.Store(text, p)
	return p
}

// patternReader reads the text of a pattern.
type patternReader struct {
	rest string
	open []int // captures that are not closed yet
}

func (r *patternReader) take() byte {
	if r.rest == "" {
		Raise("malformed pattern")
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *patternReader) pattern() *pattern {
	p := &pattern{}
	r.rest, p.anchored = strings.CutPrefix(r.rest, "^")
	for r.rest != "" {
		switch b := r.take(); {
		case b == '(' && strings.HasPrefix(r.rest, ")"):
			Raise("the capture of a position is not supported")
		case b == '(':
			r.open = append(r.open, p.captures)
			p.items = append(p.items, item{kind: opens, capture: p.captures})
			p.captures++
		case b == ')':
			last := len(r.open) - 1
			if last < 0 {
				Raise("invalid pattern capture")
			}
			p.items = append(p.items, item{kind: closes, capture: r.open[last]})
			r.open = r.open[:last]
		case b == '$' && r.rest == "":
			p.items = append(p.items, item{kind: ends})
		default:
			i := item{set: r.set(b)}
			if r.rest != "" && strings.IndexByte("*+-?", r.rest[0]) >= 0 {
				i.repeats = r.take()
			}
			p.items = append(p.items, i)
		}
	}
	if len(r.open) > 0 {
		Raise("unfinished capture")
	}
	return p
}

// set reads what one byte of the text may be. Its first byte was taken.
func (r *patternReader) set(first byte) *[256]bool {
	var set [256]bool
	switch first {
	case '.':
		for b := range set {
			set[b] = true
		}
	case '%':
		addClass(&set, r.take())
	case '[':
		var without bool
		r.rest, without = strings.CutPrefix(r.rest, "^")
		for b := r.take(); ; {
			switch {
			case b == '%':
				addClass(&set, r.take())
			case len(r.rest) > 1 && r.rest[0] == '-' && r.rest[1] != ']':
				r.take()
				for last := int(r.take()); int(b) <= last; last-- {
					set[last] = true
				}
			default:
				set[b] = true
			}
			if b = r.take(); b == ']' {
				break
			}
		}
		if without {
			for b := range set {
				set[b] = !set[b]
			}
		}
	default:
		set[first] = true
	}
	return &set
}

// addClass adds the bytes of a class such as %d, or the byte itself if it is no letter.
func addClass(set *[256]bool, class byte) {
	lower := class | 0x20
	if lower < 'a' || lower > 'z' {
		if class >= '0' && class <= '9' {
			Raise("a reference to a capture is not supported")
		}
		set[class] = true
		return
	}
	for i := range set {
		b := byte(i)
		digit, letter := b >= '0' && b <= '9', b|0x20 >= 'a' && b|0x20 <= 'z'
		var in bool
		switch lower {
		case 'a':
			in = letter
		case 'c':
			in = b < ' ' || b == 127
		case 'd':
			in = digit
		case 'l':
			in = b >= 'a' && b <= 'z'
		case 'p':
			in = b > ' ' && b < 127 && !digit && !letter
		case 's':
			in = b == ' ' || b >= '\t' && b <= '\r'
		case 'u':
			in = b >= 'A' && b <= 'Z'
		case 'w':
			in = digit || letter
		case 'x':
			in = digit || b|0x20 >= 'a' && b|0x20 <= 'f'
		case 'z':
			in = b == 0
		default:
			raisef("the class %%%c is not supported", class)
		}
		if in == (class == lower) {
			set[b] = true
		}
	}
}

// matcher matches a pattern with a text.
type matcher struct {
	*pattern
	text string
	// bounds has the begin and the end of the whole match, and of each capture.
	bounds []int
}

// find finds the first match from an offset on, and reports whether there is one.
func (m *matcher) find(from int) bool {
	if m.bounds == nil {
		m.bounds = make([]int, 2+2*m.captures)
	}
	for ; from <= len(m.text); from++ {
		if end := m.match(from, 0); end >= 0 {
			m.bounds[0], m.bounds[1] = from, end
			return true
		}
		if m.anchored {
			break
		}
	}
	return false
}

// match matches the items from the next one on with the text at an offset. It returns where the match ends, or -1.
func (m *matcher) match(at, next int) (end int) {
	for ; next < len(m.items); next++ {
		switch i := &m.items[next]; i.kind {
		case opens:
			m.bounds[2+2*i.capture] = at
		case closes:
			m.bounds[3+2*i.capture] = at
		case ends:
			if at != len(m.text) {
				return -1
			}
		default:
			if i.repeats != 0 {
				return m.repeated(i, at, next+1)
			}
			if at == len(m.text) || !i.set[m.text[at]] {
				return -1
			}
			at++
		}
	}
	return at
}

// repeated matches an item as often as it may, and then the items behind it: as often as possible first, or with a minus
// as rarely.
func (m *matcher) repeated(i *item, at, next int) (end int) {
	least, most := at, at
	for most < len(m.text) && i.set[m.text[most]] && (i.repeats != '?' || most == at) {
		most++
	}
	if i.repeats == '+' {
		least++
	}
	if i.repeats == '-' {
		for ; least <= most; least++ {
			if end = m.match(least, next); end >= 0 {
				return end
			}
		}
		return -1
	}
	for ; most >= least; most-- {
		if end = m.match(most, next); end >= 0 {
			return end
		}
	}
	return -1
}

// captured returns the captures. Without any, it returns the whole match if whole is set.
func (m *matcher) captured(whole bool) []Value {
	bounds := m.bounds[2:]
	if whole && len(bounds) == 0 {
		bounds = m.bounds
	}
	values := make([]Value, len(bounds)/2)
	for i := range values {
		values[i] = m.text[bounds[2*i]:bounds[2*i+1]]
	}
	return values
}

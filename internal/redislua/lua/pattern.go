package lua

import (
	"regexp"
	"strings"
	"sync"
)

// patterns has the patterns that were used before, by their text.
var patterns sync.Map

// patternOf translates a pattern of Lua. It knows classes, sets, repetitions, captures and anchors; no script uses the
// rest. A text is searched from its beginning on, so that the anchor there needs no more.
func patternOf(text string) *regexp.Regexp {
	if p, known := patterns.Load(text); known {
		return p.(*regexp.Regexp)
	}
	r := patternReader{rest: text}
	p, err := regexp.Compile(r.translate())
	if err != nil {
		Raise("malformed pattern")
	}
	patterns.Store(text, p)
	return p
}

// patternReader reads the text of a pattern.
type patternReader struct{ rest string }

func (r *patternReader) take() byte {
	if r.rest == "" {
		Raise("malformed pattern")
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *patternReader) translate() string {
	var b strings.Builder
	b.WriteString("(?s)")
	if rest, anchored := strings.CutPrefix(r.rest, "^"); anchored {
		b.WriteString("^")
		r.rest = rest
	}
	for r.rest != "" {
		switch c := r.take(); {
		case c == '(' && strings.HasPrefix(r.rest, ")"):
			Raise("the capture of a position is not supported")
		case c == '(' || c == ')':
			b.WriteByte(c)
			continue
		case c == '$' && r.rest == "":
			b.WriteByte(c)
		case c == '.':
			b.WriteByte(c)
		case c == '%':
			b.WriteString("[" + classOf(r.take()) + "]")
		case c == '[':
			b.WriteString(r.set())
		default:
			b.WriteString(regexp.QuoteMeta(string([]byte{c})))
		}
		if r.rest != "" && strings.IndexByte("*+-?", r.rest[0]) >= 0 {
			b.WriteString(strings.Replace(string([]byte{r.take()}), "-", "*?", 1))
		}
	}
	return b.String()
}

// set translates a set, whose bracket was taken.
func (r *patternReader) set() string {
	set := "["
	if rest, without := strings.CutPrefix(r.rest, "^"); without {
		set, r.rest = "[^", rest
	}
	for c := r.take(); ; {
		switch {
		case c == '%':
			set += classOf(r.take())
		case len(r.rest) > 1 && r.rest[0] == '-' && r.rest[1] != ']':
			r.take()
			set += literal(c) + "-" + literal(r.take())
		default:
			set += literal(c)
		}
		if c = r.take(); c == ']' {
			return set + "]"
		}
	}
}

// literal is a byte within a set.
func literal(b byte) string { return regexp.QuoteMeta(string([]byte{b})) }

// classes are the classes of Lua, as parts of a set.
var classes = map[byte]string{
	'a': "[:alpha:]", 'c': "[:cntrl:]", 'd': "[:digit:]", 'l': "[:lower:]", 'p': "[:punct:]", 's': "[:space:]",
	'u': "[:upper:]", 'w': "[:alnum:]", 'x': "[:xdigit:]",
}

// classOf translates a class such as %d, its complement %D, or the byte itself if it is no letter.
func classOf(class byte) string {
	lower := class | 0x20
	switch text, known := classes[lower]; {
	case known && class == lower:
		return text
	case known:
		return strings.Replace(text, "[:", "[:^", 1)
	case lower >= 'a' && lower <= 'z' || class >= '0' && class <= '9':
		raisef("the class %%%c is not supported", class)
		return ""
	case class == '-':
		return `\-`
	default:
		return literal(class)
	}
}

// search finds the first match of a pattern, and returns the bounds of the match and of its captures in the text, or nil.
func search(pattern, text string, from int) []int {
	bounds := patternOf(pattern).FindStringSubmatchIndex(text[from:])
	for i := range bounds {
		bounds[i] += from
	}
	return bounds
}

// captured returns the captures. Without any, it returns the whole match if whole is set.
func captured(text string, bounds []int, whole bool) []Value {
	if parts := bounds[2:]; len(parts) > 0 || !whole {
		bounds = parts
	}
	values := make([]Value, len(bounds)/2)
	for i := range values {
		values[i] = text[bounds[2*i]:bounds[2*i+1]]
	}
	return values
}

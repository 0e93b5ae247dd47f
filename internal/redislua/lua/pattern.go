package lua

import (
	"regexp"
	"strings"
	"sync"
)

// patterns has the patterns that were used before, by their text.
var patterns sync.Map

// classes are the classes of Lua that scripts use, as parts of a set.
var classes = map[byte]string{'d': "[:digit:]", 'w': "[:alnum:]"}

// patternOf translates a pattern of Lua into one of Go. Scripts use anchors at the ends, sets of bytes, classes, captures,
// and greedy repetitions, which Go writes alike. A text is searched from its beginning on, so the anchor there needs no more.
func patternOf(text string) *regexp.Regexp {
	if p, known := patterns.Load(text); known {
		return p.(*regexp.Regexp)
	}
	var b strings.Builder
	inSet := false
	for rest := text; rest != ""; rest = rest[1:] {
		switch c := rest[0]; {
		case c == '%' && len(rest) > 1:
			rest = rest[1:]
			class, known := classes[rest[0]]
			switch isLetter := rest[0]|0x20 >= 'a' && rest[0]|0x20 <= 'z'; {
			case known && inSet:
				b.WriteString(class)
			case known:
				b.WriteString("[" + class + "]")
			case isLetter:
				raisef("the class %%%c is not supported", rest[0])
			default:
				b.WriteString(regexp.QuoteMeta(rest[:1]))
			}
		case strings.IndexByte(".-%", c) >= 0:
			raisef("%c in a pattern is not supported", c)
		case strings.IndexByte("()[]^$*+?", c) >= 0:
			inSet = c == '[' || inSet && c != ']'
			b.WriteByte(c)
		default:
			b.WriteString(regexp.QuoteMeta(rest[:1]))
		}
	}
	p, err := regexp.Compile(b.String())
	if err != nil {
		Raise("malformed pattern")
	}
	patterns.Store(text, p)
	return p
}

// search finds the first match of a pattern, and returns the bounds of the match and of its captures in the text, or nil.
// There is none behind the end of the text.
func search(pattern, text string, from int) []int {
	if from > len(text) {
		return nil
	}
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

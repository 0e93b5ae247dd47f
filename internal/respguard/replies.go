package respguard

import (
	"bytes"
	"math"
)

// replies follows the bytes of a server, element by element, and finds the first that breaks a rule. An element is a line,
// a string, or the announcement of an aggregate.
type replies struct {
	// open are the aggregates that are not complete, the outermost first.
	open  [MaxDepth]aggregate
	depth int
	// size is the size of the reply so far. debt is the size of the replies before it to commands under way.
	size, debt int64

	messages messages
}

// aggregate is an array, a map or the like.
type aggregate struct {
	kind byte
	left int64
}

// scan follows p, up to the first element that breaks a rule, or that is not all there. It returns how many bytes before
// that one may be passed on.
func (r *replies) scan(p []byte) (whole int, err error) {
	for whole < len(p) {
		n, err := r.take(p[whole:])
		if n == 0 || err != nil {
			return whole, err
		}
		whole += n
	}
	return whole, nil
}

// take takes an element off p. It takes nothing if that is not all there.
func (r *replies) take(p []byte) (n int, err error) {
	kind := p[0]
	switch {
	case r.depth == 0:
		err = r.messages.begin(kind)
	case kind == '>':
		err = InnerPush
	default:
		err = r.messages.inner(kind)
	}
	if err != nil {
		return 0, err
	}
	switch kind {
	case '+', '-', ':', ',', '(':
		return r.line(p)
	case '_':
		return r.short(p, len("_\r\n"))
	case '#':
		if len(p) > 1 && p[1] != 't' && p[1] != 'f' {
			return 0, BadBoolean
		}
		return r.short(p, len("#t\r\n"))
	case '$', '=', '!':
		return r.text(p)
	case '*', '~', '%', '>', '|':
		return r.aggregate(p)
	case ';', '.':
		return 0, Streamed
	default:
		return 0, UnknownType
	}
}

// line takes a line.
func (r *replies) line(p []byte) (n int, err error) {
	end := bytes.IndexByte(p[1:min(len(p), 1+MaxLine)], '\n') + 1
	switch {
	case end == 0 && len(p) > MaxLine:
		return 0, LongLine
	case end == 0:
		return 0, nil
	case p[end-1] != '\r':
		return 0, NoLineEnd
	}
	if err := r.grow(int64(end)); err != nil {
		return 0, err
	}
	return end + 1, r.complete(p[0], p[1:end-1])
}

// short takes an element of this length.
func (r *replies) short(p []byte, length int) (n int, err error) {
	if all, err := ends(p, length-len("\r\n")); !all || err != nil {
		return 0, err
	}
	return length, r.complete(p[0], nil)
}

// ends reports whether all of a CRLF is there.
func ends(p []byte, at int) (all bool, err error) {
	switch {
	case at >= len(p):
		return false, nil
	case p[at] != '\r' || at+1 < len(p) && p[at+1] != '\n':
		return false, NoLineEnd
	default:
		return at+1 < len(p), nil
	}
}

// text takes a string.
func (r *replies) text(p []byte) (n int, err error) {
	length, at, err := header(p)
	switch {
	case err != nil:
		return 0, err
	case at == 0:
		return 0, nil
	case length < 0 && p[0] != '$':
		return 0, Negative
	case length < 0:
		if err := r.messages.empty(r.depth); err != nil {
			return 0, err
		}
		return at, r.complete(p[0], nil)
	case length > MaxString:
		return 0, LongString
	}
	if err := r.fits(length); err != nil {
		return 0, err // what is too large is not waited for
	}
	end := at + int(length)
	if all, err := ends(p, end); !all || err != nil {
		return 0, err
	}
	r.size += length
	return end + len("\r\n"), r.complete(p[0], p[at:end])
}

// aggregate takes the announcement of an aggregate.
func (r *replies) aggregate(p []byte) (n int, err error) {
	kind := p[0]
	length, at, err := header(p)
	switch {
	case err != nil:
		return 0, err
	case at == 0:
		return 0, nil
	case length < 0 && kind != '*':
		return 0, Negative
	case length > MaxElements:
		return 0, ManyValues
	case length > 0 && (kind == '%' || kind == '|'):
		length *= 2
	}
	if r.depth == 0 && length >= 0 {
		r.messages.values = length
	}
	reserved := max(0, length)
	if kind == '|' {
		reserved++ // empty attributes may follow each other for ever
	}
	if err := r.grow(reserved * ValueSize); err != nil {
		return 0, err
	}
	switch {
	case length <= 0:
		if err := r.messages.empty(r.depth); err != nil {
			return 0, err
		}
		return at, r.complete(kind, nil)
	case r.depth == MaxDepth:
		return 0, Deep
	}
	r.open[r.depth] = aggregate{kind, length}
	r.depth++
	return at, nil
}

const (
	// maxDigits is how many digits a length may have. The limits have fewer. Of a larger one, mostDigits are looked at.
	maxDigits  = 10
	mostDigits = 24
)

// header reads the length behind the type of a value, and its CRLF. What follows stands at the second result, which is 0
// if that is not all there. The length of a null is -1.
func header(p []byte) (length int64, at int, err error) {
	minus := len(p) > 1 && p[1] == '-'
	first := 1
	if minus {
		first++
	}
	for at = first; at < len(p) && p[at] != '\r'; at++ {
		switch b := p[at]; {
		case b == '?' && at == 1:
			return 0, 0, Streamed
		case b < '0' || b > '9' || at == mostDigits:
			return 0, 0, BadLength
		default:
			length = min(length*10+int64(b-'0'), math.MaxInt64/16)
		}
	}
	switch digits := at - first; {
	case at == len(p):
		return 0, 0, nil
	case digits == 0 || digits > maxDigits && length <= math.MaxUint32:
		return 0, 0, BadLength
	case minus && length != 1:
		return 0, 0, Negative
	case at+1 == len(p):
		return 0, 0, nil
	case p[at+1] != '\n':
		return 0, 0, NoLineEnd
	case minus:
		length = -1
	}
	return length, at + len("\r\n"), nil
}

func (r *replies) grow(n int64) error {
	err := r.fits(n)
	r.size += n
	return err
}

// fits returns the rule that the reply breaks if its size grows by n.
func (r *replies) fits(n int64) error {
	switch n += r.size; {
	case n > MaxReply:
		return LongReply
	case n+r.debt > MaxReplies:
		return LongReplies
	default:
		return nil
	}
}

// complete ends a value with its text, and each aggregate of which it is the last. An attribute is no value of its own: it
// stands before the value that it describes.
func (r *replies) complete(kind byte, text []byte) error {
	for ; kind != '|'; text = nil {
		if r.depth == 0 {
			return r.end()
		}
		if r.depth == 1 && r.messages.listening {
			if err := r.messages.endInner(text); err != nil {
				return err
			}
		}
		outer := &r.open[r.depth-1]
		if outer.left--; outer.left > 0 {
			return nil
		}
		kind = outer.kind
		r.depth--
	}
	return nil
}

func (r *replies) end() error {
	if !r.messages.message { // the client keeps replies until it has all that it waits for
		r.debt = max(0, r.debt+r.size-SmallReply)
	}
	r.size = 0
	if err := r.messages.end(); err != nil {
		return err
	}
	if r.messages.idle() {
		r.debt = 0
	}
	return nil
}

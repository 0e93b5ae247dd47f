package respguard

import "bytes"

// replies follows the bytes of a server, in any fragments, and finds the first that breaks a rule.
type replies struct {
	step replyStep
	// kind is the type of the value at hand.
	kind byte
	// number is the announced length, and then how many bytes of a string are still to come.
	number int64
	// digits is how many digits of the length have come, and minus whether it is negative.
	digits int
	minus  bool
	// line is how many bytes of the line have come, and last the last of them.
	line int
	last byte

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

type replyStep uint8

const (
	atType replyStep = iota
	inLine
	inLength
	atLengthLF
	inString
	atBoolean
	atCR
	atLF
)

// scan follows p, up to the first byte that breaks a rule. It returns how many bytes before that
// one may be passed on.
func (r *replies) scan(p []byte) (whole int, err error) {
	for whole < len(p) {
		n := r.wholeString(p[whole:])
		if n > 0 {
			err = r.complete('$')
		} else {
			n, err = r.take(p[whole:])
		}
		if err != nil {
			return whole, err
		}
		whole += n
	}
	return whole, nil
}

// wholeString takes a string inside of an aggregate, if all of it is there and it breaks no rule.
// Lists are made of those. It takes nothing of any other value.
func (r *replies) wholeString(p []byte) (n int) {
	if r.step != atType || r.depth == 0 || r.messages.listening || p[0] != '$' {
		return 0
	}
	length, at := header(p)
	end := at + length
	if at == 0 || length > MaxString || r.fits(int64(length)) != nil ||
		len(p) < end+len("\r\n") || p[end] != '\r' || p[end+1] != '\n' {
		return 0
	}
	r.size += int64(length)
	return end + len("\r\n")
}

// take takes at least one byte off p.
func (r *replies) take(p []byte) (n int, err error) {
	switch r.step {
	case atType:
		return 1, r.begin(p[0])
	case inLine:
		return r.readLine(p)
	case inLength:
		for n < len(p) && r.step == inLength && err == nil {
			err = r.readLength(p[n])
			n++
		}
		return n, err
	case atLengthLF:
		if p[0] != '\n' {
			return 0, NoLineEnd
		}
		return 1, r.enter()
	case inString:
		return r.skip(p), nil
	case atBoolean:
		r.step = atCR
		if p[0] != 't' && p[0] != 'f' {
			return 0, BadBoolean
		}
		return 1, nil
	case atCR:
		r.step = atLF
		if p[0] != '\r' {
			return 0, NoLineEnd
		}
		return 1, nil
	default:
		if p[0] != '\n' {
			return 0, NoLineEnd
		}
		return 1, r.complete(r.kind)
	}
}

// begin takes the type of a value.
func (r *replies) begin(kind byte) error {
	r.kind = kind
	switch kind {
	case '+', '-', ':', ',', '(':
		r.step, r.line, r.last = inLine, 0, 0
	case '$', '=', '!', '*', '~', '%', '>', '|':
		r.step, r.number, r.digits, r.minus = inLength, 0, 0, false
	case '_':
		r.step = atCR
	case '#':
		r.step = atBoolean
	case ';', '.':
		return Streamed
	default:
		return UnknownType
	}
	if r.depth == 0 {
		return r.messages.begin(kind)
	}
	if kind == '>' {
		return InnerPush
	}
	return r.messages.inner(kind, r.depth)
}

// readLine looks for the end of a line.
func (r *replies) readLine(p []byte) (n int, err error) {
	n = len(p)
	end := bytes.IndexByte(p, '\n')
	if end >= 0 {
		n = end + 1
	}
	r.messages.hear(p[:n])
	if r.line += n; r.line > MaxLine {
		return 0, LongLine
	}
	if end < 0 {
		r.last = p[n-1]
		return n, nil
	}
	if end > 0 {
		r.last = p[end-1]
	}
	if r.last != '\r' {
		return 0, NoLineEnd
	}
	if err := r.grow(int64(r.line)); err != nil {
		return 0, err
	}
	return n, r.complete(r.kind)
}

// readLength takes a byte of the line of a length.
func (r *replies) readLength(b byte) error {
	switch {
	case b == '?' && r.digits == 0 && !r.minus:
		return Streamed
	case b == '-' && r.digits == 0 && !r.minus && (r.kind == '$' || r.kind == '*'):
		r.minus = true
		return nil
	case b == '-' && r.digits == 0:
		return Negative
	case b == '\r' && r.digits > 0:
		return r.announce()
	case b < '0' || b > '9' || r.digits == maxDigits:
		return BadLength
	}
	r.digits++
	r.number = r.number*10 + int64(b-'0')
	return r.checkLength()
}

// maxDigits is how many digits a length may have. The limits have fewer.
const maxDigits = 10

// checkLength looks at the digits so far: a length that is too large is not waited for.
func (r *replies) checkLength() error {
	switch {
	case r.minus && r.number != 1:
		return Negative
	case r.ofString() && r.number > MaxString:
		return LongString
	case !r.ofString() && r.number > MaxElements:
		return ManyValues
	default:
		return nil
	}
}

func (r *replies) ofString() bool { return r.kind == '$' || r.kind == '=' || r.kind == '!' }

// announce takes a length at the CR behind it.
func (r *replies) announce() error {
	r.step = atLengthLF
	switch {
	case r.minus:
		return r.messages.empty(r.depth)
	case r.ofString():
		return r.grow(r.number)
	}
	if r.kind == '%' || r.kind == '|' {
		r.number *= 2
	}
	if r.depth == 0 {
		r.messages.values = r.number
	}
	reserved := r.number
	if r.kind == '|' {
		reserved++ // empty attributes may follow each other for ever
	}
	if err := r.grow(reserved * ValueSize); err != nil {
		return err
	}
	switch {
	case r.number == 0:
		return r.messages.empty(r.depth)
	case r.depth == MaxDepth:
		return Deep
	default:
		return nil
	}
}

// enter goes on behind the line of a length.
func (r *replies) enter() error {
	switch {
	case r.minus:
		return r.complete(r.kind)
	case r.ofString() && r.number > 0:
		r.step = inString
	case r.ofString():
		r.step = atCR
	case r.number == 0:
		return r.complete(r.kind)
	default:
		r.open[r.depth] = aggregate{r.kind, r.number}
		r.depth++
		r.step = atType
	}
	return nil
}

// skip takes bytes of a string.
func (r *replies) skip(p []byte) int {
	n := int(min(r.number, int64(len(p))))
	r.messages.hear(p[:n])
	if r.number -= int64(n); r.number == 0 {
		r.step = atCR
	}
	return n
}

// grow adds to the size of the reply.
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

// end ends an outermost value.
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

// complete ends a value, and each aggregate of which it is the last. An attribute is no value of
// its own: it stands before the value that it describes.
func (r *replies) complete(kind byte) error {
	r.step = atType
	for kind != '|' {
		if r.depth == 0 {
			return r.end()
		}
		if r.depth == 1 && r.messages.listening {
			if err := r.messages.endInner(); err != nil {
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

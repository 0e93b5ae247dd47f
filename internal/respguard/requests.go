package respguard

import (
	"bytes"
	"math"
)

// requests follows the commands that are sent: arrays of strings, in any fragments.
type requests struct {
	turns *turns
	// rest is the part of a length or an argument that was sent so far.
	rest []byte
	// arguments is how many arguments of the command there are, and left how many are to come.
	arguments, left int64
	order           order
	verb            verb
	sent            int64
}

// order is a command of which the guard must know more than that it was sent.
type order uint8

const (
	plain order = iota
	hello3
	role
	masterAddress
)

var (
	helloWord, roleWord, sentinelWord = []byte("hello"), []byte("role"), []byte("sentinel")
	addressWord                       = []byte("get-master-addr-by-name")
)

// scan counts the commands that end in p. It publishes them before p is written: the server may
// answer at once.
func (r *requests) scan(p []byte) {
	if r.turns.uncounted.Load() {
		return
	}
	if len(r.rest) > 0 {
		r.rest = append(r.rest, p...)
		p = r.rest
	}
	for len(p) > 0 {
		n := r.take(p)
		if r.turns.uncounted.Load() {
			return
		}
		if n == 0 {
			break
		}
		p = p[n:]
	}
	r.rest = append(r.rest[:0], p...)
	r.turns.asked.Store(r.sent)
}

// take takes the beginning of a command, or an argument. It takes nothing if that is not all there.
func (r *requests) take(p []byte) (n int) {
	length, at, err := header(p)
	switch {
	case err != nil, length > math.MaxInt32, r.left == 0 && p[0] != '*', r.left > 0 && p[0] != '$', at > 0 && (length < 0 || r.left+length == 0):
		r.giveUp()
		return 0
	case at == 0:
		return 0
	case r.left == 0:
		r.arguments, r.left = length, length
		return at
	}
	end := at + int(length) + len("\r\n")
	if len(p) < end {
		return 0
	}
	r.argument(p[at : at+int(length)])
	return end
}

// argument takes an argument, and counts the command if it is its last one.
func (r *requests) argument(word []byte) {
	switch r.arguments - r.left {
	case 0:
		r.order, r.verb = plain, 0
		switch {
		case bytes.EqualFold(word, helloWord):
			r.order = hello3
		case bytes.EqualFold(word, roleWord):
			r.order = role
		case bytes.EqualFold(word, sentinelWord):
			r.order = masterAddress
		default:
			r.verb = verbOf(word, bytes.EqualFold)
		}
	case 1:
		if r.order == hello3 && string(word) != "3" || r.order == masterAddress && !bytes.EqualFold(word, addressWord) {
			r.order = plain
		}
	}
	if r.left--; r.left == 0 {
		r.end()
	}
}

func (r *requests) end() {
	switch {
	case r.verb != 0 && r.arguments < 2: // there is a confirmation for each channel that there is
		r.giveUp()
		return
	case r.verb != 0:
		r.turns.expect(expected{command: r.sent, verb: r.verb, channels: r.arguments - 1})
	case r.order == role:
		r.turns.expect(expected{command: r.sent, values: 1})
	case r.arguments < 2:
	case r.order == hello3:
		r.turns.resp3.Store(true)
	case r.order == masterAddress:
		r.turns.expect(expected{command: r.sent, values: 2}) // host and port
	}
	r.sent++
}

// giveUp stops counting, as the number of answers is unknown. No client of this library sends such
// commands.
func (r *requests) giveUp() { r.turns.uncounted.Store(true) }

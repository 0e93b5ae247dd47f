package node

import (
	"strconv"

	"github.com/redis/rueidis"
)

// opRange is the operations that one command carries, of those of an exchange: from the first on,
// up to but not including the last. Together they are one call of the script for many.
type opRange struct{ from, to int }

// maxSpan bounds how long a script keeps the server from everybody else, and is well below what
// Lua can pass to one call.
const maxSpan = 256

// spans says which operations go together, without changing their order.
//
// One script call for many of them has one look at the marker and the clock, and costs the
// server, and this side, a fraction of a call for each.
func spans(into []opRange, ops []Op) []opRange {
	for from := 0; from < len(ops); {
		to := from + 1
		if first := &ops[from]; isBatchable(first) {
			tag := tagged(first.Names[0])
			for to < min(len(ops), from+maxSpan) && canJoin(first, tag, &ops[to]) {
				to++
			}
		}
		into = append(into, opRange{from, to})
		from = to
	}
	return into
}

// canJoin reports whether an operation can stand in one command with a common one before it, whose
// name has a tag or not. A release has no TTL, and cares for none.
func canJoin(first *Op, tag bool, next *Op) bool {
	return isBatchable(next) && first.Limits == next.Limits &&
		(first.TTL == next.TTL || next.Kind == Release) && tagged(next.Names[0]) == tag
}

// isBatchable reports whether an operation is one of those that come by the thousand: of one lock,
// for which nobody waits on its behalf, and no block for those who do without barging.
func isBatchable(op *Op) bool {
	switch op.Kind {
	case Acquire, Renew, Release:
		return len(op.Names) == 1 && !op.Reads && !op.ofPool() && op.Waiter.ID == "" && (op.Fair || op.Reserve == 0)
	default:
		return false
	}
}

// writer makes commands, in memory that it uses again for the next.
type writer struct {
	numerals digitBuffer
	packer   msgpackWriter
	args     []string
	forms    formCache
}

// begin begins the commands of another exchange, of so many operations.
func (w *writer) begin(operations int) {
	w.numerals.begin(2 * operations) // a token, and until when its fence lives
	w.packer.clear()
}

// evalsha is the command for some operations that names their script, eval the one that has it
// in full.
func evalsha(b rueidis.Builder, w *writer, ops []Op) rueidis.Completed {
	return w.command(b, ops, "EVALSHA", func(s *script) string { return s.sha })
}

func eval(b rueidis.Builder, w *writer, ops []Op) rueidis.Completed {
	return w.command(b, ops, "EVAL", func(s *script) string { return s.source })
}

func (w *writer) command(b rueidis.Builder, ops []Op, verb string, text func(*script) string) rueidis.Completed {
	w.args = w.args[:0]
	if len(ops) == 1 {
		op := &ops[0]
		if op.ofPool() {
			return w.ofPool(b, op, verb, text)
		}
		w.single(op)
		return b.Arbitrary(verb, text(w.scriptOf(op)), strconv.Itoa(len(op.Names))).Keys(op.Names...).Args(w.args...).Build()
	}
	w.add("0", w.packed(ops))
	return b.Arbitrary(verb, text(w.forms.of(formOfMany(&ops[0])))).Args(w.args...).Build()
}

func (w *writer) add(args ...string) { w.args = append(w.args, args...) }

// packed is what the header of the script for many says about operations.
func (w *writer) packed(ops []Op) string {
	p := &w.packer
	p.begin()
	p.add(milliseconds(ops[0].TTL))
	for i := range ops {
		op := &ops[i]
		p.add(scriptWord(op))
		p.add(op.Names[0])
		p.add(op.Owner)
		if op.Kind == Release {
			continue
		}
		p.addNumber(op.Token)
		if op.Kind == Acquire {
			p.addNumber(op.fenced())
		}
		if op.Kind == Acquire && op.Reserve > 0 {
			p.addNumber(op.end())
		}
	}
	return p.end()
}

// scriptWord is the one by which the script for many knows what to do.
func scriptWord(op *Op) string {
	switch {
	case op.Kind == Acquire && op.Reserve > 0:
		return "reserve"
	case op.Kind == Acquire && op.Fair:
		return "acquire"
	case op.Kind == Acquire:
		return "barge"
	case op.Kind == Renew:
		return "renew"
	case op.Announce:
		return "announce"
	default:
		return "release"
	}
}

// fenced is until when the fence lives that an acquisition leaves: a recovery past its last token, in
// milliseconds. To calculate it costs a script nine times what it costs to be given it.
func (op *Op) fenced() uint64 { return op.end()/1000 + uint64(op.Limits.Recovery().Milliseconds()) }

// single adds the ARGV that the header of the operation's own script names.
func (w *writer) single(op *Op) {
	if op.Reads && op.Kind <= Release {
		w.singleReader(op)
		return
	}
	switch op.Kind {
	case Acquire:
		w.add(op.Owner, milliseconds(op.TTL), w.numerals.unsigned(op.Token), w.numerals.unsigned(op.fenced()))
		if op.Reserve > 0 || op.Waiter.ID != "" {
			w.add(w.numerals.unsigned(op.end()))
		}
		if op.Waiter.ID != "" {
			w.add(op.Waiter.ID, w.numerals.signed(op.Waiter.Ticket), milliseconds(op.Waiter.Keep))
		}
	case Renew:
		w.add(op.Owner, milliseconds(op.TTL), w.numerals.unsigned(op.Token))
	case Release:
		w.add(op.Owner)
		w.rejoining(op)
	case Leave:
		w.add(op.Waiter.ID)
	case ForceRelease:
		w.add(milliseconds(op.TTL), flag(op.Announce))
		w.add(op.Buried...)
	case Mark:
		w.add(milliseconds(op.Limits.MaxTTL), milliseconds(op.Limits.MaxClockSkew))
	case Latch, Unlatch:
		w.latch(op)
	case Open:
		found := op.found()
		w.add(milliseconds(op.Limits.MaxTTL), milliseconds(op.Limits.MaxClockSkew),
			found.Identity, w.numerals.signed(found.Until))
	}
}

// singleReader does that for the operations of a reader.
func (w *writer) singleReader(op *Op) {
	w.add(op.Owner)
	switch op.Kind {
	case Acquire:
		w.add(milliseconds(op.TTL), milliseconds(op.Limits.MaxTTL), milliseconds(op.Limits.MaxClockSkew), flag(op.Fair),
			w.numerals.unsigned(op.Token), w.numerals.unsigned(op.Floor))
		if op.Waiter.ID != "" {
			w.add(op.Waiter.ID, w.numerals.signed(op.Waiter.Ticket), milliseconds(op.Waiter.Keep))
		}
	case Renew:
		w.add(milliseconds(op.TTL), milliseconds(op.Limits.MaxTTL), milliseconds(op.Limits.MaxClockSkew), w.numerals.unsigned(op.Token))
		if op.Waiter.ID != "" {
			w.add(op.Waiter.ID)
		}
	default: // Release
		w.add(flag(op.Announce))
		w.rejoining(op)
	}
}

// rejoining adds on whose behalf a release is, and whether it waits on.
func (w *writer) rejoining(op *Op) {
	if op.Waiter.ID != "" {
		w.add(op.Waiter.ID)
	}
	if op.Waiter.ID != "" && op.Waiter.Keep > 0 {
		w.add(w.numerals.signed(op.Waiter.Ticket), milliseconds(op.Waiter.Keep))
	}
}

// flag writes a truth for a script.
func flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

package node

import (
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// opRange is a range of the operations of an exchange that one command carries: from the first up to, but not
// including, the last. Together they are one call of the script many. whole is set if the command is for one operation and declares all keys.
type opRange struct {
	from, to int
	whole    bool
}

// maxSpan bounds how long a script blocks the server, and is well below what Lua can pass to one call.
const maxSpan = 256

// spans splits the operations into ranges, without changing their order.
//
// One script call for a range reads the marker and the clock once. That costs the server and this side a
// fraction of one call for each operation.
func spans(into []opRange, ops []wire.Op) []opRange {
	var shared []bool
	for from := 0; from < len(ops); {
		to := from + 1
		if first := &ops[from]; isBatchable(first) && (shared == nil || !shared[from]) {
			for to < min(len(ops), from+maxSpan) && canJoin(first, &ops[to]) && (shared == nil || !shared[to]) {
				to++
			}
		}
		if from == 0 && to < len(ops) && shared == nil {
			if shared = sharedNames(ops); shared != nil {
				continue
			}
		}
		into = append(into, opRange{from, to, shared != nil && shared[from]})
		from = to
	}
	return into
}

// sharedNames reports for which operations another one concerns the same name or pool, or a name with the same place for its
// fence, and is nil if there are none. Those that are not in one command must not run again, since each would come behind
// the others.
func sharedNames(ops []wire.Op) (shared []bool) {
	var seen, twice [fencePlaces / 64]uint64
	places := func(op *wire.Op, visit func(word, bit uint64)) {
		for _, name := range op.Names {
			place := uint64(fencePlace(name))
			visit(place/64, 1<<(place%64))
		}
		if op.Pool.Name != "" {
			place := uint64(fencePlace(op.Pool.Name))
			visit(place/64, 1<<(place%64))
		}
	}
	for i := range ops {
		places(&ops[i], func(word, bit uint64) {
			twice[word] |= seen[word] & bit
			seen[word] |= bit
		})
	}
	for i := range ops {
		places(&ops[i], func(word, bit uint64) {
			if twice[word]&bit != 0 {
				if shared == nil {
					shared = make([]bool, len(ops))
				}
				shared[i] = true
			}
		})
	}
	return shared
}

// canJoin reports whether next can share a command with first. A release has no TTL, so it can join any.
func canJoin(first, next *wire.Op) bool {
	return isBatchable(next) && first.Limits == next.Limits && (first.TTL == next.TTL || next.Kind == wire.Release)
}

// isBatchable reports whether the script many supports an operation: one of a frequent kind for one lock, without a
// waiter, with a block of tokens only in FIFO order, and for a reader without a larger token or an announcement.
func isBatchable(op *wire.Op) bool {
	return operationOf(op).batchable && len(op.Names) == 1 && op.Waiter.ID == "" && (op.Fair || op.Reserve == 0) &&
		(!op.Reads || op.Floor == 0 && !op.Announce) && wire.MayBeLock(op.Names[0])
}

// An operation has to run again, alone, if its reply is errKeys, as the script needs more keys than were declared, or errApart,
// as the server refused its command because of another one. A batch has to run again if its replies are errQueues, as the
// node may have queues. Nothing has changed then. No caller of the node sees these.
var (
	errKeys   = fmt.Errorf("%w: KEYS", errProtocol)
	errApart  = fmt.Errorf("%w: refused", errProtocol)
	errQueues = fmt.Errorf("%w: queues", errProtocol)
)

// moreRounds bounds how often an operation runs again: in a batch with the queues, and then alone, with few keys and with all.
const moreRounds = 3

// smallBatch is the most operations that run again alone, with all keys, once they were refused for queues. That saves a round
// trip if a name has a queue. Each round costs one, and a sender that is not used to it takes a node that needs three for slow.
// A server that has lost its scripts gets the text of each.
const smallBatch = 8

// runsAgain reports whether an operation with this error has to run again.
func runsAgain(err error) bool {
	return err == errKeys || err == errApart || err == errQueues //nolint:errorlint // never wrapped
}

// unfinished returns ranges of the operations that have to run again, and nil if there are none. An
// operation that shares a name with another one declares all keys, since it must not ask for them and then come behind the other.
func unfinished(spans []opRange, ops []wire.Op, replies []wire.Reply) (again []opRange) {
	var shared []bool
	for _, s := range spans {
		if replies[s.from].Err == errQueues && s.to-s.from > smallBatch { //nolint:errorlint // never wrapped
			again = append(again, opRange{s.from, s.to, false})
			continue
		}
		for i := s.from; i < s.to; i++ {
			err := replies[i].Err
			if !runsAgain(err) {
				continue
			}
			if shared == nil {
				if shared = sharedNames(ops); shared == nil {
					shared = make([]bool, len(ops))
				}
			}
			whole := err == errKeys || err == errQueues && ops[i].Kind != wire.Renew //nolint:errorlint // never wrapped
			again = append(again, opRange{i, i + 1, whole || shared[i]})
		}
	}
	return again
}

// failRanges sets the replies to operations that do not run again.
func failRanges(again []opRange, replies []wire.Reply, err error) {
	for _, s := range again {
		for i := s.from; i < s.to; i++ {
			replies[i] = wire.Reply{Err: err}
		}
	}
}

// losesConnection reports whether the exchange with this reply gives the connection up.
func losesConnection(r wire.Reply) bool {
	return r.Err != nil && !runsAgain(r.Err) && endsConnection(reasonOf(r.Err), r.Err)
}

// writer makes commands. It reuses its memory for the next ones.
type writer struct {
	numerals digitBuffer
	packer   msgpackWriter
	keys     []string
	args     []string
	forms    formCache
	// place is the place of the identity, in all forms.
	place int
	// tag is the hash tag of a slot of a cluster, or "".
	tag string
	// blind is set for a server that shows scripts no identity. blindScripts has the scripts for that, by their usual digest.
	blind        bool
	blindScripts map[string]*script
	// whole makes calls declare all keys, also those that are rarely used. queued makes calls of many declare the queues: from the
	// first that was refused without them, to the first that finds none.
	whole, queued bool
}

// form returns the script in this form.
func (w *writer) form(f scriptForm) *script {
	f.place, f.blind = w.place, w.blind
	if w.blind {
		f.place = unseenPlace
	}
	return w.forms.of(f)
}

// own returns a script that has no form, for this node.
func (w *writer) own(s *script) *script {
	if !w.blind {
		return s
	}
	own, ok := w.blindScripts[s.sha]
	if !ok {
		made := hashed(fitted(s.source, true))
		own = &made
		if w.blindScripts == nil {
			w.blindScripts = make(map[string]*script)
		}
		w.blindScripts[s.sha] = own
	}
	return own
}

// fitted returns the text of a script on a server that is blind or not.
func fitted(source string, blind bool) string {
	if blind {
		return blindfold.Replace(source)
	}
	return source
}

// evalsha makes the command that names the operations' script by its digest; eval makes the one with the full
// text.
func evalsha(b rueidis.Builder, w *writer, ops []wire.Op) rueidis.Completed {
	s := w.call(ops)
	return w.command(b, "EVALSHA", s.sha)
}

func eval(b rueidis.Builder, w *writer, ops []wire.Op) rueidis.Completed {
	s := w.call(ops)
	return w.command(b, "EVAL", s.source)
}

func (w *writer) command(b rueidis.Builder, verb, text string) rueidis.Completed {
	return b.Arbitrary(verb, text, strconv.Itoa(len(w.keys))).Keys(w.keys...).Args(w.args...).Build()
}

// call returns the script for operations, and leaves its KEYS and its ARGV in w.
func (w *writer) call(ops []wire.Op) *script {
	w.keys, w.args = w.keys[:0], w.args[:0]
	if len(ops) > 1 {
		w.add(w.packed(ops))
		w.keysOfMany(ops, w.queued)
		return w.form(formOfMany(&ops[0], w.queued))
	}
	op := &ops[0]
	o := operationOf(op)
	o.args(w, op)
	if o.batchable && w.isLone(op) {
		w.declareLone(op)
		if op.Kind != wire.Release {
			w.declareFixed()
		}
	} else {
		o.keys(w, op)
	}
	if o.formed {
		return w.form(formOf(op))
	}
	return w.own(&o.script)
}

func (w *writer) add(args ...string) { w.args = append(w.args, args...) }

// packed makes the argument of the script many, as its header describes.
func (w *writer) packed(ops []wire.Op) string {
	p := &w.packer
	p.begin()
	p.add(milliseconds(ops[0].TTL))
	for i := range ops {
		op := &ops[i]
		p.add(scriptWord(op))
		p.add(op.Owner)
		if op.Kind != wire.Release {
			p.addNumber(op.Token)
		}
		at := fenceOffset(op.Names[0])
		p.addNumber(at)
		if op.Kind != wire.Release {
			p.addNumber(at + fenceWidth - 1)
		}
		switch {
		case op.Kind != wire.Acquire:
		case op.Pool.Name != "":
			p.addNumber(uint64(op.Pool.Size)) //nolint:gosec // never negative
			p.addNumber(op.Pool.Version)
		case op.Reserve > 0:
			p.addNumber(op.End())
		}
	}
	return p.end()
}

// scriptWord returns the word for the operation in the argument of the script many.
func scriptWord(op *wire.Op) string {
	switch {
	case op.Kind == wire.Renew && wire.IndexRest(op.Names[0]) != "":
		return "extend"
	case op.Kind == wire.Renew:
		return "renew"
	case op.Pool.Name != "" && op.Kind == wire.Acquire:
		return "slot"
	case op.Pool.Name != "":
		return "vacate"
	case op.Reads && op.Kind == wire.Acquire:
		return "read"
	case op.Reads:
		return "unread"
	case op.Kind == wire.Acquire && op.Reserve > 0:
		return "reserve"
	case op.Kind == wire.Acquire && op.Fair:
		return "acquire"
	case op.Kind == wire.Acquire:
		return "barge"
	case op.Announce:
		return "announce"
	default:
		return "release"
	}
}

func (w *writer) limits(op *wire.Op) {
	w.recovery(op)
	w.add(milliseconds(op.Limits.MaxTTL) + " " + milliseconds(op.Limits.MaxClockSkew))
}

func (w *writer) recovery(op *wire.Op) { w.add(milliseconds(op.Limits.Recovery())) }

func (w *writer) acquire(op *wire.Op) {
	last, usual := op.End(), op.Token
	if op.Reads {
		last, usual = op.Floor, 0
	}
	more := last != usual || op.Waiter.ID != ""
	w.right(op, more)
	if more {
		w.add(w.numerals.unsigned(last))
	}
	w.waiting(op)
}

func (w *writer) renew(op *wire.Op) {
	w.right(op, op.Waiter.ID != "")
	if op.Waiter.ID != "" {
		w.add(op.Waiter.ID)
	}
}

// right adds what the scripts that give rights have in common: the TTL only if more follows, or if it is not MaxTTL.
func (w *writer) right(op *wire.Op, more bool) {
	w.add(op.Owner, w.numerals.unsigned(op.Token), w.fences(op), w.numerals.unsigned(fenceOffset(op.Names[0])+fenceWidth-1))
	if more || op.TTL != op.Limits.MaxTTL {
		w.add(milliseconds(op.TTL))
	}
}

func (w *writer) release(op *wire.Op) {
	w.add(op.Owner)
	if !w.isLone(op) {
		w.add(w.fences(op))
		w.rejoining(op)
	}
}

func (w *writer) inspect(op *wire.Op) {
	w.add(w.fences(op))
	w.recovery(op)
}

func (w *writer) shorten(op *wire.Op) { w.add(op.Owner, milliseconds(op.TTL), flag(op.Announce)) }

func (w *writer) leave(op *wire.Op) { w.add(op.Waiter.ID) }

func (w *writer) forceRelease(op *wire.Op) {
	w.add(milliseconds(op.TTL), flag(op.Announce), op.Owner)
	w.add(op.Buried...)
}

func (w *writer) once(op *wire.Op) {
	w.recovery(op)
	w.add(op.Owner, milliseconds(op.TTL))
}

func (w *writer) open(op *wire.Op) {
	w.recovery(op)
	found := op.Found()
	w.add(found.Identity, w.numerals.signed(found.Since))
}

// waiting adds the waiter of an acquisition.
func (w *writer) waiting(op *wire.Op) {
	if op.Waiter.ID != "" {
		w.add(op.Waiter.ID, w.numerals.signed(op.Waiter.Ticket), milliseconds(op.Waiter.Keep))
	}
}

// rejoining adds the waiter of a release, and whether it keeps waiting.
func (w *writer) rejoining(op *wire.Op) {
	if op.Waiter.ID != "" {
		w.add(op.Waiter.ID)
	}
	if op.Waiter.ID != "" && op.Waiter.Keep > 0 {
		w.add(w.numerals.signed(op.Waiter.Ticket), milliseconds(op.Waiter.Keep))
	}
}

// flag writes a bool for a script.
func flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

package node

import (
	"strconv"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// opRange is a range of the operations of an exchange that one command carries: from the first up to, but not
// including, the last. Together they are one call of the script many.
type opRange struct{ from, to int }

// maxSpan bounds how long a script blocks the server, and is well below what Lua can pass to one call.
const maxSpan = 256

// spans splits the operations into ranges, without changing their order.
//
// One script call for a range reads the marker and the clock once. That costs the server and this side a
// fraction of one call for each operation.
func spans(into []opRange, ops []wire.Op) []opRange {
	for from := 0; from < len(ops); {
		to := from + 1
		if first := &ops[from]; isBatchable(first) {
			tag := wire.Tagged(first.Names[0])
			for to < min(len(ops), from+maxSpan) && canJoin(first, tag, &ops[to]) {
				to++
			}
		}
		into = append(into, opRange{from, to})
		from = to
	}
	return into
}

// canJoin reports whether next can share a command with first, whose name has a hash tag or not. A release
// has no TTL, so it can join any.
func canJoin(first *wire.Op, tag bool, next *wire.Op) bool {
	return isBatchable(next) && first.Limits == next.Limits &&
		(first.TTL == next.TTL || next.Kind == wire.Release) && wire.Tagged(next.Names[0]) == tag
}

// isBatchable reports whether the script many supports an operation: one of a frequent kind for one lock, without a
// waiter, and with a block of tokens only in FIFO order.
func isBatchable(op *wire.Op) bool {
	return operationOf(op).batchable && len(op.Names) == 1 && op.Waiter.ID == "" && (op.Fair || op.Reserve == 0)
}

// writer makes commands. It reuses its memory for the next ones.
type writer struct {
	numerals digitBuffer
	packer   msgpackWriter
	args     []string
	forms    formCache
	// place is the place of the identity, in all forms.
	place int
	// tag is the hash tag of a slot of a cluster, or "", and blind is set for a server that shows scripts no identity.
	// ownScripts has the scripts for that, by their digest for other nodes.
	tag        string
	blind      bool
	ownScripts map[string]*script
}

// form returns the script in this form.
func (w *writer) form(f scriptForm) *script {
	f.place, f.tag, f.blind = w.place, w.tag, w.blind
	if w.blind {
		f.place = unseenPlace
	}
	return w.forms.of(f)
}

// own returns a script that has no form, for this node.
func (w *writer) own(s *script) *script {
	if w.tag == "" && !w.blind {
		return s
	}
	own, ok := w.ownScripts[s.sha]
	if !ok {
		made := hashed(fitted(s.source, w.tag, w.blind))
		own = &made
		if w.ownScripts == nil {
			w.ownScripts = make(map[string]*script)
		}
		w.ownScripts[s.sha] = own
	}
	return own
}

// fitted returns the text of a script for a node with this tag, or on a blind server.
func fitted(source, tag string, blind bool) string {
	if blind {
		source = blindfold.Replace(source)
	}
	return inSlot(source, tag)
}

// evalsha makes the command that names the operations' script by its digest; eval makes the one with the full
// text.
func evalsha(b rueidis.Builder, w *writer, ops []wire.Op) rueidis.Completed {
	return w.command(b, ops, "EVALSHA", func(s *script) string { return s.sha })
}

func eval(b rueidis.Builder, w *writer, ops []wire.Op) rueidis.Completed {
	return w.command(b, ops, "EVAL", func(s *script) string { return s.source })
}

func (w *writer) command(b rueidis.Builder, ops []wire.Op, verb string, text func(*script) string) rueidis.Completed {
	c := w.call(ops)
	command := b.Arbitrary(verb, text(c.script), strconv.Itoa(c.numKeys()))
	if c.pool != "" {
		command = command.Keys(c.pool)
	}
	return command.Keys(c.keys...).Args(w.args...).Build()
}

// call is a call of a script, without its ARGV. The name of a pool is the first of its KEYS.
type call struct {
	script *script
	pool   string
	keys   []string
}

func (c call) numKeys() int {
	if c.pool != "" {
		return len(c.keys) + 1
	}
	return len(c.keys)
}

// call returns the call for operations, and leaves its ARGV in w.args.
func (w *writer) call(ops []wire.Op) call {
	w.args = w.args[:0]
	if len(ops) > 1 {
		w.add(w.packed(ops))
		return call{script: w.form(formOfMany(&ops[0])), keys: w.ownKeys()}
	}
	op := &ops[0]
	o := operationOf(op)
	o.args(w, op)
	c := call{keys: op.Names}
	if o.formed {
		c.script = w.form(formOf(op))
	} else {
		c.script = w.own(&o.script)
	}
	if o.nameless {
		c.keys = nil
	}
	switch {
	case o.pools:
		c.pool = op.Pool.Name
	case op.Kind == wire.Enlist:
		c.keys = []string{op.List.Key}
	case len(c.keys) == 0:
		c.keys = w.ownKeys()
	}
	return c
}

// ownKeys returns the keys to declare for a script without names. A server of a cluster runs a script only if it owns
// the slot of a declared key, so a cluster gets the marker's.
func (w *writer) ownKeys() []string {
	if w.tag == "" {
		return nil
	}
	return []string{wire.MarkerKey(w.tag)}
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
		p.add(op.Names[0])
		p.add(op.Owner)
		if op.Kind != wire.Release {
			p.addNumber(op.Token)
		}
		p.addNumber(fenceOffset(op.Names[0]))
		if op.Kind == wire.Acquire && op.Reserve > 0 {
			p.addNumber(op.End())
		}
	}
	return p.end()
}

// scriptWord returns the word for the operation in the argument of the script many.
func scriptWord(op *wire.Op) string {
	switch {
	case op.Kind == wire.Acquire && op.Reserve > 0:
		return "reserve"
	case op.Kind == wire.Acquire && op.Fair:
		return "acquire"
	case op.Kind == wire.Acquire:
		return "barge"
	case op.Kind == wire.Renew:
		return "renew"
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
	w.renew(op)
	if op.Reserve > 0 || op.Waiter.ID != "" {
		w.add(w.numerals.unsigned(op.End()))
	}
	w.waiting(op)
}

func (w *writer) renew(op *wire.Op) {
	w.add(op.Owner, milliseconds(op.TTL), w.numerals.unsigned(op.Token), w.fences(op))
}

func (w *writer) release(op *wire.Op) {
	w.add(op.Owner, w.fences(op))
	w.rejoining(op)
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

func (w *writer) acquireRead(op *wire.Op) {
	w.add(op.Owner, milliseconds(op.TTL))
	w.limits(op)
	w.add(flag(op.Fair), w.numerals.unsigned(op.Token), w.numerals.unsigned(op.Floor), w.fences(op))
	w.waiting(op)
}

func (w *writer) renewRead(op *wire.Op) {
	w.add(op.Owner, milliseconds(op.TTL))
	w.limits(op)
	w.add(w.numerals.unsigned(op.Token), w.fences(op))
	if op.Waiter.ID != "" {
		w.add(op.Waiter.ID)
	}
}

func (w *writer) releaseRead(op *wire.Op) {
	w.add(op.Owner, flag(op.Announce), w.fences(op))
	w.rejoining(op)
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

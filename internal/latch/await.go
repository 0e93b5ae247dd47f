package latch

import (
	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Await waits until enough ids have counted down.
func (x *Call) Await() (o Outcome) {
	var w *watcher
	defer func() {
		if w != nil {
			x.leave(w, o.ok())
		}
	}()
	var seen *decision.LatchView // the last result
	var last Outcome             // of the last round that was not cut short
	for {
		r := x.watching(w, seen)
		v, o := x.read(r, true)
		switch {
		case o.CutShort && last.Result != Done: // the complete round says more
			last.Stopped = o.Stopped
			return last
		case o.Stopped != NotStopped:
			return o
		case v.Known && seen != nil && v.Generation != seen.Generation:
			return Outcome{Result: Deleted}
		case o.Result != Done && (o.Result != NoQuorum || r.isHopeless()):
			return o
		case o.ok() && v.Done():
			return Outcome{}
		case v.Known:
			seen = &v
		}
		if w == nil {
			w = x.latches.watchers.add(x.name)
		}
		if last = o; o.ok() {
			last = Outcome{Result: Open, Left: v.Left(), Count: v.Count}
		}
		if last.Stopped = w.wait(x.ctx); last.Stopped != NotStopped {
			return last
		}
	}
}

// watching returns a round that lists all ids, and lets the nodes report more of them to a watcher. The
// round repeats the ids that were seen, so that an id is not lost once a waiter has read it.
func (x *Call) watching(w *watcher, seen *decision.LatchView) *round {
	r := newRead(x.latches, x.name, x.ttl)
	r.enough = func(v *decision.LatchView) bool {
		return v.Holders >= x.latches.need || v.Left() > 0 && v.Rival == 0
	}
	if w != nil {
		r.inboxes = w.begin()
	}
	if seen != nil {
		r.known, r.generation = seen.IDs, seen.Generation
	}
	return r
}

// leave ends the wait of a watcher. It tells the nodes to forget the client, unless the latch is
// done or another call of this client waits for it.
func (x *Call) leave(w *watcher, done bool) {
	l := x.latches
	if others := l.watchers.remove(w); others || done {
		return
	}
	l.submit(w.entered, wire.Op{
		Kind: wire.Latch, Names: []string{x.name}, TTL: x.ttl, Token: l.env.Tokens.Propose(x.name),
		Latch: &wire.LatchOp{Inbox: l.env.Inbox},
	}, dispatch.Ignore, func(int, error) {}) // if it is lost, the node forgets the client later
	l.watchers.wake(x.name) // the nodes may just have been told to forget them
}

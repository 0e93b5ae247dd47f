package quorumlock

import (
	"context"
	"errors"
	"math/bits"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// latchCall is one call of a method of a latch, on whoever's goroutine it is.
type latchCall struct {
	latch *Latch
	ctx   context.Context //nolint:containedctx // it lives as long as the call whose context it is
	op    string
	need  int
	// rounds counts how often the nodes were asked.
	rounds int
	// seen is the latest generation that it was told of, or its client before.
	seen uint64

	// mu is held while something is submitted, left is set once it does not wait any more.
	mu   sync.Mutex
	left bool
	// glanced is the last round that read sizes only.
	glanced *latchRound
	// copies are what it has read of the ids on the nodes.
	copies []*latchCopy
}

// copyOf is what the call has read of the ids on a node.
func (x *latchCall) copyOf(i int) *latchCopy {
	if x.copies == nil { // the first round that reads makes them
		x.copies = make([]*latchCopy, x.latch.client.nodes.Len())
		for i := range x.copies {
			x.copies[i] = &latchCopy{}
		}
	}
	return x.copies[i]
}

// propose makes a token that is larger than all that were seen with this latch.
func (x *latchCall) propose() uint64 { return x.latch.client.tokens.propose(x.latch.name[:], 0) }

// earliest is the token under which the nodes set the latch and count down: smaller than that of a
// deletion which is called later, by whatever clock within MaxClockSkew of this one. So what
// arrives late does nothing in a generation that began after this call, but for one of which it was
// told while it was under way.
func (x *latchCall) earliest(token uint64) uint64 {
	return max(x.before(token), x.seen+1)
}

// before is a token from MaxClockSkew before another.
func (x *latchCall) before(token uint64) uint64 {
	return token - min(token, uint64(x.latch.client.cfg.limits().MaxClockSkew.Microseconds()))
}

// ask makes a round, and returns what it came to. The error is of the context or the client.
func (x *latchCall) ask(r *latchRound) (quorum.LatchView, error) {
	x.rounds++
	r.call = x
	r.send()
	var err error
	select {
	case <-r.decided:
	case <-x.ctx.Done():
		err = whyDone(x.ctx)
	case <-x.latch.client.quit:
		err = ErrClosed
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := x.latch.client; c.tokens.plausible(r.latest(), c.tokens.now()) {
		x.seen = max(x.seen, r.latest())
		c.generations.saw(x.latch.name[0], x.seen, x.before(r.token))
	}
	if r.any { // whoever answers later may know of a deletion after this call
		r.any, r.generation = false, r.latest()
	}
	x.latch.client.tokens.saw(r.token, x.latch.name[0])
	if err != nil && !errors.Is(err, ErrClosed) {
		err = gaveUp(errors.Join(r.noQuorum(), errCutShort), err)
	}
	if r.over {
		return r.outcome, err
	}
	return r.view(), err
}

// short is the error of a round that did not come to enough.
func (r *latchRound) short() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.noQuorum()
}

// persist makes attempts until one succeeds, or fails for another reason than that too few
// nodes agree, or more of them cannot help.
func (x *latchCall) persist(attempt func() (*latchRound, error)) error {
	for n := 1; ; n++ {
		seen := x.seen
		r, err := attempt()
		var short *NoQuorumError
		if !errors.As(err, &short) || errors.Is(err, errCutShort) || r.hopeless() {
			return err
		}
		if x.seen > seen {
			continue // it was told what kept it from it
		}
		cfg := &x.latch.client.cfg
		if why := x.sleep(quorum.Backoff(n-1, cfg.RetryMin, cfg.RetryMax, cfg.Jitter()), nil); why != nil {
			return gaveUp(err, why)
		}
	}
}

// hopeless reports whether so many nodes reject this call for good that no attempt can
// succeed.
func (r *latchRound) hopeless() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	permanent := 0
	for _, err := range r.errs {
		var nodeErr *node.Error
		if errors.As(err, &nodeErr) &&
			(nodeErr.Permanent() || nodeErr.Reason == node.ErrClock && r.call.latch.client.tokens.timely(r.token)) { //nolint:errorlint // a reason is never wrapped
			permanent++
		}
	}
	return permanent > len(r.errs)-r.call.need
}

// sleep waits for so long, or until it is nudged, and says why it cannot.
func (x *latchCall) sleep(d time.Duration, nudged <-chan struct{}) error {
	c := x.latch.client
	late := make(chan struct{})
	timer := c.clock.AfterFunc(max(d, 0), func() { close(late) })
	defer timer.Stop()
	select {
	case <-late:
		return nil
	case <-nudged:
		return nil
	case <-x.ctx.Done():
		return whyDone(x.ctx)
	case <-c.quit:
		return ErrClosed
	}
}

// set sets the latch.
func (x *latchCall) set(n int) error {
	return x.persist(func() (*latchRound, error) {
		token := x.propose()
		r := &latchRound{kind: node.Latch, token: token, ask: node.LatchOp{Count: n, First: true, Since: token}}
		r.enough = func(v *quorum.LatchView) bool {
			return v.Known && (v.Chosen && v.Count != n || v.Count == n && v.Holders >= x.need)
		}
		v, err := x.ask(r)
		switch {
		case err != nil:
			return r, err
		case v.Known && v.Disputed, v.Known && v.Count > 0 && v.Count != n:
			return r, &LatchSetError{Name: x.latch.name[0], Count: r.other(&v, n), Chosen: v.Chosen}
		case !v.Known || v.Count == 0 || v.Holders < x.need:
			return r, r.short()
		default:
			return r, nil
		}
	})
}

// other is what a node says that the latch is set to, if not to n.
func (r *latchRound) other(v *quorum.LatchView, n int) int {
	if v.Count != n {
		return v.Count
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.answers {
		if a.Generation == v.Generation && a.Count != 0 && a.Count != n {
			return a.Count
		}
	}
	return 0
}

// countDown counts down for an id.
func (x *latchCall) countDown(id string) error {
	return x.persist(func() (*latchRound, error) {
		r := &latchRound{kind: node.Latch, token: x.propose(), ask: node.LatchOp{IDs: []string{id}}}
		r.known, r.any = r.ask.IDs, true
		r.enough = func(v *quorum.LatchView) bool { return v.Known && v.Holders >= x.need }
		v, err := x.ask(r)
		switch {
		case err != nil:
			return r, err
		case v.Known && v.Disputed:
			return r, &LatchSetError{Name: x.latch.name[0], Count: v.Count}
		case !v.Known || v.Holders < x.need:
			return r, r.short()
		case v.Count == 0:
			return r, x.latch.says(ErrLatchNotSet)
		}
		r.mu.Lock()
		forgetful := r.forgetful(&v)
		r.mu.Unlock()
		if forgetful {
			x.giveBack()
		}
		return r, nil
	})
}

// giveBack has the nodes that have lost their memory told what the others know. One call of the
// client does that for a latch at a time: it reads all ids.
func (x *latchCall) giveBack() {
	if refills, name := &x.latch.client.refills, x.latch.name[0]; refills.begin(name) {
		defer refills.end(name)
		_, _, _ = x.look(nil)
	}
}

// look reads all ids, and has the nodes agree on them. known is what the caller has seen before, or
// nil.
func (x *latchCall) look(known *quorum.LatchView) (*quorum.LatchView, latchGlance, error) {
	r := &latchRound{kind: node.Latch, token: x.propose(), ask: node.LatchOp{List: true}}
	if known != nil {
		r.known, r.generation = known.IDs, known.Generation
	}
	waits := x.op == latchAwait
	r.enough = func(v *quorum.LatchView) bool {
		return v.Full >= x.need || waits && v.Left() > 0 || v.Holders >= x.need
	}
	return x.read(r, func(v *quorum.LatchView) bool { return waits && v.Left() > 0 })
}

// glance reads how many ids the nodes have, and has the nodes tell the inboxes of more.
func (x *latchCall) glance(inboxes uint64) (*quorum.LatchView, latchGlance, error) {
	r := &latchRound{kind: node.Latch, token: x.propose(), inboxes: inboxes}
	r.enough = func(v *quorum.LatchView) bool {
		return v.Full >= x.need || v.Count > v.Most || v.Count == 0 && v.Holders >= x.need
	}
	v, g, err := x.read(r, func(v *quorum.LatchView) bool { return v.Count > 0 })
	if last := x.glanced; last != nil { // a node may have answered when it was over
		last.mu.Lock()
		g.forgetful = g.forgetful || v.Known && last.forgetful(v)
		last.mu.Unlock()
	}
	x.glanced = r
	return v, g, err
}

// read makes a round that changes nothing but what nodes lack. fine reports whether a view is one
// though too few nodes have all of it.
func (x *latchCall) read(r *latchRound, fine func(*quorum.LatchView) bool) (*quorum.LatchView, latchGlance, error) {
	v, err := x.ask(r)
	r.mu.Lock()
	g := r.glance(&v)
	r.mu.Unlock()
	switch {
	case err != nil:
	case v.Known && v.Disputed:
		err = &LatchSetError{Name: x.latch.name[0], Count: v.Count}
	case !v.Known || v.Full < x.need && v.Holders < x.need && !fine(&v):
		err = r.short()
	case v.Count == 0:
		err = x.latch.says(ErrLatchNotSet)
	}
	return &v, g, err
}

// count is how many have still to count down.
func (x *latchCall) count() (int, error) {
	v, _, err := x.look(nil)
	switch {
	case err != nil:
		return 0, err
	case v.Full >= x.need:
		return 0, nil
	default:
		return v.Left(), nil
	}
}

// delete deletes the latch. All attempts are one deletion, if they can be: what a node has confirmed
// of it stays so.
func (x *latchCall) delete() error {
	token, before := x.propose(), uint64(0)
	return x.persist(func() (*latchRound, error) {
		r := &latchRound{kind: node.Unlatch, token: token, granted: before}
		confirmed := func() bool { return bits.OnesCount64(r.granted) >= x.need }
		r.enough = func(*quorum.LatchView) bool { return confirmed() }
		if _, err := x.ask(r); err != nil {
			return r, err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		switch {
		case confirmed():
			return r, nil
		case r.refused():
			token, before = x.propose(), 0
		default:
			before = r.granted
		}
		return r, r.noQuorum()
	})
}

// refused reports whether a node does not take the token, or not any more. Only then is another one
// proposed: it would delete what was set where this one has done its work. The mutex is held.
func (r *latchRound) refused() bool {
	for i, a := range r.answers {
		var refusal *node.Error
		if a.Told && r.granted&(1<<i) == 0 || errors.As(r.errs[i], &refusal) && refusal.Reason == node.ErrClock { //nolint:errorlint // a reason is never wrapped
			return true
		}
	}
	return false
}

// await waits until enough have counted down.
func (x *latchCall) await() (err error) {
	c := x.latch.client
	var w *watcher
	var seen *quorum.LatchView
	defer func() {
		if w != nil {
			x.leave(w, err == nil)
		}
	}()
	var looks latchLooks
	for {
		var inboxes uint64
		if w != nil {
			inboxes = w.begin()
		}
		v, glance, err := x.glance(inboxes)
		if err == nil && v.Full < x.need && looks.worthwhile(glance) {
			v, glance, err = x.look(seen)
			looks.noted(glance, err)
		}
		var short *NoQuorumError
		switch {
		case errors.Is(err, errCutShort):
			return err
		case v.Known && seen != nil && v.Generation != seen.Generation:
			return x.latch.says(ErrLatchDeleted)
		case err != nil && !errors.As(err, &short):
			return err
		case err == nil && (v.Full >= x.need || v.Done()):
			return nil
		case v.Known && (seen == nil || len(v.IDs) > 0):
			seen = v
		}
		if w == nil {
			w = c.router.watch(x.latch.name[0], x.need)
		}
		if why := w.wait(x, looks.soon); why != nil {
			return gaveUp(x.notDone(v, err), why)
		}
	}
}

// leave ends the wait of a watcher. It tells the nodes to forget the client, unless the latch is
// done or another call of this client waits for it.
func (x *latchCall) leave(w *watcher, done bool) {
	l, r := x.latch, &x.latch.client.router
	x.mu.Lock()
	x.left = true // later operations of this call ask for no messages
	x.mu.Unlock()
	if others := r.unwatch(w); others || done {
		return
	}
	op := &node.Op{
		Kind: node.Latch, Names: l.name[:], TTL: l.ttl, Token: x.propose(), Limits: l.client.cfg.limits(),
		Latch: &node.LatchOp{Inbox: l.client.id},
	}
	for i := range w.entered.All() {
		_ = l.client.nodes.Submit(i, &dispatch.Call{Op: op, To: dispatch.Ignore}) // if it is lost, the entry expires
	}
	r.lookAgainFor(l.name[0])
}

// notDone says what a wait that is given up was for.
func (x *latchCall) notDone(v *quorum.LatchView, err error) error {
	if err != nil {
		return err
	}
	return &latchOpenError{name: x.latch.name[0], left: v.LeftAtMost(), count: v.Count}
}

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

// latchCall is one call of a method of a latch. It runs on the caller's goroutine.
type latchCall struct {
	latch *Latch
	ctx   context.Context //nolint:containedctx // it lives as long as the call whose context it is
	op    string
	need  int
	// rounds counts how often the nodes were asked.
	rounds int
	// seen is the latest generation that this call or its client has seen.
	seen uint64

	// mu is held while an operation is submitted. left is set once the call no longer waits.
	mu   sync.Mutex
	left bool
	// glanced is the last round that read sizes only.
	glanced *latchRound
	// copies has the ids that this call has read from each node.
	copies []*latchCopy
}

// copyOf returns the ids that this call has read from node i.
func (x *latchCall) copyOf(i int) *latchCopy {
	if x.copies == nil { // the first round that reads makes them
		x.copies = make([]*latchCopy, x.latch.client.nodes.Len())
		for i := range x.copies {
			x.copies[i] = &latchCopy{}
		}
	}
	return x.copies[i]
}

// propose returns a token larger than all that were seen with this latch.
func (x *latchCall) propose() uint64 { return x.latch.client.tokenClock.propose(x.latch.name[:], 0) }

// operationToken is the token with which nodes set the latch and count down. It is smaller than the
// token of any deletion that is called later, if clocks agree within MaxClockSkew. So a late
// operation has no effect on a generation that began after this call, unless the call was told of
// that generation.
func (x *latchCall) operationToken(token uint64) uint64 {
	return max(x.minusSkew(token), x.seen+1)
}

// minusSkew returns the token from MaxClockSkew earlier.
func (x *latchCall) minusSkew(token uint64) uint64 {
	return token - min(token, uint64(x.latch.client.cfg.limits().MaxClockSkew.Microseconds()))
}

// runRound makes a round, and returns its result. The error is of the context or the client.
func (x *latchCall) runRound(r *latchRound) (quorum.LatchView, error) {
	x.rounds++
	r.call = x
	r.send()
	var err error
	select {
	case <-r.decided:
	case <-x.ctx.Done():
		err = contextError(x.ctx)
	case <-x.latch.client.quit:
		err = ErrClosed
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := x.latch.client; c.tokenClock.plausible(r.latest(), c.tokenClock.now()) {
		x.seen = max(x.seen, r.latest())
		c.generations.observe(x.latch.name[0], x.seen, x.minusSkew(r.token))
	}
	if r.anyGeneration { // a later answer may know of a deletion after this call
		r.anyGeneration, r.generation = false, r.latest()
	}
	x.latch.client.tokenClock.observe(r.token, x.latch.name[0])
	if err != nil && !errors.Is(err, ErrClosed) {
		err = gaveUpError(errors.Join(r.noQuorum(), errCutShort), err)
	}
	if r.done {
		return r.outcome, err
	}
	return r.view(), err
}

// shortError is the error of a round in which too few nodes agreed.
func (r *latchRound) shortError() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.noQuorum()
}

// retryUntil repeats attempt until it succeeds, or until more attempts cannot help. It repeats only
// if too few nodes agreed.
func (x *latchCall) retryUntil(attempt func() (*latchRound, error)) error {
	for n := 1; ; n++ {
		seen := x.seen
		r, err := attempt()
		var short *NoQuorumError
		if !errors.As(err, &short) || errors.Is(err, errCutShort) || r.hopeless() {
			return err
		}
		if x.seen > seen {
			continue // the next attempt knows the newer generation
		}
		cfg := &x.latch.client.cfg
		if why := x.sleep(quorum.Backoff(n-1, cfg.RetryMin, cfg.RetryMax, cfg.Jitter()), nil); why != nil {
			return gaveUpError(err, why)
		}
	}
}

// hopeless reports whether too many nodes reject the call permanently for any attempt to succeed.
func (r *latchRound) hopeless() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	permanent := 0
	for _, err := range r.errs {
		var nodeErr *node.Error
		if errors.As(err, &nodeErr) &&
			(nodeErr.Permanent() || nodeErr.Reason == node.ErrClock && r.call.latch.client.tokenClock.isCurrent(r.token)) { //nolint:errorlint // a reason is never wrapped
			permanent++
		}
	}
	return permanent > len(r.errs)-r.call.need
}

// sleep waits for d, or until it is nudged. It returns an error if the context or the client ends
// first.
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
		return contextError(x.ctx)
	case <-c.quit:
		return ErrClosed
	}
}

func (x *latchCall) set(n int) error {
	return x.retryUntil(func() (*latchRound, error) {
		token := x.propose()
		r := &latchRound{kind: node.Latch, token: token, ask: node.LatchOp{Count: n, First: true, Since: token}}
		r.enough = func(v *quorum.LatchView) bool {
			return v.Known && (v.Chosen && v.Count != n || v.Count == n && v.Holders >= x.need)
		}
		v, err := x.runRound(r)
		switch {
		case err != nil:
			return r, err
		case v.Known && v.Disputed, v.Known && v.Count > 0 && v.Count != n:
			return r, &LatchSetError{Name: x.latch.name[0], Count: r.otherCount(&v, n), Chosen: v.Chosen}
		case !v.Known || v.Count == 0 || v.Holders < x.need:
			return r, r.shortError()
		default:
			return r, nil
		}
	})
}

// otherCount returns a number other than n to which some node says the latch is set.
func (r *latchRound) otherCount(v *quorum.LatchView, n int) int {
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

func (x *latchCall) countDown(id string) error {
	return x.retryUntil(func() (*latchRound, error) {
		r := &latchRound{kind: node.Latch, token: x.propose(), ask: node.LatchOp{IDs: []string{id}}}
		r.known, r.anyGeneration = r.ask.IDs, true
		r.enough = func(v *quorum.LatchView) bool { return v.Known && v.Holders >= x.need }
		v, err := x.runRound(r)
		switch {
		case err != nil:
			return r, err
		case v.Known && v.Disputed:
			return r, &LatchSetError{Name: x.latch.name[0], Count: v.Count}
		case !v.Known || v.Holders < x.need:
			return r, r.shortError()
		case v.Count == 0:
			return r, x.latch.wrapError(ErrLatchNotSet)
		}
		r.mu.Lock()
		forgetful := r.anyForgot(&v)
		r.mu.Unlock()
		if forgetful {
			x.giveBack()
		}
		return r, nil
	})
}

// giveBack lets a round refill the nodes that have lost their memory. It reads all ids, so only one
// call of the client does that for a latch at a time.
func (x *latchCall) giveBack() {
	if refills, name := &x.latch.client.refills, x.latch.name[0]; refills.begin(name) {
		defer refills.end(name)
		_, _, _ = x.lookUp(nil)
	}
}

// lookUp reads all ids, and makes the nodes agree on them. known is the last view of the caller, or
// nil.
func (x *latchCall) lookUp(known *quorum.LatchView) (*quorum.LatchView, latchGlance, error) {
	r := &latchRound{kind: node.Latch, token: x.propose(), ask: node.LatchOp{List: true}}
	if known != nil {
		r.known, r.generation = known.IDs, known.Generation
	}
	waits := x.op == opAwait
	r.enough = func(v *quorum.LatchView) bool {
		return v.Full >= x.need || waits && v.Left() > 0 || v.Holders >= x.need
	}
	return x.read(r, func(v *quorum.LatchView) bool { return waits && v.Left() > 0 })
}

// glance reads how many ids the nodes have. The nodes in inboxes are told to report more ids.
func (x *latchCall) glance(inboxes uint64) (*quorum.LatchView, latchGlance, error) {
	r := &latchRound{kind: node.Latch, token: x.propose(), inboxes: inboxes}
	r.enough = func(v *quorum.LatchView) bool {
		return v.Full >= x.need || v.Count > v.Most || v.Count == 0 && v.Holders >= x.need
	}
	v, g, err := x.read(r, func(v *quorum.LatchView) bool { return v.Count > 0 })
	if last := x.glanced; last != nil { // a node may have answered after the decision
		last.mu.Lock()
		g.forgetful = g.forgetful || v.Known && last.anyForgot(v)
		last.mu.Unlock()
	}
	x.glanced = r
	return v, g, err
}

// read makes a round that changes nothing except by repairs. fine reports whether a view suffices
// though too few nodes have all of it.
func (x *latchCall) read(r *latchRound, fine func(*quorum.LatchView) bool) (*quorum.LatchView, latchGlance, error) {
	v, err := x.runRound(r)
	r.mu.Lock()
	g := r.glance(&v)
	r.mu.Unlock()
	switch {
	case err != nil:
	case v.Known && v.Disputed:
		err = &LatchSetError{Name: x.latch.name[0], Count: v.Count}
	case !v.Known || v.Full < x.need && v.Holders < x.need && !fine(&v):
		err = r.shortError()
	case v.Count == 0:
		err = x.latch.wrapError(ErrLatchNotSet)
	}
	return &v, g, err
}

func (x *latchCall) count() (int, error) {
	v, _, err := x.lookUp(nil)
	switch {
	case err != nil:
		return 0, err
	case v.Full >= x.need:
		return 0, nil
	default:
		return v.Left(), nil
	}
}

// delete deletes the latch. If possible, all attempts are one deletion with one token: a node's
// confirmation stays valid for all of them.
func (x *latchCall) delete() error {
	token, before := x.propose(), uint64(0)
	return x.retryUntil(func() (*latchRound, error) {
		r := &latchRound{kind: node.Unlatch, token: token, granted: before}
		confirmed := func() bool { return bits.OnesCount64(r.granted) >= x.need }
		r.enough = func(*quorum.LatchView) bool { return confirmed() }
		if _, err := x.runRound(r); err != nil {
			return r, err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		switch {
		case confirmed():
			return r, nil
		case r.tokenRefused():
			token, before = x.propose(), 0
		default:
			before = r.granted
		}
		return r, r.noQuorum()
	})
}

// tokenRefused reports whether a node refuses the token. Only then is another token proposed: it
// would also delete a latch that was set after this one took effect. Requires r.mu.
func (r *latchRound) tokenRefused() bool {
	for i, a := range r.answers {
		var refusal *node.Error
		if a.Told && r.granted&(1<<i) == 0 || errors.As(r.errs[i], &refusal) && refusal.Reason == node.ErrClock { //nolint:errorlint // a reason is never wrapped
			return true
		}
	}
	return false
}

func (x *latchCall) await() (err error) {
	c := x.latch.client
	var w *latchWatcher
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
		if err == nil && v.Full < x.need && looks.shouldRead(glance) {
			v, glance, err = x.lookUp(seen)
			looks.recordRead(glance, err)
		}
		var short *NoQuorumError
		switch {
		case errors.Is(err, errCutShort):
			return err
		case v.Known && seen != nil && v.Generation != seen.Generation:
			return x.latch.wrapError(ErrLatchDeleted)
		case err != nil && !errors.As(err, &short):
			return err
		case err == nil && (v.Full >= x.need || v.Done()):
			return nil
		case v.Known && (seen == nil || len(v.IDs) > 0):
			seen = v
		}
		if w == nil {
			w = c.messages.addWatcher(x.latch.name[0], x.need)
		}
		if why := w.wait(x, looks.soon); why != nil {
			return gaveUpError(x.openError(v, err), why)
		}
	}
}

// leave ends the wait of a watcher. It tells the nodes to forget the client, unless the latch is
// done or another call of this client waits for it.
func (x *latchCall) leave(w *latchWatcher, done bool) {
	l, r := x.latch, &x.latch.client.messages
	x.mu.Lock()
	x.left = true // later operations of this call ask for no messages
	x.mu.Unlock()
	if others := r.removeWatcher(w); others || done {
		return
	}
	op := &node.Op{
		Kind: node.Latch, Names: l.name[:], TTL: l.ttl, Token: x.propose(), Limits: l.client.cfg.limits(),
		Latch: &node.LatchOp{Inbox: l.client.id},
	}
	for i := range w.entered.All() {
		_ = l.client.nodes.Submit(i, &dispatch.Call{Op: op, To: dispatch.Ignore}) // if it is lost, the node forgets the client later
	}
	r.wakeWatchersOf(l.name[0])
}

// openError is the error of a wait that ended early: why the last round failed, or how far the
// latch had come.
func (x *latchCall) openError(v *quorum.LatchView, err error) error {
	if err != nil {
		return err
	}
	return &latchOpenError{name: x.latch.name[0], left: v.LeftAtMost(), count: v.Count}
}

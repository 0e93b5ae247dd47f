package quorumlock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/node"
)

// waiter is one call of Acquire, from when it joins its line until it has a lease or gives
// up.
type waiter struct {
	lock *Lock
	// began is when it joined, ticket the same by the wall clock, in microseconds.
	began  time.Duration
	ticket int64
	// attempts counts them.
	attempts int
	// alone is set when nodes refuse a block of tokens, where they may take a single one.
	alone bool
	// entry is what nodes know of it; nil while they know nothing.
	entry *entry

	// What follows is guarded by the mutex of the lines.

	line          *line
	before, after *waiter
	// given is what was handed over to it.
	given *tenure
	// asking is set from when it makes an attempt until it waits again.
	asking bool
	// stale is set when what it expects is out of date, as this client has had the lock
	// since.
	stale bool
	// nudged tells it to look again; nil until it waits for the first time.
	nudged chan struct{}
	// denied is set once it is known to wait for others.
	denied bool
	// listed is its entry, for others to look at.
	listed *entry
	// due is when its next attempt is worthwhile, as long as its entry does not know better.
	due time.Duration
}

// waiters are those that never had to wait, so that nobody else knows them.
var waiters = sync.Pool{New: func() any { return &waiter{} }}

func newWaiter(l *Lock) *waiter {
	c := l.client
	w := waiters.Get().(*waiter) //nolint:forcetypeassert // by construction
	*w = waiter{lock: l, began: c.clock.Now(), ticket: c.clock.Wall().UnixMicro()}
	c.lines.join(w)
	return w
}

// now is the time; for a waiter that has not had to wait so far, when it came: that was a moment
// ago.
func (c *Client) now(w *waiter) time.Duration {
	if w != nil && w.nudged == nil && w.attempts < 2 {
		return w.began
	}
	return c.clock.Now()
}

// nudge has it look again. The mutex of the lines is held, or the channel is known to be
// there.
func (w *waiter) nudge() {
	select {
	case w.nudged <- struct{}{}:
	default: // it has not begun to wait, or has been told already
	}
}

// acquire waits for its turn and makes attempts, until one succeeds, or it is given a
// lease, or waiting is pointless.
func (w *waiter) acquire(ctx context.Context) (*tenure, error) {
	for {
		given, err := w.await(ctx)
		switch {
		case given != nil:
			w.report(given, true)
			return given, nil
		case err != nil:
			return nil, err
		}
		h, again, err := w.attempt(ctx)
		if err == nil {
			w.report(h.tenure, false)
			return h.tenure, nil
		}
		w.lock.reportFailed(w.attempts, err)
		switch {
		case ctx.Err() != nil:
			return nil, gaveUp(w.reason(err), whyDone(ctx))
		case !again.worthwhile:
			return nil, err
		}
		w.expect(again, err)
	}
}

func (w *waiter) report(t *tenure, handedOver bool) {
	w.lock.reportAcquired(t, AcquiredEvent{Attempts: w.attempts, HandedOver: handedOver, Waited: t.grantedAt - w.began})
}

// reason is what is worth telling of a wait that ends after an attempt that came to err, or
// before any: a whole attempt says more than one that was cut short.
func (w *waiter) reason(err error) error {
	if err != nil && !errors.Is(err, errCutShort) {
		return err
	}
	holder, last := w.lock.client.lines.news(w)
	switch {
	case holder != nil:
		return holder.inTheWay()
	case last != nil:
		return last
	case err != nil:
		return err
	default:
		return w.lock.unasked()
	}
}

// attempt makes one, and tells the line what became of it.
func (w *waiter) attempt(ctx context.Context) (*hold, retry, error) {
	w.attempts++
	if w.entry == nil && w.lock.waiting != WaitSpin && w.lock.client.router.subscriptions.Open() {
		w.queueUp() // a denial then leaves it in the queues at once
	}
	h, again, err := w.lock.try(ctx, w)
	ls := &w.lock.client.lines
	ls.mu.Lock()
	defer ls.mu.Unlock()
	w.alone = w.alone || h == nil && again.tokenTooFar
	if !errors.Is(err, errCutShort) {
		w.line.attempted(err)
	}
	return h, again, err
}

// expect says when the next attempt is worthwhile, after one that failed.
func (w *waiter) expect(again retry, err error) {
	c := w.lock.client
	due := c.clock.Now() + w.lock.pause(w.attempts, again)
	held := errors.Is(err, ErrHeld)
	if held && w.lock.waiting != WaitSpin {
		w.queueUp()
	}
	if w.entry != nil {
		c.router.waits(w.entry)
		w.entry.failed(due, held)
	}
	c.lines.mu.Lock()
	defer c.lines.mu.Unlock()
	w.due = due
	w.line.wait(w)
	w.asking = false // from now on it waits: who gives up instead must not be given a lease
	w.line.asking--
}

// queueUp makes its entry, with which it is told when nodes are free.
func (w *waiter) queueUp() {
	if w.entry == nil {
		w.lock.client.lines.equip(w)
		w.entry = w.lock.client.router.enlist(w)
		w.list()
	}
}

// await returns when an attempt is worthwhile, with a lease that was handed over, or with an
// error when ctx or the client has ended.
func (w *waiter) await(ctx context.Context) (given *tenure, err error) {
	c := w.lock.client
	var timer clock.Timer
	defer func() {
		if timer != nil {
			timer.Stop()
		}
	}()
	for {
		given, nudged, wait := w.look()
		switch {
		case given != nil:
			return given, nil
		case wait <= 0:
			return nil, nil //nolint:nilnil // its turn has come
		case wait == never:
		case timer == nil:
			timer = c.clock.AfterFunc(wait, w.nudge)
		default:
			timer.Reset(wait)
		}
		select {
		case <-nudged:
		case <-ctx.Done():
			return w.resign(whyDone(ctx))
		case <-c.quit:
			return w.resign(ErrClosed)
		}
	}
}

// look says how long to wait before an attempt, unless nudged: 0 if that is worthwhile now.
func (w *waiter) look() (given *tenure, nudged <-chan struct{}, wait time.Duration) {
	c := w.lock.client
	c.lines.mu.Lock()
	defer c.lines.mu.Unlock()
	if w.given != nil {
		return w.given, nil, 0
	}
	wait = never
	if w.isUp() {
		wait = w.dueIn(c.clock)
	}
	switch {
	case wait <= 0:
		w.asking, w.stale = true, false
		w.line.asking++
	default:
		w.equip()
	}
	return nil, w.nudged, wait
}

// isUp reports whether it is to talk to the nodes: the first of a line is, while nobody of this
// client holds the lock. In fair order it does so before, too, to have its place in the queues
// by the time of the release: others who came later would go first. The mutex of the lines
// is held.
//
// Readers are all up, as what one has is of no use to the others.
//
// Those who wait for permits of a semaphore do so together as long as none of them is known to wait
// for others, and there may be enough for all; and who is in the queues is woken for itself.
func (w *waiter) isUp() bool {
	if w.lock.slots != nil {
		return w.line.first == w || w.listed != nil || w.line.denied == 0 && int(w.line.asking) < w.lock.slots.Permits
	}
	return w.lock.reads || w.line.first == w && (w.line.holder == nil || w.lock.waiting == WaitFair)
}

// equip makes it one that can be nudged. The mutex of the lines is held.
func (w *waiter) equip() {
	if w.nudged == nil {
		w.nudged = make(chan struct{}, 1)
	}
}

// dueIn is how long its next attempt is to be put off.
func (w *waiter) dueIn(c clock.Clock) time.Duration {
	due := w.due
	switch {
	case w.stale:
		due = 0
	case w.entry != nil:
		due = w.entry.next()
	}
	due = max(due, w.line.known().rest)
	if due == 0 {
		return 0 // whatever the time is
	}
	return due - c.Now()
}

// resign ends a wait, unless a lease was handed over in the same moment.
func (w *waiter) resign(why error) (*tenure, error) {
	err := gaveUp(w.reason(nil), why)
	ls := &w.lock.client.lines
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if w.given != nil {
		return w.given, nil
	}
	ls.remove(w)
	return nil, err
}

// leave ends it: others have their turn. Nodes forget it now, or if it has a lease, with the
// release of that.
func (w *waiter) leave(t *tenure) {
	w.lock.client.lines.leave(w)
	switch {
	case w.entry != nil:
		w.lock.client.router.served(w.entry)
		switch {
		case t == nil || t.hold.entry != w.entry:
			w.lock.client.router.unlist(w.entry)
			w.entry.strike()
		case w.lock.slots != nil:
			w.entry.settle(t.hold)
		}
	case w.nudged == nil:
		waiters.Put(w)
	}
}

// inherits reports whether a hold can be handed over to it: it has to be what it asked for.
// The mutex of the lines is held.
func (w *waiter) inherits(h *hold) bool {
	l := w.lock
	return !w.asking && l.handover && l.ttl == h.lock.ttl && equal(l.purpose, h.lock.purpose)
}

// inTheWay is the error of somebody who waits for a hold of the same client.
func (h *hold) inTheWay() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &HeldError{Name: h.lock.shown(h.lock.names[0]), Owner: h.owner, TTL: max(0, h.validUntil-h.client.clock.Now()), permits: h.lock.slots != nil}
}

// unasked is the error of somebody who gave up before any node was asked.
func (l *Lock) unasked() error {
	n := l.client.nodes.Len()
	return &NoQuorumError{Op: node.Acquire.String(), Names: l.Names(), Need: l.need, Pending: n, Total: n}
}

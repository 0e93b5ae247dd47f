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
	number int64
	// attempts counts them.
	attempts int
	// noBlock is set when nodes refuse a block of tokens, where they may take a single one.
	noBlock bool
	// ticket is what nodes know of it; nil while they know nothing.
	ticket *ticket

	// What follows is guarded by the mutex of the lines.

	queue      *localQueue
	prev, next *waiter
	// handedOver is what was handed over to it.
	handedOver *lease
	// attempting is set from when it makes an attempt until it waits again.
	attempting bool
	// stale is set when what it expects is out of date, as this client has had the lock
	// since.
	stale bool
	// nudged tells it to look again; nil until it waits for the first time.
	nudged chan struct{}
	// blocked is set once it is known to wait for others.
	blocked bool
	// visibleTicket is its entry, for others to look at.
	visibleTicket *ticket
	// nextAttempt is when its next attempt is worthwhile, as long as its entry does not know better.
	nextAttempt time.Duration
}

// waiterPool are those that never had to wait, so that nobody else knows them.
var waiterPool = sync.Pool{New: func() any { return &waiter{} }}

func newWaiter(l *Lock) *waiter {
	c := l.client
	w := waiterPool.Get().(*waiter) //nolint:forcetypeassert // by construction
	*w = waiter{lock: l, began: c.clock.Now(), number: c.clock.Wall().UnixMicro()}
	c.queues.push(w)
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

// run waits for its turn and makes attempts, until one succeeds, or it is given a
// lease, or waiting is pointless.
func (w *waiter) run(ctx context.Context) (*lease, error) {
	for {
		given, err := w.awaitTurn(ctx)
		switch {
		case given != nil:
			w.report(given, true)
			return given, nil
		case err != nil:
			return nil, err
		}
		h, again, err := w.attempt(ctx)
		if err == nil {
			w.report(h.lease, false)
			return h.lease, nil
		}
		w.lock.reportFailed(w.attempts, err)
		switch {
		case ctx.Err() != nil:
			return nil, gaveUpError(w.giveUpReason(err), contextError(ctx))
		case !again.useful:
			return nil, err
		}
		w.planNext(again, err)
	}
}

func (w *waiter) report(t *lease, handedOver bool) {
	w.lock.reportAcquired(t, AcquiredEvent{Attempts: w.attempts, HandedOver: handedOver, Waited: t.grantedAt - w.began})
}

// giveUpReason is what is worth telling of a wait that ends after an attempt that came to err, or
// before any: a whole attempt says more than one that was cut short.
func (w *waiter) giveUpReason(err error) error {
	if err != nil && !errors.Is(err, errCutShort) {
		return err
	}
	holder, last := w.lock.client.queues.obstacle(w)
	switch {
	case holder != nil:
		return holder.heldLocallyError()
	case last != nil:
		return last
	case err != nil:
		return err
	default:
		return w.lock.notAskedError()
	}
}

// attempt makes one, and tells the line what became of it.
func (w *waiter) attempt(ctx context.Context) (*grant, retry, error) {
	w.attempts++
	if w.ticket == nil && w.lock.waitMode != WaitSpin && w.lock.client.messages.subscriptions.Open() {
		w.takeTicket() // a denial then leaves it in the queues at once
	}
	h, again, err := w.lock.tracedAttempt(ctx, w)
	ls := &w.lock.client.queues
	ls.mu.Lock()
	defer ls.mu.Unlock()
	w.noBlock = w.noBlock || h == nil && again.tokenRejected
	if !errors.Is(err, errCutShort) {
		w.queue.recordAttempt(err)
	}
	return h, again, err
}

// planNext says when the next attempt is worthwhile, after one that failed.
func (w *waiter) planNext(again retry, err error) {
	c := w.lock.client
	due := c.clock.Now() + w.lock.backoffBefore(w.attempts, again)
	held := errors.Is(err, ErrHeld)
	if held && w.lock.waitMode != WaitSpin {
		w.takeTicket()
	}
	if w.ticket != nil {
		c.messages.onDenied(w.ticket)
		w.ticket.onAttemptFailed(due, held)
	}
	c.queues.mu.Lock()
	defer c.queues.mu.Unlock()
	w.nextAttempt = due
	w.queue.markBlocked(w)
	w.attempting = false // from now on it waits: who gives up instead must not be given a lease
	w.queue.attempting--
}

// takeTicket makes its entry, with which it is told when nodes are free.
func (w *waiter) takeTicket() {
	if w.ticket == nil {
		w.lock.client.queues.ensureNudge(w)
		w.ticket = w.lock.client.messages.addTicket(w)
		w.publishTicket()
	}
}

// awaitTurn returns when an attempt is worthwhile, with a lease that was handed over, or with an
// error when ctx or the client has ended.
func (w *waiter) awaitTurn(ctx context.Context) (given *lease, err error) {
	c := w.lock.client
	var timer clock.Timer
	defer func() {
		if timer != nil {
			timer.Stop()
		}
	}()
	for {
		given, nudged, wait := w.untilAttempt()
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
			return w.cancel(contextError(ctx))
		case <-c.quit:
			return w.cancel(ErrClosed)
		}
	}
}

// untilAttempt says how long to wait before an attempt, unless nudged: 0 if that is worthwhile now.
func (w *waiter) untilAttempt() (given *lease, nudged <-chan struct{}, wait time.Duration) {
	c := w.lock.client
	c.queues.mu.Lock()
	defer c.queues.mu.Unlock()
	if w.handedOver != nil {
		return w.handedOver, nil, 0
	}
	wait = never
	if w.mayAttempt() {
		wait = w.untilDue(c.clock)
	}
	switch {
	case wait <= 0:
		w.attempting, w.stale = true, false
		w.queue.attempting++
	default:
		w.ensureNudge()
	}
	return nil, w.nudged, wait
}

// mayAttempt reports whether it is to talk to the nodes: the first of a line is, while nobody of this
// client holds the lock. In fair order it does so before, too, to have its place in the queues
// by the time of the release: others who came later would go first. The mutex of the lines
// is held.
//
// Readers are all up, as what one has is of no use to the others.
//
// Those who wait for permits of a semaphore do so together as long as none of them is known to wait
// for others, and there may be enough for all; and who is in the queues is woken for itself.
func (w *waiter) mayAttempt() bool {
	if w.lock.slots != nil {
		return w.queue.head == w || w.visibleTicket != nil || w.queue.blocked == 0 && int(w.queue.attempting) < w.lock.slots.Permits
	}
	return w.lock.shared || w.queue.head == w && (w.queue.heldBy == nil || w.lock.waitMode == WaitFair)
}

// ensureNudge makes it one that can be nudged. The mutex of the lines is held.
func (w *waiter) ensureNudge() {
	if w.nudged == nil {
		w.nudged = make(chan struct{}, 1)
	}
}

// untilDue is how long its next attempt is to be put off.
func (w *waiter) untilDue(c clock.Clock) time.Duration {
	due := w.nextAttempt
	switch {
	case w.stale:
		due = 0
	case w.ticket != nil:
		due = w.ticket.nextAttempt()
	}
	due = max(due, w.queue.historyCopy().turnRest)
	if due == 0 {
		return 0 // whatever the time is
	}
	return due - c.Now()
}

// cancel ends a wait, unless a lease was handed over in the same moment.
func (w *waiter) cancel(why error) (*lease, error) {
	err := gaveUpError(w.giveUpReason(nil), why)
	ls := &w.lock.client.queues
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if w.handedOver != nil {
		return w.handedOver, nil
	}
	ls.remove(w)
	return nil, err
}

// finish ends it: others have their turn. Nodes forget it now, or if it has a lease, with the
// release of that.
func (w *waiter) finish(t *lease) {
	w.lock.client.queues.removeIfQueued(w)
	switch {
	case w.ticket != nil:
		w.lock.client.messages.onServed(w.ticket)
		switch {
		case t == nil || t.grant.ticket != w.ticket:
			w.lock.client.messages.removeTicket(w.ticket)
			w.ticket.leaveAll()
		case w.lock.slots != nil:
			w.ticket.keepPlaces(t.grant)
		}
	case w.nudged == nil:
		waiterPool.Put(w)
	}
}

// canInherit reports whether a hold can be handed over to it: it has to be what it asked for.
// The mutex of the lines is held.
func (w *waiter) canInherit(h *grant) bool {
	l := w.lock
	return !w.attempting && l.mayHandOver && l.ttl == h.lock.ttl && equalStrings(l.purpose, h.lock.purpose)
}

// heldLocallyError is the error of somebody who waits for a hold of the same client.
func (h *grant) heldLocallyError() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &HeldError{Name: h.lock.displayName(h.lock.names[0]), Owner: h.owner, TTL: max(0, h.validUntil-h.client.clock.Now()), permits: h.lock.slots != nil}
}

// notAskedError is the error of somebody who gave up before any node was asked.
func (l *Lock) notAskedError() error {
	n := l.client.nodes.Len()
	return &NoQuorumError{Op: node.Acquire.String(), Names: l.Names(), Need: l.need, Pending: n, Total: n}
}

// recheckInterval is the longest time between two attempts of a waiter, whatever it expects: a wake
// can be lost, or come to one who is paused. Up to a quarter of it is taken off by jitter. On slow
// links it is longer: who has tried in vain holds back for up to eight latencies, see spread.
const recheckInterval = time.Second

// entryTTL is how long nodes keep an entry after each attempt: until after the next.
func (c *Client) entryTTL() time.Duration {
	return (3*recheckInterval + 2*c.cfg.NodeTimeoutMax).Truncate(time.Millisecond)
}

// The bounds of a moment.
const (
	minSettle = time.Millisecond
	maxSettle = 20 * time.Millisecond
)

// settleTime is how long most nodes need for an answer, with a margin, so that what happens on
// them at the same time is seen together.
func (c *Client) settleTime() time.Duration {
	return min(max(4*c.nodes.MedianLatency(), minSettle), maxSettle)
}

// contentionPause is how far apart contenders have to be able to get, by their pauses: each attempt that
// comes to nothing keeps others out for two latencies, until what it got is given back. Where the
// pauses were shorter than that, a few contenders on slow links kept each other out for seconds.
func (c *Client) contentionPause() time.Duration { return 8 * c.nodes.MedianLatency() }

// addTime is d after at; never is never over.
func addTime(at, d time.Duration) time.Duration {
	if d > never-at {
		return never
	}
	return at + d
}

package quorumlock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/node"
)

// waiter is one call of Acquire, from entering the local queue until it has a lease or gives up.
type waiter struct {
	lock *Lock
	// began is when the waiter came. number is the same by the wall clock, in microseconds.
	began    time.Duration
	number   int64
	attempts int
	// noBlock is set when nodes refuse a block of tokens but may take a single one.
	noBlock bool
	// ticket is the waiter's place in the nodes' queues; nil while it has none.
	ticket *ticket

	// The fields below are guarded by the mutex of localQueues.

	queue      *localQueue
	prev, next *waiter
	// handedOver is the lease that was handed over to this waiter.
	handedOver *lease
	// attempting is set from the start of an attempt until the waiter waits again.
	attempting bool
	// stale is set when the forecast is out of date, since this client has held the lock meanwhile.
	stale bool
	// nudged wakes the waiter's goroutine; nil until it first waits.
	nudged chan struct{}
	// blocked is set once the waiter is known to wait for others.
	blocked bool
	// visibleTicket is ticket, for other goroutines.
	visibleTicket *ticket
	// nextAttempt is when the next attempt is due, unless the ticket has a forecast.
	nextAttempt time.Duration
}

// waiterPool reuses waiters that never had to wait: no other goroutine knows them.
var waiterPool = sync.Pool{New: func() any { return &waiter{} }}

func newWaiter(l *Lock) *waiter {
	c := l.client
	w := waiterPool.Get().(*waiter) //nolint:forcetypeassert // by construction
	*w = waiter{lock: l, began: c.clock.Now(), number: c.clock.Wall().UnixMicro()}
	c.queues.push(w)
	return w
}

// now returns the time. For a waiter that did not have to wait yet, its arrival is close enough,
// and saves a clock read.
func (c *Client) now(w *waiter) time.Duration {
	if w != nil && w.nudged == nil && w.attempts < 2 {
		return w.began
	}
	return c.clock.Now()
}

// nudge makes the waiter look again. Requires the mutex of localQueues, or that ensureNudge has
// been called.
func (w *waiter) nudge() {
	select {
	case w.nudged <- struct{}{}:
	default: // it does not wait yet, or was nudged already
	}
}

// run waits for turns and makes attempts until it gets a lease, or cannot get one.
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

// giveUpReason returns the most useful error for a wait that ends. err is the error of the last
// attempt, or nil. An attempt that was cut short says less than an earlier complete one.
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

// attempt makes one attempt, and records its result in the local queue.
func (w *waiter) attempt(ctx context.Context) (*grant, retry, error) {
	w.attempts++
	if w.ticket == nil && w.lock.waitMode != WaitSpin && w.lock.client.messages.subscriptions.Open() {
		w.takeTicket() // a denial then queues it at once
	}
	h, again, err := w.lock.tracedAttempt(ctx, w)
	qs := &w.lock.client.queues
	qs.mu.Lock()
	defer qs.mu.Unlock()
	w.noBlock = w.noBlock || h == nil && again.tokenRejected
	if !errors.Is(err, errCutShort) {
		w.queue.recordAttempt(err)
	}
	return h, again, err
}

// planNext schedules the next attempt after a failed one.
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
	w.attempting = false // only from now on a lease may be handed over to it
	w.queue.attempting--
}

// takeTicket takes the ticket with which nodes wake the waiter.
func (w *waiter) takeTicket() {
	if w.ticket == nil {
		w.lock.client.queues.ensureNudge(w)
		w.ticket = w.lock.client.messages.addTicket(w)
		w.publishTicket()
	}
}

// publishTicket makes the ticket visible to other waiters.
func (w *waiter) publishTicket() {
	qs := &w.lock.client.queues
	qs.mu.Lock()
	defer qs.mu.Unlock()
	w.visibleTicket = w.ticket
}

// awaitTurn returns when an attempt is due, or with a lease that was handed over. It returns an
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

// untilAttempt returns how long to wait for the next attempt unless nudged; 0 if it is due now.
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

// mayAttempt reports whether the waiter may talk to the nodes. Requires the mutex of localQueues.
//
// The first waiter of a local queue may, while this client does not hold the lock. In fair order it
// may even then: it needs its place in the nodes' queues before the release, or later waiters of
// other clients would go first.
//
// All readers may, since one reader's lease does not serve another.
//
// Waiters for permits of a semaphore may together, while none is known to wait for others and there
// may be enough permits for all. A waiter with a ticket is woken for itself, so it may too.
func (w *waiter) mayAttempt() bool {
	if w.lock.slots != nil {
		return w.queue.head == w || w.visibleTicket != nil || w.queue.blocked == 0 && int(w.queue.attempting) < w.lock.slots.Permits
	}
	return w.lock.shared || w.queue.head == w && (w.queue.heldBy == nil || w.lock.waitMode == WaitFair)
}

// ensureNudge makes sure that the waiter can be nudged. Requires the mutex of localQueues.
func (w *waiter) ensureNudge() {
	if w.nudged == nil {
		w.nudged = make(chan struct{}, 1)
	}
}

// untilDue returns how long to postpone the next attempt.
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
		return 0 // saves a clock read
	}
	return due - c.Now()
}

// mayBeFirst reports whether the waiter may be first on the nodes: it has no ticket, or its ticket
// is at the head on enough nodes. Requires the mutex of localQueues.
func (w *waiter) mayBeFirst() bool {
	return w.visibleTicket == nil || w.visibleTicket.mayBeFirst()
}

// attemptNow makes the waiter attempt now, whatever its forecast. Requires the mutex of
// localQueues.
func (w *waiter) attemptNow() {
	w.stale = true
	w.nudge()
}

// cancel ends the wait, unless a lease has just been handed over.
func (w *waiter) cancel(why error) (*lease, error) {
	err := gaveUpError(w.giveUpReason(nil), why)
	qs := &w.lock.client.queues
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if w.handedOver != nil {
		return w.handedOver, nil
	}
	qs.remove(w)
	return nil, err
}

// finish removes the waiter from all queues. If its ticket belongs to the grant, the release
// removes the ticket from the nodes.
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

// canInherit reports whether the grant h suits the waiter's lock. Requires the mutex of
// localQueues.
func (w *waiter) canInherit(h *grant) bool {
	l := w.lock
	return !w.attempting && l.mayHandOver && l.ttl == h.lock.ttl && equalStrings(l.purpose, h.lock.purpose)
}

// heldLocallyError is the error of a waiter whose own client holds the lock.
func (g *grant) heldLocallyError() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return &HeldError{Name: g.lock.displayName(g.lock.names[0]), Owner: g.owner, TTL: max(0, g.validUntil-g.client.clock.Now()), permits: g.lock.slots != nil}
}

// notAskedError is the error of a waiter that gave up before it asked any node.
func (l *Lock) notAskedError() error {
	n := l.client.nodes.Len()
	return &NoQuorumError{Op: node.Acquire.String(), Names: l.Names(), Need: l.need, Pending: n, Total: n}
}

// recheckInterval is the longest time between two attempts of a waiter, whatever its forecast: a
// wake can be lost, or reach a process that is paused. Jitter takes off up to a quarter. On slow
// links, backoff can make it up to 8 latencies, see contentionPause.
const recheckInterval = time.Second

// entryTTL is how long nodes keep a ticket after an attempt: until after the next.
func (c *Client) entryTTL() time.Duration {
	return (3*recheckInterval + 2*c.cfg.NodeTimeoutMax).Truncate(time.Millisecond)
}

// The bounds of settleTime.
const (
	minSettle = time.Millisecond
	maxSettle = 20 * time.Millisecond
)

// settleTime is how long most nodes need for an answer, with a margin. Events that happen on all
// nodes at the same time arrive within it.
func (c *Client) settleTime() time.Duration {
	return min(max(4*c.nodes.MedianLatency(), minSettle), maxSettle)
}

// contentionPause is the least upper bound of backoff, 8 latencies. A failed attempt blocks other
// contenders for 2 latencies, until its grants are undone. Shorter pauses let a few contenders on
// slow links block each other for seconds.
func (c *Client) contentionPause() time.Duration { return 8 * c.nodes.MedianLatency() }

// addTime returns at + d, or never if that overflows.
func addTime(at, d time.Duration) time.Duration {
	if d > never-at {
		return never
	}
	return at + d
}

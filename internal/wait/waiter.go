package wait

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/lease"
)

// waiter is one call of Acquire, from entering the local queue until it has a lease or gives up.
type waiter struct {
	queues *Queues
	spec   *lease.Spec
	// trace records the call, or is nil.
	trace lease.Trace
	// began is when the waiter came. number is the same by the wall clock, in microseconds.
	began  time.Duration
	number int64
	// enlisted is when the nodes had noted the client's list, for a call for permits.
	enlisted time.Duration
	attempts int
	// noBlock is set when nodes refuse a block of tokens but may take a single one.
	noBlock bool
	// followed is set if another waiter stood behind this one when its attempt became due.
	followed bool
	// ticket is the waiter's place in the nodes' queues; nil while it has none.
	ticket *ticket
	// parked is set while the nodes cannot answer the waiter in time; see crowd. It then has the seat.
	parked bool
	seat   seat

	// The fields below are guarded by the mutex of Queues.

	queue      *localQueue
	prev, next *waiter
	// handedOver is the lease that was handed over to this waiter.
	handedOver *lease.Lease
	// attempting is set from the start of an attempt until the waiter waits again.
	attempting bool
	// stale is set when the forecast is out of date, since this client has held the lock meanwhile.
	stale bool
	// signals wakes the waiter's goroutine; nil until it first waits.
	signals chan struct{}
	// blocked is set once the waiter is known to wait for others.
	blocked bool
	// visibleTicket is ticket, for other goroutines.
	visibleTicket *ticket
	// nextAttempt is when the next attempt is due, unless the ticket has a forecast.
	nextAttempt time.Duration
}

// waiterPool reuses waiters that never had to wait: no other goroutine knows them.
var waiterPool = sync.Pool{New: func() any { return &waiter{} }}

// newWaiter appends a waiter to its local queue.
func (qs *Queues) newWaiter(s *lease.Spec, trace lease.Trace) *waiter {
	c := qs.engine.Clock
	w := waiterPool.Get().(*waiter) //nolint:forcetypeassert // by construction
	*w = waiter{queues: qs, spec: s, trace: trace, began: c.Now(), number: c.Wall().UnixMicro()}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.queueFor(keyOf(s))
	w.queue, w.prev = q, q.tail
	if q.tail == nil {
		q.head = w
	} else {
		q.tail.next = w
	}
	q.tail = w
	if q.unasked == nil {
		q.unasked = w
	}
	if s.Slots != nil {
		q.addRoom(s.Slots, true)
		q.letInNext()
	}
	return w
}

// signal makes the waiter look again. Requires the mutex of Queues, or that ensureSignals has
// been called.
func (w *waiter) signal() { signal(w.signals) }

// run waits for turns and makes attempts until it gets a lease, or cannot get one.
func (w *waiter) run(ctx context.Context) (Result, error) {
	if e := w.queues.engine; w.spec.Slots != nil {
		// Attempts that wait for this could pass each other.
		w.enlisted, _ = e.Nodes.Enlist(w.began, w.spec.Need, ctx.Done(), e.Closing)
	}
	for {
		given, err := w.awaitTurn(ctx)
		switch {
		case given != nil:
			return w.result(given, true), nil
		case err != nil:
			return Result{}, err
		}
		l, again, err := w.attempt(ctx)
		if err == nil {
			return w.result(l, false), nil
		}
		w.queues.env.Events.AttemptFailed(w.spec, w.attempts, err)
		switch {
		case ctx.Err() != nil:
			if again.CutShort {
				err = w.giveUpReason(err)
			}
			return Result{}, lease.GaveUp(err, lease.ContextError(ctx))
		case !again.Useful:
			return Result{}, err
		}
		w.planNext(again, err)
	}
}

func (w *waiter) result(l *lease.Lease, handedOver bool) Result {
	return Result{Lease: l, Attempts: w.attempts, HandedOver: handedOver, Waited: l.GrantedAt() - w.began}
}

// giveUpReason returns the most useful error for a wait that ends. err is the error of an attempt
// that was cut short, or nil. It says less than an earlier complete one.
func (w *waiter) giveUpReason(err error) error {
	holder, last := w.queues.obstacle(w)
	switch {
	case holder != nil:
		return holder.Obstacle()
	case last != nil:
		return last
	case err != nil:
		return err
	case w.parked:
		return w.queues.engine.CrowdedError(w.spec)
	default:
		return w.queues.engine.NotAskedError(w.spec)
	}
}

// attempt makes one attempt, and records its result in the local queue.
func (w *waiter) attempt(ctx context.Context) (*lease.Lease, lease.Retry, error) {
	w.attempts++
	if w.ticket == nil && !w.spec.Spins && w.queues.subscriptions.Open() && w.needsTicket() {
		w.takeTicket() // a denial then queues it at once
	}
	r := lease.Request{Began: max(w.began, w.enlisted), Reserve: w.spec.HandOver && !w.noBlock && w.followed, Trace: w.trace}
	if w.signals != nil || w.attempts > 1 { // otherwise its arrival is close enough, and saves a clock read
		r.Began = w.queues.engine.Clock.Now()
	}
	if w.ticket != nil {
		r.Ticket = w.ticket
		if w.spec.Slots != nil {
			r.Hints = w.ticket.takeHints()
		}
	}
	l, again, err := w.queues.engine.Attempt(ctx, w.spec, r)
	w.queues.mu.Lock()
	defer w.queues.mu.Unlock()
	open := again.TokenRejected && !w.noBlock // nodes may take a single token next
	w.noBlock = w.noBlock || l == nil && again.TokenRejected
	if !again.CutShort && !again.NotAsked {
		w.queues.recordAttempt(w.queue, r.Began, err, open)
		again.Useful = again.Useful && w.outageEnd() > w.queues.engine.Clock.Now()
	}
	return l, again, err
}

// outageEnd returns until when the waiter goes on although too few nodes answer. Requires the mutex of Queues.
func (w *waiter) outageEnd() time.Duration {
	since := w.queue.historyCopy().outage
	if w.spec.MaxOutage == 0 || since == 0 {
		return decision.Never
	}
	return decision.After(max(since, w.began), max(w.spec.MaxOutage, 0))
}

func (w *waiter) planNext(again lease.Retry, err error) {
	qs := w.queues
	now := qs.engine.Clock.Now()
	qs.mu.Lock()
	due := min(now+qs.backoffBefore(w.attempts, again), w.outageEnd())
	qs.mu.Unlock()
	held := errors.Is(err, lease.ErrHeld)
	if held && !w.spec.Spins {
		w.takeTicket()
	}
	if w.ticket != nil {
		if qs.router.onDenied(w.ticket) {
			qs.heart.start()
		}
		w.ticket.onAttemptFailed(due, held)
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	w.nextAttempt = due
	if held && w.spec.Slots != nil {
		h := w.queue.ensureHistory()
		h.denied, h.freed, h.came = true, h.freed/2, h.came/2
	}
	if held && sharesCalls(w.spec) {
		qs.denials.record(keyOf(w.spec), now)
	}
	if !w.blocked {
		w.blocked = true
		w.queue.blocked++
	}
	w.attempting = false // only from now on a lease may be handed over to it
	w.queue.attempting--
	w.queue.land(w)
}

// takeTicket takes the ticket with which nodes wake the waiter. Its number is since when it is the turn of the waiter's
// client: when the waiter came, or when its client last had the lock.
func (w *waiter) takeTicket() {
	if w.ticket != nil {
		return
	}
	qs := w.queues
	qs.mu.Lock()
	w.ensureSignals()
	number := max(w.number, w.queue.historyCopy().lastFreed)
	qs.mu.Unlock()
	w.ticket = qs.router.addTicket(w.spec, number, w.signals)
	qs.mu.Lock()
	w.visibleTicket = w.ticket // from now on, as its messages arrive
	qs.mu.Unlock()
}

// awaitTurn returns when an attempt is due, or with a lease that was handed over. It returns an
// error when ctx or the client has ended.
func (w *waiter) awaitTurn(ctx context.Context) (given *lease.Lease, err error) {
	qs := w.queues
	var timer clock.Timer
	defer func() {
		if timer != nil {
			timer.Stop()
		}
		w.unpark()
	}()
	for {
		given, signals, wait, err := w.untilAttempt()
		due := given == nil && err == nil && wait <= 0
		if due && qs.Crowded(ctx, w.spec) {
			due, signals, wait = false, w.park(ctx), decision.Never
		} else {
			w.unpark()
		}
		switch {
		case given != nil || err != nil:
			return given, err
		case due:
			return nil, nil //nolint:nilnil // its turn has come
		case wait == decision.Never:
		case timer == nil:
			timer = qs.engine.Clock.AfterFunc(wait, w.signal)
		default:
			timer.Reset(wait)
		}
		select {
		case <-signals:
		case <-ctx.Done():
			return w.cancel(lease.ContextError(ctx))
		case <-qs.engine.Closing:
			return w.cancel(lease.ErrClosed)
		}
	}
}

// park ends the turn of a waiter until a signal comes.
func (w *waiter) park(ctx context.Context) (signals <-chan struct{}) {
	qs := w.queues
	qs.mu.Lock()
	w.ensureSignals()
	w.attempting, w.stale = false, true // what made the attempt due still does
	w.queue.attempting--
	w.queue.land(w)
	w.queue.letInNext()
	qs.mu.Unlock()
	if !w.parked {
		end, _ := ctx.Deadline()
		w.seat = seat{need: w.spec.Need, deadline: end, signals: w.signals}
	}
	qs.crowd.enter(&w.seat, w.parked)
	w.parked = true
	if !qs.Crowded(ctx, w.spec) { // capacity that was freed before woke others
		w.signal()
	}
	return w.signals
}

// unpark ends the parking of a waiter, if it is parked.
func (w *waiter) unpark() {
	if w.parked {
		w.parked = false
		w.queues.crowd.leave(&w.seat)
	}
}

// untilAttempt returns how long to wait for the next attempt unless a signal comes; 0 if it is due now. The wait ends with
// an error if too few nodes have answered others of the queue for too long.
func (w *waiter) untilAttempt() (given *lease.Lease, signals <-chan struct{}, wait time.Duration, err error) {
	qs := w.queues
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if w.handedOver != nil {
		return w.handedOver, nil, 0, nil
	}
	wait = decision.Never
	if w.mayAttempt() {
		wait = w.untilDue(qs.engine.Clock)
	} else if end := w.outageEnd(); end != decision.Never {
		h, now := w.queue.history, qs.engine.Clock.Now()
		if w.queue.attempting == 0 && qs.outdated(h, now) {
			h.outage = 0 // the next attempt that fails begins another one, and wakes this waiter
		} else if wait = end - now; wait <= 0 {
			why := h.lastErr
			qs.remove(w)
			return nil, nil, 0, why
		}
	}
	switch {
	case wait <= 0:
		w.begin()
	default:
		w.ensureSignals()
	}
	return nil, w.signals, wait, nil
}

// begin notes that the waiter begins an attempt. Then the next one for permits may begin too. Requires the mutex of Queues.
func (w *waiter) begin() {
	q, h := w.queue, w.queue.history
	w.attempting, w.stale, w.followed = true, false, w.next != nil
	q.attempting++
	switch {
	case h == nil || !h.denied || q.unasked != w:
	case h.pilot == nil:
		h.pilot = w
	default:
		h.freed -= w.spec.Slots.Want
		h.came -= w.spec.Slots.Want
	}
	q.pass(w)
	q.letInNext()
}

// mayAttempt reports whether the waiter may talk to the nodes. Requires the mutex of Queues.
//
// The first waiter of a local queue may, while this client does not hold the lock.
//
// All readers may, since one reader's lease does not serve another.
//
// Waiters for permits of a semaphore may together, in their order, while there is room for them. One
// that has a ticket, or is parked, is woken for itself, so it may too.
func (w *waiter) mayAttempt() bool {
	if w.spec.Slots != nil {
		return w.queue.head == w || w.visibleTicket != nil || w.queue.hasRoom(w) || w.parked
	}
	return w.spec.Reads || w.queue.head == w && w.queue.heldBy == nil
}

// ensureSignals makes sure that the waiter can get signals. Requires the mutex of Queues.
func (w *waiter) ensureSignals() {
	if w.signals == nil {
		w.signals = make(chan struct{}, 1)
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
	if due == decision.Never {
		return due
	}
	due = max(due, w.queue.historyCopy().turnRest)
	if due == 0 {
		return 0 // saves a clock read
	}
	return due - c.Now()
}

// cancel ends the wait, unless a lease has just been handed over.
func (w *waiter) cancel(why error) (*lease.Lease, error) {
	err := lease.GaveUp(w.giveUpReason(nil), why)
	qs := w.queues
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
func (w *waiter) finish(l *lease.Lease) {
	w.queues.removeIfQueued(w)
	switch {
	case w.ticket != nil:
		w.queues.router.onServed(w.ticket)
		switch {
		case l == nil || l.Grant().Ticket() != lease.Ticket(w.ticket):
			w.queues.router.removeTicket(w.ticket)
			w.ticket.leaveAll()
		case w.spec.Slots != nil:
			w.ticket.keepPlaces(l.Grant())
		}
	case w.signals == nil:
		waiterPool.Put(w)
	}
}

// canInherit reports whether a grant with this spec suits the waiter. Requires the mutex of Queues.
func (w *waiter) canInherit(s *lease.Spec) bool {
	return !w.attempting && w.spec.HandOver && w.spec.TTL == s.TTL && w.spec.Label == s.Label
}

// sharesCalls reports whether operations for this spec share script calls with others. A denial of any other kind is not
// recorded, as it would push out those that are asked for.
func sharesCalls(s *lease.Spec) bool {
	return !s.Reads && !s.Spins && s.Slots == nil && len(s.Names) == 1
}

// needsTicket reports whether the waiter's next attempt should carry a ticket, if messages of nodes can arrive.
func (w *waiter) needsTicket() bool {
	if w.attempts > 1 || !sharesCalls(w.spec) {
		return true
	}
	qs := w.queues
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return qs.denials.recent(keyOf(w.spec), w.began)
}

// Acquire waits in the local queue until the lock is taken, or waiting cannot help. trace may be
// nil.
func (qs *Queues) Acquire(ctx context.Context, s *lease.Spec, trace lease.Trace) (Result, error) {
	w := qs.newWaiter(s, trace)
	r, err := w.run(ctx)
	w.finish(r.Lease)
	return r, err
}

// maxSlotAttempts bounds how often a TryAcquire asks for slots that the nodes have just reported as
// free.
const maxSlotAttempts = 5

// TryAcquire makes an attempt without the local queue. For a semaphore it makes a few, while nodes
// report that other slots are free. trace may be nil.
func (qs *Queues) TryAcquire(ctx context.Context, s *lease.Spec, trace lease.Trace) (Result, error) {
	if qs.Crowded(ctx, s) {
		err := qs.engine.CrowdedError(s)
		qs.env.Events.AttemptFailed(s, 1, err)
		return Result{}, err
	}
	began := qs.engine.Clock.Now()
	for tries, now := 1, began; ; tries, now = tries+1, qs.engine.Clock.Now() {
		l, again, err := qs.engine.Attempt(ctx, s, lease.Request{Began: now, Trace: trace})
		switch {
		case err == nil:
			return Result{Lease: l, Attempts: tries, Waited: l.GrantedAt() - began}, nil
		case ctx.Err() != nil:
			err = lease.GaveUp(err, lease.ContextError(ctx))
		}
		qs.env.Events.AttemptFailed(s, tries, err)
		if ctx.Err() != nil || tries == maxSlotAttempts || !again.OtherSlots {
			return Result{}, err
		}
	}
}

// Crowded reports whether the nodes cannot answer a call for this lock before the context ends.
func (qs *Queues) Crowded(ctx context.Context, s *lease.Spec) bool {
	end, ok := ctx.Deadline()
	return ok && qs.engine.Nodes.Crowded(s.Need, time.Until(end)) //nolint:forbidigo // deadlines of contexts are of package time
}

package wait

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/slots"
)

// Queues are the local queues of one client: the waiters of one lock each. Usually only the first
// waiter of a queue talks to the nodes, while this client does not hold the lock; [waiter.mayAttempt]
// has the exceptions. A waiter behind it costs the nodes nothing. It is safe for concurrent use.
type Queues struct {
	shared
	router router
	heart  heart

	mu      sync.Mutex
	by      map[queueKey]*localQueue
	spare   []*localQueue
	denials denials

	crowd crowd
}

// queueKey identifies a local queue: the names, the number of nodes that must grant, and the kind
// of waiter. Waiters queue separately by quorum, by spinning and by reading: a MultiLock must not
// block a RedLock, a spinning waiter a notified one, or a writer the readers.
type queueKey struct {
	id        string
	need      uint8
	multiName bool
	spins     bool
	reads     bool
}

func keyOf(s *lease.Spec) queueKey {
	return queueKey{
		id: s.Queue[0], need: uint8(s.Need), //nolint:gosec // of at most quorum.MaxNodes
		multiName: len(s.Names) > 1 && s.Slots == nil, spins: s.Spins, reads: s.Reads,
	}
}

// JoinNames encodes a list of names as one string, uniquely: one name as itself, several with their
// lengths.
func JoinNames(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	var b strings.Builder
	for _, name := range names {
		b.WriteString(strconv.Itoa(len(name)))
		b.WriteByte(':')
		b.WriteString(name)
	}
	return b.String()
}

// localQueue has this client's waiters for one lock, in FIFO order, and the grant if this client
// holds it.
type localQueue struct {
	// heldBy is the grant of this client, or nil.
	heldBy *lease.Grant
	// head and tail are the ends of the list of waiters.
	head, tail *waiter
	// unasked is the first waiter that has begun no attempt, or nil. Waiters for permits begin in their order, so those
	// behind it have begun none either.
	unasked *waiter
	// attempting counts the waiters that make an attempt, blocked the waiters that are known to
	// wait for others.
	attempting, blocked int32
	// history is nil while no waiter is queued: every held lock has a queue, so an idle queue must
	// be small.
	history *queueHistory
}

// queueHistory has the results of earlier attempts and holders of a queue, for its waiters.
type queueHistory struct {
	// lastFreed is when a grant of this client last ended while a waiter was queued, in
	// microseconds by the wall clock. After it, other clients have their turn.
	lastFreed int64
	// turnStart and turnRest are for waiters that spin, which no node can wake. This client's turn
	// began at turnStart. Until turnRest, it leaves the lock to the clients that poll for it.
	turnStart, turnRest time.Duration
	// lastErr is the result of the last attempt of this queue.
	lastErr error
	// denied is set once the nodes have denied permits to a waiter. Then waiters may ask for max(freed, came) permits: as many
	// as this client gives back, or as new calls want. Besides, one waiter at a time may ask without that: the pilot.
	denied      bool
	freed, came int
	pilot       *waiter
	// outage is when the attempts began since which too few nodes answered; 0 if the last attempt had answers of enough.
	// outageSeen is when the last of them ended.
	outage, outageSeen time.Duration
}

// ensureHistory returns the queue's history, and allocates it if necessary.
func (q *localQueue) ensureHistory() *queueHistory {
	if q.history == nil {
		q.history = &queueHistory{}
	}
	return q.history
}

// historyCopy returns a copy of the queue's history, or the zero value.
func (q *localQueue) historyCopy() queueHistory {
	if q.history == nil {
		return queueHistory{}
	}
	return *q.history
}

// recordAttempt records the result of the last attempt, which began then. A nil err clears the earlier obstacle. If open is
// set, only the next attempt shows whether enough nodes answer.
func (qs *Queues) recordAttempt(q *localQueue, began time.Duration, err error, open bool) {
	if err == nil && q.history == nil {
		return
	}
	h := q.ensureHistory()
	h.lastErr = err
	if err == nil || errors.Is(err, lease.ErrHeld) || q.heldBy != nil { // as enough nodes have just answered a TryAcquire
		h.outage = 0
		return
	}
	if qs.outdated(h, began) {
		h.outage = 0
	}
	if !open && h.outage == 0 {
		h.outage = max(began, 1) // a clock may begin at 0, which is none
		for w := q.head; w != nil; w = w.next {
			if w.spec.MaxOutage != 0 && w.signals != nil {
				w.signal() // so that it gives up in time
			}
		}
	}
	h.outageSeen = qs.engine.Clock.Now()
}

// outdated reports whether nothing was heard of an outage for so long that it may be over. While it lasts, attempts follow each
// other, unless the waiter that made them has left, and others need not ask.
func (qs *Queues) outdated(h *queueHistory, now time.Duration) bool {
	return now-h.outageSeen > 2*qs.longestBackoff()+time.Second
}

// maxSpareQueues bounds the number of empty queues that are kept for reuse.
const maxSpareQueues = 64

// queueFor returns the queue of a key, and creates it if necessary. Requires qs.mu.
func (qs *Queues) queueFor(key queueKey) *localQueue {
	if q := qs.by[key]; q != nil {
		return q
	}
	var q *localQueue
	if n := len(qs.spare); n > 0 {
		q, qs.spare = qs.spare[n-1], qs.spare[:n-1]
	} else {
		q = &localQueue{}
	}
	if qs.by == nil {
		qs.by = make(map[queueKey]*localQueue)
	}
	qs.by[key] = q
	return q
}

// forgetIfEmpty drops a queue that has neither a grant nor a waiter. Requires qs.mu.
func (qs *Queues) forgetIfEmpty(key queueKey, q *localQueue) {
	if q.heldBy != nil || q.head != nil {
		return
	}
	delete(qs.by, key)
	*q = localQueue{}
	if len(qs.spare) < maxSpareQueues {
		qs.spare = append(qs.spare, q)
	}
}

// removeIfQueued removes a waiter if it is still queued. The next waiter then has its turn.
func (qs *Queues) removeIfQueued(w *waiter) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if w.queue != nil {
		qs.remove(w)
	}
}

// remove removes a waiter from its queue. Requires qs.mu.
func (qs *Queues) remove(w *waiter) {
	q := w.queue
	if w.prev == nil {
		q.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	if w.attempting {
		q.attempting--
	}
	if w.blocked {
		w.blocked = false
		q.blocked--
	}
	q.pass(w)
	q.land(w)
	first := w.prev == nil
	w.queue, w.prev, w.next = nil, nil, nil
	if first && q.head != nil && q.head.mayAttempt() {
		q.head.signal()
	}
	q.letInNext()
	qs.forgetIfEmpty(keyOf(w.spec), q)
}

// pass notes that a waiter begins an attempt or leaves. Requires the mutex of Queues.
func (q *localQueue) pass(w *waiter) {
	if q.unasked == w {
		q.unasked = w.next
	}
}

// letInNext wakes the next waiter for permits if it may ask the nodes. That one then wakes the next. If permits become free
// without a release in this queue, as when a TryAcquire fails, no waiter is woken: the next one goes once the first is done.
// Requires the mutex of Queues.
func (q *localQueue) letInNext() {
	if w := q.unasked; w != nil && w.spec.Slots != nil && w.mayAttempt() {
		w.signal()
	}
}

// hasRoom reports whether a waiter behind the first may ask for permits: it is next, none is known to wait for others, and
// there may be enough permits besides those that this client has or asks for. Requires the mutex of Queues.
//
// Once the nodes have denied some, other clients have or want the rest. Each attempt that is denied adds to the queues of the
// nodes, which each release there must look through. So waiters behind the first then ask for no more than this client gives
// back, or than new calls want. The pilot finds what other clients leave.
func (q *localQueue) hasRoom(w *waiter) bool {
	s, h := w.spec.Slots, q.history
	return q.unasked == w && q.blocked == 0 && s.MayFit(int(q.attempting)) &&
		(h == nil || !h.denied || h.pilot == nil || max(h.freed, h.came) >= s.Want)
}

// addRoom makes room for waiters behind the first, because a call came or gave its permits back. While a waiter is known to
// wait, the free permits go to it or to other clients. Requires the mutex of Queues.
func (q *localQueue) addRoom(r *slots.Request, came bool) {
	h := q.history
	if h == nil || q.blocked > 0 {
		return
	}
	room := &h.freed
	if came {
		room = &h.came
	}
	size, _ := r.Size()
	*room = min(*room+r.Want, size)
}

// land notes that the attempt of a waiter has ended. Requires the mutex of Queues.
func (q *localQueue) land(w *waiter) {
	if q.history != nil && q.history.pilot == w {
		q.history.pilot = nil
	}
}

// OnTaken implements lease.Locals.
func (qs *Queues) OnTaken(g *lease.Grant) {
	s := g.Spec()
	if s.Slots != nil || s.Reads {
		return // permits and readers block no other waiter of this client
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.queueFor(keyOf(s))
	q.heldBy = g
	if q.history != nil {
		q.history.outage = 0
	}
	if s.Spins {
		if qh := q.ensureHistory(); qh.turnStart <= qh.turnRest { // otherwise a turn has begun
			qh.turnStart = g.GrantedAt()
		}
	}
}

// OnReleased implements lease.Locals.
func (qs *Queues) OnReleased(g *lease.Grant) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	s := g.Spec()
	q := qs.by[keyOf(s)]
	switch {
	case q == nil:
		return
	case s.Slots != nil:
		if w := q.head; w != nil && (w.visibleTicket == nil || w.visibleTicket.mayBeFirst()) {
			w.stale = true
			w.signal()
		}
		q.addRoom(s.Slots, false)
		q.letInNext()
		return
	case q.heldBy != g:
		return
	}
	q.heldBy = nil
	if q.head != nil {
		qh := q.ensureHistory()
		qh.lastFreed = qs.engine.Clock.Wall().UnixMicro()
		if s.Spins {
			qh.takeRest(qs.engine.Clock.Now(), qs.engine.HandoverTime, qs.env.RetryMax)
		}
		q.head.stale = true
		q.head.signal()
	}
	qs.forgetIfEmpty(keyOf(s), q)
}

// takeRest ends the turn of a client whose waiters spin, once it has lasted for longest. Waiters of
// other clients poll at least every retryMax. So within the rest, one in a few of them finds the
// lock free.
func (qh *queueHistory) takeRest(now, longest, retryMax time.Duration) {
	if now-qh.turnStart >= longest {
		qh.turnRest = now + retryMax/4
	}
}

// obstacle returns what keeps a waiter from the lock: the grant of this client, or the error of its
// queue's last attempt or beat.
func (qs *Queues) obstacle(w *waiter) (*lease.Grant, error) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if w.queue == nil {
		return nil, nil
	}
	if t := cmp.Or(w.visibleTicket, w.queue.head.visibleTicket); t != nil {
		if err := t.obstacle(); err != nil {
			return w.queue.heldBy, err
		}
	}
	return w.queue.heldBy, w.queue.historyCopy().lastErr
}

// HandOver implements lease.Locals: the first waiter of the queue gets the grant, if it can inherit
// it.
func (qs *Queues) HandOver(g *lease.Grant, next func(*lease.Spec) *lease.Lease) bool {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.by[keyOf(g.Spec())]
	if q == nil || q.heldBy != g || q.head == nil || !q.head.canInherit(g.Spec()) {
		return false
	}
	w := q.head
	qs.remove(w)
	w.handedOver = next(w.spec)
	w.signal()
	return true
}

// A client remembers a denial for denialMemory, and at most maxDenials of them.
const (
	denialMemory = 10 * time.Second
	maxDenials   = 1024
)

// denials are the locks for which waiters of this client were denied lately, with the time of the last denial.
//
// The first attempt for such a lock carries a ticket, so that another denial queues it at once. Nodes run an
// acquisition with a ticket, and its release, in script calls of their own. So the first attempts for all other
// locks carry none: they share one script call with the other operations of the client.
type denials map[queueKey]time.Duration

// record records a denial. If it is one too many, it forgets all others: they cost an attempt each.
func (d *denials) record(key queueKey, now time.Duration) {
	if _, known := (*d)[key]; *d == nil || !known && len(*d) >= maxDenials {
		*d = make(denials)
	}
	(*d)[key] = now
}

func (d denials) recent(key queueKey, now time.Duration) bool {
	at, known := d[key]
	return known && now-at < denialMemory
}

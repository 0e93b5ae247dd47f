package quorumlock

import (
	"strconv"
	"strings"
	"sync"
	"time"
)

// localQueues are the local queues of one client: the waiters of one lock each. Only the first
// waiter of a queue talks to the nodes, and only while this client does not hold the lock. A waiter
// behind it costs the nodes nothing.
type localQueues struct {
	mu sync.Mutex
	by map[queueKey]*localQueue
	// spare are empty queues, for reuse.
	spare []*localQueue
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

func (l *Lock) queueKey() queueKey {
	return queueKey{
		id: l.queueName[0], need: uint8(l.need), //nolint:gosec // of at most quorum.MaxNodes
		multiName: len(l.names) > 1 && l.slots == nil, spins: l.waitMode == WaitSpin, reads: l.shared,
	}
}

// joinNames encodes a list of names as one string, uniquely: one name as itself, several with their
// lengths.
func joinNames(names []string) string {
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
	heldBy *grant
	// head and tail are the ends of the list of waiters.
	head, tail *waiter
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

// recordAttempt records the result of the last attempt. A nil err clears the earlier obstacle.
func (q *localQueue) recordAttempt(err error) {
	if err != nil || q.history != nil {
		q.ensureHistory().lastErr = err
	}
}

// maxSpareQueues bounds the number of empty queues that are kept for reuse.
const maxSpareQueues = 64

// queueFor returns the queue of a key, and creates it if necessary. Requires qs.mu.
func (qs *localQueues) queueFor(key queueKey) *localQueue {
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
func (qs *localQueues) forgetIfEmpty(key queueKey, q *localQueue) {
	if q.heldBy != nil || q.head != nil {
		return
	}
	delete(qs.by, key)
	*q = localQueue{}
	if len(qs.spare) < maxSpareQueues {
		qs.spare = append(qs.spare, q)
	}
}

// push appends a waiter to its queue.
func (qs *localQueues) push(w *waiter) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.queueFor(w.lock.queueKey())
	w.queue, w.prev = q, q.tail
	if q.tail == nil {
		q.head = w
	} else {
		q.tail.next = w
	}
	q.tail = w
}

// removeIfQueued removes a waiter if it is still queued. The next waiter then has its turn.
func (qs *localQueues) removeIfQueued(w *waiter) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if w.queue != nil {
		qs.remove(w)
	}
}

// remove removes a waiter from its queue. Requires qs.mu.
func (qs *localQueues) remove(w *waiter) {
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
	first := w.prev == nil
	w.queue, w.prev, w.next = nil, nil, nil
	if first && q.head != nil && q.head.mayAttempt() {
		q.head.nudge()
	}
	qs.forgetIfEmpty(w.lock.queueKey(), q)
}

// markBlocked records that a waiter waits for others. Requires the mutex of localQueues.
func (q *localQueue) markBlocked(w *waiter) {
	if !w.blocked {
		w.blocked = true
		q.blocked++
	}
}

// onTaken records that this client holds the lock.
func (qs *localQueues) onTaken(h *grant) {
	if h.lock.slots != nil || h.lock.shared {
		return // permits and readers block no other waiter of this client
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.queueFor(h.lock.queueKey())
	q.heldBy = h
	if h.lock.waitMode == WaitSpin {
		q.ensureHistory().takeTurn(h.grantedAt)
	}
}

// takeTurn begins the turn of a client whose waiters spin, unless one has begun.
func (qh *queueHistory) takeTurn(now time.Duration) {
	if qh.turnStart <= qh.turnRest {
		qh.turnStart = now
	}
}

// onReleased records that a grant has ended, and that its release is on its way.
func (qs *localQueues) onReleased(h *grant) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.by[h.lock.queueKey()]
	if h.lock.slots != nil && q != nil && q.head != nil && q.head.mayBeFirst() {
		q.head.attemptNow()
	}
	if q == nil || q.heldBy != h {
		return
	}
	q.heldBy = nil
	if q.head != nil {
		qh := q.ensureHistory()
		qh.lastFreed = h.client.clock.Wall().UnixMicro()
		qh.takeRest(h)
		q.head.stale = true
		q.head.nudge()
	}
	qs.forgetIfEmpty(h.lock.queueKey(), q)
}

// takeRest ends the turn of a client whose waiters spin, once it has lasted Handover.MaxTime.
// Waiters of other clients poll at least every RetryMax. So within the rest, one in a few of them
// finds the lock free.
func (qh *queueHistory) takeRest(h *grant) {
	cfg, now := &h.client.cfg, h.client.clock.Now()
	if h.lock.waitMode == WaitSpin && now-qh.turnStart >= cfg.Handover.MaxTime {
		qh.turnRest = now + cfg.RetryMax/4
	}
}

// hasFollower reports whether another waiter is queued behind w.
func (qs *localQueues) hasFollower(w *waiter) bool {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return w.next != nil
}

// obstacle returns what keeps a waiter from the lock: the grant of this client, or the error of its
// queue's last attempt.
func (qs *localQueues) obstacle(w *waiter) (*grant, error) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if w.queue == nil {
		return nil, nil
	}
	return w.queue.heldBy, w.queue.historyCopy().lastErr
}

// ensureNudge is waiter.ensureNudge under the mutex.
func (qs *localQueues) ensureNudge(w *waiter) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	w.ensureNudge()
}

// ticketNumber returns since when it is the turn of the waiter's client: when the waiter came, or
// when its client last had the lock.
func (qs *localQueues) ticketNumber(w *waiter) int64 {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return max(w.number, w.queue.historyCopy().lastFreed)
}

// handOver gives the grant h to the first waiter of its queue, if that can inherit it, and reports
// whether it did. It calls to, which makes the next lease, under the mutex.
func (qs *localQueues) handOver(h *grant, to func(*Lock) *lease) bool {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.by[h.lock.queueKey()]
	if q == nil || q.heldBy != h || q.head == nil || !q.head.canInherit(h) {
		return false
	}
	w := q.head
	qs.remove(w)
	w.handedOver = to(w.lock)
	w.nudge()
	return true
}

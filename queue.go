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

// queueHistory is what a waiter needs to know of earlier attempts and holders of its queue.
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
func (ln *localQueue) ensureHistory() *queueHistory {
	if ln.history == nil {
		ln.history = &queueHistory{}
	}
	return ln.history
}

// historyCopy returns a copy of the queue's history, or the zero value.
func (ln *localQueue) historyCopy() queueHistory {
	if ln.history == nil {
		return queueHistory{}
	}
	return *ln.history
}

// recordAttempt records the result of the last attempt. A nil err clears the earlier obstacle.
func (ln *localQueue) recordAttempt(err error) {
	if err != nil || ln.history != nil {
		ln.ensureHistory().lastErr = err
	}
}

// maxSpareQueues bounds the number of empty queues that are kept for reuse.
const maxSpareQueues = 64

// queueFor returns the queue of a key, and creates it if necessary. Requires ls.mu.
func (ls *localQueues) queueFor(key queueKey) *localQueue {
	if ln := ls.by[key]; ln != nil {
		return ln
	}
	var ln *localQueue
	if n := len(ls.spare); n > 0 {
		ln, ls.spare = ls.spare[n-1], ls.spare[:n-1]
	} else {
		ln = &localQueue{}
	}
	if ls.by == nil {
		ls.by = make(map[queueKey]*localQueue)
	}
	ls.by[key] = ln
	return ln
}

// forgetIfEmpty drops a queue that has neither a grant nor a waiter. Requires ls.mu.
func (ls *localQueues) forgetIfEmpty(key queueKey, ln *localQueue) {
	if ln.heldBy != nil || ln.head != nil {
		return
	}
	delete(ls.by, key)
	*ln = localQueue{}
	if len(ls.spare) < maxSpareQueues {
		ls.spare = append(ls.spare, ln)
	}
}

// push appends a waiter to its queue.
func (ls *localQueues) push(w *waiter) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln := ls.queueFor(w.lock.queueKey())
	w.queue, w.prev = ln, ln.tail
	if ln.tail == nil {
		ln.head = w
	} else {
		ln.tail.next = w
	}
	ln.tail = w
}

// removeIfQueued removes a waiter if it is still queued. The next waiter then has its turn.
func (ls *localQueues) removeIfQueued(w *waiter) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if w.queue != nil {
		ls.remove(w)
	}
}

// remove removes a waiter from its queue. Requires ls.mu.
func (ls *localQueues) remove(w *waiter) {
	ln := w.queue
	if w.prev == nil {
		ln.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		ln.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	if w.attempting {
		ln.attempting--
	}
	if w.blocked {
		w.blocked = false
		ln.blocked--
	}
	first := w.prev == nil
	w.queue, w.prev, w.next = nil, nil, nil
	if first && ln.head != nil && ln.head.mayAttempt() {
		ln.head.nudge()
	}
	ls.forgetIfEmpty(w.lock.queueKey(), ln)
}

// markBlocked records that a waiter waits for others. Requires the mutex of localQueues.
func (ln *localQueue) markBlocked(w *waiter) {
	if !w.blocked {
		w.blocked = true
		ln.blocked++
	}
}

// onTaken records that this client holds the lock.
func (ls *localQueues) onTaken(h *grant) {
	if h.lock.slots != nil || h.lock.shared {
		return // permits and readers block no other waiter of this client
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln := ls.queueFor(h.lock.queueKey())
	ln.heldBy = h
	if h.lock.waitMode == WaitSpin {
		ln.ensureHistory().takeTurn(h.grantedAt)
	}
}

// takeTurn begins the turn of a client whose waiters spin, unless one has begun.
func (p *queueHistory) takeTurn(now time.Duration) {
	if p.turnStart <= p.turnRest {
		p.turnStart = now
	}
}

// onReleased records that a grant has ended, and that its release is on its way.
func (ls *localQueues) onReleased(h *grant) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln := ls.by[h.lock.queueKey()]
	if h.lock.slots != nil && ln != nil && ln.head != nil && ln.head.mayBeFirst() {
		ln.head.attemptNow()
	}
	if ln == nil || ln.heldBy != h {
		return
	}
	ln.heldBy = nil
	if ln.head != nil {
		p := ln.ensureHistory()
		p.lastFreed = h.client.clock.Wall().UnixMicro()
		p.takeRest(h)
		ln.head.stale = true
		ln.head.nudge()
	}
	ls.forgetIfEmpty(h.lock.queueKey(), ln)
}

// takeRest ends the turn of a client whose waiters spin, once it has lasted Handover.MaxTime.
// Waiters of other clients poll at least every RetryMax. So within the rest, one in a few of them
// finds the lock free.
func (p *queueHistory) takeRest(h *grant) {
	cfg, now := &h.client.cfg, h.client.clock.Now()
	if h.lock.waitMode == WaitSpin && now-p.turnStart >= cfg.Handover.MaxTime {
		p.turnRest = now + cfg.RetryMax/4
	}
}

// hasFollower reports whether another waiter is queued behind w.
func (ls *localQueues) hasFollower(w *waiter) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return w.next != nil
}

// obstacle returns what keeps a waiter from the lock: the grant of this client, or the error of its
// queue's last attempt.
func (ls *localQueues) obstacle(w *waiter) (*grant, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if w.queue == nil {
		return nil, nil
	}
	return w.queue.heldBy, w.queue.historyCopy().lastErr
}

// ensureNudge is waiter.ensureNudge under the mutex.
func (ls *localQueues) ensureNudge(w *waiter) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	w.ensureNudge()
}

// ticketNumber returns since when it is the turn of the waiter's client: when the waiter came, or
// when its client last had the lock.
func (ls *localQueues) ticketNumber(w *waiter) int64 {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return max(w.number, w.queue.historyCopy().lastFreed)
}

// handOver gives the grant h to the first waiter of its queue, if that can inherit it, and reports
// whether it did. It calls to, which makes the next lease, under the mutex.
func (ls *localQueues) handOver(h *grant, to func(*Lock) *lease) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln := ls.by[h.lock.queueKey()]
	if ln == nil || ln.heldBy != h || ln.head == nil || !ln.head.canInherit(h) {
		return false
	}
	w := ln.head
	ls.remove(w)
	w.handedOver = to(w.lock)
	w.nudge()
	return true
}

package quorumlock

import (
	"strconv"
	"strings"
	"sync"
	"time"
)

// localQueues are all those of one client who wait for locks, in one line for each set of names
// and rule.
// Only the first of a line talks to the nodes, and only while nobody of this client holds
// the lock: to wait in a line costs nothing.
type localQueues struct {
	mu sync.Mutex
	by map[queueKey]*localQueue
	// spare are lines that were used up.
	spare []*localQueue
}

// queueKey is a set of names (the name, or several with their lengths), how many nodes have to
// grant them, and whether those in the line spin, or read: who needs all nodes must not hold up those who
// are content with most, who looks from time to time not those who are woken, and who writes not
// those who read. Readers do not wait for each other.
type queueKey struct {
	id        string
	need      uint8
	multiName bool
	spins     bool
	reads     bool
}

// queueKey is that of the line of those who want a lock.
func (l *Lock) queueKey() queueKey {
	return queueKey{
		id: l.queueName[0], need: uint8(l.need), //nolint:gosec // of at most quorum.MaxNodes
		multiName: len(l.names) > 1 && l.slots == nil, spins: l.waitMode == WaitSpin, reads: l.shared,
	}
}

// joinNames is several names in one, and no others.
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

// localQueue is who of this client holds the names, and who waits for them.
type localQueue struct {
	// heldBy is the hold of this client, or nil.
	heldBy *grant
	// head and last are the ends of the line of waiters.
	head, tail *waiter
	// attempting is how many of them make an attempt, denied how many are known to wait for others.
	attempting, blocked int32
	// history is nil where nobody waits: there are as many lines as held locks.
	history *queueHistory
}

// queueHistory is what those who wait have to know of those before them.
type queueHistory struct {
	// lastFreed is when a hold of this client ended last while somebody waited, in microseconds
	// by the wall clock: then the others have their turn.
	lastFreed int64
	// Where nobody can be woken, since is when this client's turn began, and rest until when
	// it leaves the lock to those who look for it from time to time.
	turnStart, turnRest time.Duration
	// lastErr is what the last attempt of the line came to.
	lastErr error
}

// ensureHistory is what is known of those before; made if need be.
func (ln *localQueue) ensureHistory() *queueHistory {
	if ln.history == nil {
		ln.history = &queueHistory{}
	}
	return ln.history
}

// historyCopy is what is known of those before.
func (ln *localQueue) historyCopy() queueHistory {
	if ln.history == nil {
		return queueHistory{}
	}
	return *ln.history
}

// recordAttempt notes what the last attempt came to. If it is nil, what stood in the way before does
// not any more.
func (ln *localQueue) recordAttempt(err error) {
	if err != nil || ln.history != nil {
		ln.ensureHistory().lastErr = err
	}
}

// maxSpareQueues bounds how many used lines are kept.
const maxSpareQueues = 64

// queueFor is the line of a key, made if need be. The mutex is held.
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

// forgetIfEmpty forgets a line of which nothing is left. The mutex is held.
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

// push puts a waiter at the end of its line.
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

// removeIfQueued takes a waiter out, if it is still in. Who is first then has its turn.
func (ls *localQueues) removeIfQueued(w *waiter) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if w.queue != nil {
		ls.remove(w)
	}
}

// remove takes a waiter out of its line. The mutex is held.
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

// markBlocked notes that a waiter has to wait for others. The mutex of the lines is held.
func (ln *localQueue) markBlocked(w *waiter) {
	if !w.blocked {
		w.blocked = true
		ln.blocked++
	}
}

// onTaken notes that this client holds the lock.
func (ls *localQueues) onTaken(h *grant) {
	if h.lock.slots != nil || h.lock.shared {
		return // who holds some of a semaphore, or reads, is in nobody's way
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln := ls.queueFor(h.lock.queueKey())
	ln.heldBy = h
	if h.lock.waitMode == WaitSpin {
		ln.ensureHistory().takeTurn(h.grantedAt)
	}
}

// takeTurn begins the turn of a client whose waiters spin.
func (p *queueHistory) takeTurn(now time.Duration) {
	if p.turnStart <= p.turnRest {
		p.turnStart = now
	}
}

// onReleased notes that a hold has ended, and that its release is on its way.
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

// takeRest ends the turn of a client whose waiters spin, once it has lasted as long as a lease
// may be handed over. Those of others look at most RetryMax apart: one in a few of them
// finds the lock free in the meantime.
func (p *queueHistory) takeRest(h *grant) {
	cfg, now := &h.client.cfg, h.client.clock.Now()
	if h.lock.waitMode == WaitSpin && now-p.turnStart >= cfg.Handover.MaxTime {
		p.turnRest = now + cfg.RetryMax/4
	}
}

// hasFollower reports whether somebody waits behind a waiter.
func (ls *localQueues) hasFollower(w *waiter) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return w.next != nil
}

// obstacle is what stands in the way of a waiter: a hold of this client, or what the last
// attempt of its line came to.
func (ls *localQueues) obstacle(w *waiter) (*grant, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if w.queue == nil {
		return nil, nil
	}
	return w.queue.heldBy, w.queue.historyCopy().lastErr
}

// ensureNudge makes a waiter one that can be nudged by anybody.
func (ls *localQueues) ensureNudge(w *waiter) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	w.ensureNudge()
}

// ticketNumber is when the turn of a waiter's client has begun to be due: when it came, or when
// its client had the lock last.
func (ls *localQueues) ticketNumber(w *waiter) int64 {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return max(w.number, w.queue.historyCopy().lastFreed)
}

// handOver gives what a hold has to whoever is first in its line, if that is one who would take
// it as it is. The tenure is made with the mutex held.
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

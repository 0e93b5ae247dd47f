package quorumlock

import (
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// ticket is a waiter's place in the queues of the nodes, with a forecast of when they are free.
// Nodes forget it after entryTTL without an attempt.
type ticket struct {
	waiter *waiter
	client *Client
	names  []string
	// id tells the ticket from others of the client. nodeID is id with the time that nodes give the
	// woken waiter; the first attempt sets it.
	id, nodeID string
	number     int64
	// fifo is set if the waiter leaves free nodes to earlier waiters.
	fifo bool

	mu       sync.Mutex
	forecast quorum.Forecast
	// These are sets of nodes. listening: their messages arrived at the last attempt. queuedAt: the
	// ticket may be in their queues. confirmedAt: they have confirmed that since the last attempt.
	// headAt: no waiter is ahead there. unanswered: they have not answered.
	listening, queuedAt, confirmedAt, headAt, unanswered uint64
	// attempted is set once an attempt has carried the ticket. mustPoll is set if the last attempt
	// found too few nodes that can wake the waiter. left is set when the waiter has gone.
	attempted, mustPoll, left bool
	// counted is set once the waiter was denied. Guarded by the mutex of the router.
	counted bool
	// pollAt is when to ask if the nodes may not wake the waiter. recheckAfter is how long after an
	// attempt to ask in any case.
	pollAt, recheckAfter time.Duration
	// attemptsSinceWake counts the attempts since a node last reported a release. While none does,
	// the next attempt is not before notBefore.
	attemptsSinceWake int
	notBefore         time.Duration
	// slotHints has, for each node, the slots of a semaphore that it has offered since the last
	// attempt; nil if none has.
	slotHints []quorum.Slots
	// grant is the waiter's grant, if it got permits of a semaphore.
	grant *grant
}

func newTicket(w *waiter) *ticket {
	c := w.lock.client
	e := &ticket{
		waiter:   w,
		client:   c,
		names:    w.lock.names,
		id:       w.lock.slots.WaiterID(c.id + ":" + c.nextSequence()),
		number:   w.number,
		fifo:     w.lock.isFIFO(),
		forecast: quorum.NewForecast(c.nodes.Len(), w.lock.need),
	}
	if w.lock.waitMode != WaitFair {
		e.number = c.queues.ticketNumber(w)
	}
	return e
}

// beginAttempt prepares the ticket for an attempt.
func (e *ticket) beginAttempt(now time.Duration) {
	listening, _ := e.client.messages.subscriptions.Listening()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.attempted {
		id := node.WaiterID
		if e.waiter.lock.shared {
			id = node.ReaderID
		}
		e.nodeID = id(e.id, 3*e.client.nodes.MedianLatency())
	}
	e.listening, e.confirmedAt, e.headAt, e.attempted = listening, 0, 0, true
	e.recheckAfter = recheckInterval - time.Duration(e.client.cfg.Jitter()*float64(recheckInterval/4))
	e.notBefore = now + e.backoff()
	e.forecast.StartAttempt(now, e.client.settleTime())
}

// stamp adds the ticket to an acquisition on one node: a denial then enters it into the queue
// there.
func (e *ticket) stamp(op *node.Op, i int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.listening&(1<<i) == 0 {
		// This ticket cannot queue on the node, so the waiter barges. If two waiters left such
		// nodes to each other, they would deadlock.
		return
	}
	op.Fair = e.fifo
	e.queuedAt |= 1 << i
	e.unanswered |= 1 << i
	op.Waiter = e.asWaiter()
}

// asWaiter is the ticket as nodes see it while the waiter waits.
func (e *ticket) asWaiter() node.Waiter {
	return node.Waiter{ID: e.nodeID, Ticket: e.number, Keep: e.client.entryTTL()}
}

// onUndo returns the ticket as a node should see it when a failed attempt is undone there.
func (e *ticket) onUndo(i int) node.Waiter {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.left:
		return e.asLeaver()
	case e.queuedAt&(1<<i) == 0:
		return node.Waiter{} // the ticket is not queued there
	default:
		return e.asWaiter()
	}
}

// asLeaver is the ticket as nodes see it when the waiter has gone: they remove it.
func (e *ticket) asLeaver() node.Waiter { return node.Waiter{ID: e.nodeID} }

// voted updates the forecast with a node's answer to the acquisition.
func (e *ticket) voted(i int, now time.Duration, r *node.Reply) {
	e.mu.Lock()
	defer e.mu.Unlock()
	bit := uint64(1) << i
	e.unanswered &^= bit
	if r.Outcome == node.Granted {
		e.confirmedAt &^= bit // a late denial of an earlier attempt may have set it
	}
	if r.Outcome == node.Denied {
		e.confirmedAt |= e.queuedAt & bit
		if r.Rank == 0 {
			e.headAt |= bit
		}
		until := addTime(now, holderTTL(r.Holder))
		switch {
		case r.Holder.Owner == "":
			e.forecast.Reserved(i, until, r.Rank)
		case e.waiter.lock.slots.WrongSlots(r.Pool):
			e.forecast.Free(i, now)
		default:
			e.forecast.Denied(i, until, r.Rank)
		}
		e.waiter.nudge() // the next attempt may be due sooner
	}
	if e.left && r.Outcome != node.Granted { // a grant is undone, and the ticket with it
		e.leaveNodeLocked(i)
	}
}

// onReturned records that a node is free, since another contender undid its grant there.
func (e *ticket) onReturned(i int, now time.Duration) {
	e.onGaveBack(i, now)
	e.waiter.nudge()
}

// abandon keeps late answers from queueing the ticket again. The release of the grant removes it.
func (e *ticket) abandon() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.left = true
}

// onResubscribed records that messages of a node arrive again, by a new subscription. A queued
// ticket may have missed a wake, so it counts as woken.
func (e *ticket) onResubscribed(i int, now time.Duration) {
	e.mu.Lock()
	missed := e.queuedAt&(1<<i) != 0
	e.mu.Unlock()
	if missed {
		e.onWoken(i, now)
	}
}

// onGaveBack records that a node has granted, and that the grant is being undone.
func (e *ticket) onGaveBack(i int, now time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.forecast.Free(i, now)
}

// onAttemptFailed records a failed attempt. poll is when to ask again at the latest if too few
// nodes can wake the waiter.
func (e *ticket) onAttemptFailed(poll time.Duration, held bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pollAt, e.mustPoll = poll, !held
}

func (e *ticket) onWoken(i int, now time.Duration) {
	e.mu.Lock()
	e.forecast.Woken(i, now)
	e.attemptsSinceWake, e.notBefore = 0, 0
	e.mu.Unlock()
	e.waiter.nudge()
}

func (e *ticket) onStandby(i int, now time.Duration) {
	e.mu.Lock()
	e.forecast.Standby(i, now)
	e.mu.Unlock()
	e.waiter.nudge()
}

// onAnnounced handles a release that a node announced to all waiters. Only the waiter at the head
// of the queue goes at once. The others stand by: the queue may wake another waiter now.
func (e *ticket) onAnnounced(i int, name string, now time.Duration) {
	if _, waits := slices.BinarySearch(e.names, name); !waits {
		return
	}
	e.mu.Lock()
	if e.headAt&(1<<i) != 0 {
		e.forecast.Woken(i, now)
	} else {
		e.forecast.Standby(i, now)
	}
	e.mu.Unlock()
	e.waiter.nudge()
}

// onLost records that messages of a node no longer arrive.
func (e *ticket) onLost(i int) {
	e.mu.Lock()
	e.confirmedAt &^= 1 << i
	e.mu.Unlock()
	e.waiter.nudge()
}

// nextAttempt returns when to make the next attempt.
func (e *ticket) nextAttempt() time.Duration {
	_, settled := e.client.messages.subscriptions.Listening()
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case !e.attempted && settled:
		return 0
	case !e.attempted:
		return e.pollAt
	case e.mustPoll || !e.holderIsCovered():
		return min(e.pollAt, max(e.notBefore, e.forecast.NextAttempt(e.recheckAfter)))
	default:
		return max(e.notBefore, e.forecast.NextAttempt(e.recheckAfter))
	}
}

// The bounds of the backoff of a waiter that keeps failing though nodes seem free.
const (
	minBackoff = time.Millisecond
	maxBackoff = 50 * time.Millisecond
)

// backoff returns how long to pause after this attempt while no node reports a release. Contenders
// that split the votes and undo them wake each other, and must not do that without end. The first
// retry is immediate, as it often succeeds. The pause is short enough for nodes to keep the ticket.
// Requires e.mu.
func (e *ticket) backoff() time.Duration {
	e.attemptsSinceWake++
	if e.attemptsSinceWake < 2 {
		return 0
	}
	c := e.client
	return quorum.Backoff(e.attemptsSinceWake-2, minBackoff, max(maxBackoff, min(c.contentionPause(), c.entryTTL()/2)), c.cfg.Jitter())
}

// holderIsCovered reports whether every possible holder holds a node that will wake this waiter.
// Requires e.mu.
func (e *ticket) holderIsCovered() bool {
	lock := e.waiter.lock
	return bits.OnesCount64(e.confirmedAt) > e.client.nodes.Len()-lock.need
}

// leaveAll removes the ticket from the queues of all nodes. On a node that has not answered yet,
// that happens when it answers.
func (e *ticket) leaveAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.left = true
	for i := range e.client.nodes.Len() {
		if e.unanswered&(1<<i) == 0 {
			e.leaveNodeLocked(i)
		}
	}
}

// leaveNode removes the ticket from the queue of one node.
func (e *ticket) leaveNode(i int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leaveNodeLocked(i)
}

func (e *ticket) leaveNodeLocked(i int) {
	if e.queuedAt&(1<<i) != 0 {
		e.queuedAt &^= 1 << i
		e.client.nodes.Leave(i, e.names, e.nodeID, e.waiter.lock.slots.OnNodes(), e.client.entryTTL())
	}
}

// redissonNames returns the names whose releases Redisson may announce. It does not know our
// semaphores.
func (e *ticket) redissonNames() []string {
	if e.waiter.lock.slots != nil {
		return nil
	}
	return e.names
}

// addHint records the slots that a node offers to the waiter.
func (e *ticket) addHint(i int, slots []int) {
	if e == nil || len(slots) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.slotHints == nil {
		e.slotHints = make([]quorum.Slots, e.client.nodes.Len())
	}
	e.slotHints[i] = nil
	for _, slot := range slots {
		if slot < MaxPermits {
			e.slotHints[i] = e.slotHints[i].With(slot)
		}
	}
}

// takeHints returns and clears the hints, for the next attempt.
func (e *ticket) takeHints() []quorum.Slots {
	e.mu.Lock()
	defer e.mu.Unlock()
	hints := e.slotHints
	e.slotHints = nil
	return hints
}

// keepPlaces records the grant of the waiter, and decides on which nodes its ticket stays queued. A
// node that granted has removed it. A node whose answer is unknown is told to remove it.
//
// On a node that denied, the ticket stays. Mostly the release that made room has not reached that
// node yet. Without the ticket, that release would wake another waiter, for a slot that most nodes
// have given away.
func (e *ticket) keepPlaces(h *grant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.grant = h
	for i := range e.client.nodes.Len() {
		switch h.proposal.Votes().Vote(i) {
		case quorum.Granted:
			e.queuedAt &^= 1 << i
		case quorum.Unknown:
			e.leaveNodeLocked(i)
		}
	}
}

// returnHintedSlot handles an offer of free slots to a waiter that already has its permits, and
// reports whether it has. The node is told to set these permits and to remove the ticket. If other
// slots are free too, it then wakes another waiter.
func (e *ticket) returnHintedSlot(i int) bool {
	e.mu.Lock()
	h := e.grant
	e.mu.Unlock()
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == stateHeld && h.client.clock.Now() < h.validUntil {
		h.renewNode(i)
		e.leaveNode(i)
	}
	return true
}

// renewNode renews the lease on one node. Requires h.mu and the state stateHeld.
func (h *grant) renewNode(i int) {
	r := &renewalRound{grant: h, tally: quorum.NewTally(h.claims.Nodes(), h.lock.need), decided: true}
	h.proposal.Renews()
	h.proposal.Expose(i)
	op := h.operation(node.Renew)
	if err := h.client.nodes.Submit(i, &dispatch.Call{Op: &op, To: r, Renews: h.renews()}); err != nil {
		r.recordVote(i, 0, &node.Reply{Err: err, Unsent: true})
	}
}

// attemptNow makes the waiter attempt now, whatever its forecast. Requires the mutex of
// localQueues.
func (w *waiter) attemptNow() {
	w.stale = true
	w.nudge()
}

// mayBeFirst reports whether the waiter may be first on the nodes: it has no ticket, or its ticket
// is at the head on enough nodes. Requires the mutex of localQueues.
func (w *waiter) mayBeFirst() bool {
	return w.visibleTicket == nil || w.visibleTicket.mayBeFirst()
}

// publishTicket makes the ticket visible to other waiters.
func (w *waiter) publishTicket() {
	ls := &w.lock.client.queues
	ls.mu.Lock()
	defer ls.mu.Unlock()
	w.visibleTicket = w.ticket
}

func (e *ticket) mayBeFirst() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.attempted || bits.OnesCount64(e.headAt) >= e.waiter.lock.need
}

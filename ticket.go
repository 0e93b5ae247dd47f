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

// ticket is what stands in the queues of the nodes for a waiter, and when they can be
// expected to be free. The nodes forget it when keep has passed since its last attempt.
type ticket struct {
	waiter *waiter
	client *Client
	names  []string
	// id tells it from others of the client; id is that and how long nodes are to wait for it,
	// set with the first attempt.
	id, nodeID string
	number     int64
	// fifo is set if it leaves free nodes to those who came before.
	fifo bool

	mu       sync.Mutex
	forecast quorum.Forecast
	// listening are the nodes whose messages arrive, as of the last attempt; entered those
	// in whose queues it may be; standing those that have said so since, and first those
	// where nobody stands before it; and pending those that have not answered.
	listening, queuedAt, confirmedAt, headAt, unanswered uint64
	// attempted is set once an attempt has carried it, polling if the last one did not find
	// enough nodes that could tell anything, and struck when its waiter has gone.
	attempted, mustPoll, left bool
	// counted is set once it had to wait; guarded by the mutex of the router.
	counted bool
	// pollAt is when to ask if nodes cannot be relied on to tell, and recheck how long after
	// an attempt in any case.
	pollAt, recheckAfter time.Duration
	// attemptsSinceWake counts the attempts since a node has told of a release, and notBefore is when
	// the next one may be made as long as none does.
	attemptsSinceWake int
	notBefore         time.Duration
	// slotHints are, by node, the slots of a semaphore that it would have the waiter take, since the
	// last attempt; nil if none has said any.
	slotHints []quorum.Slots
	// grant is what its waiter has got, if that is permits of a semaphore.
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

// beginAttempt notes that an attempt is made.
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

// stamp has an acquisition on one node leave an entry if it is denied.
func (e *ticket) stamp(op *node.Op, i int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.listening&(1<<i) == 0 {
		// It cannot stand in the queue there, so it takes what it gets. To leave the node to
		// others, who leave theirs to it, would be to wait for each other.
		return
	}
	op.Fair = e.fifo
	e.queuedAt |= 1 << i
	e.unanswered |= 1 << i
	op.Waiter = e.asWaiter()
}

// asWaiter is what nodes are told of its waiter as long as that waits.
func (e *ticket) asWaiter() node.Waiter {
	return node.Waiter{ID: e.nodeID, Ticket: e.number, Keep: e.client.entryTTL()}
}

// onUndo is what a node is told of it as it undoes an attempt that came to nothing.
func (e *ticket) onUndo(i int) node.Waiter {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.left:
		return e.asLeaver()
	case e.queuedAt&(1<<i) == 0:
		return node.Waiter{} // it could not be told anything there
	default:
		return e.asWaiter()
	}
}

// asLeaver is what nodes are told of its waiter when that waits no longer: they forget it.
func (e *ticket) asLeaver() node.Waiter { return node.Waiter{ID: e.nodeID} }

// voted learns from the answer of a node to the acquisition.
func (e *ticket) voted(i int, now time.Duration, r *node.Reply) {
	e.mu.Lock()
	defer e.mu.Unlock()
	bit := uint64(1) << i
	e.unanswered &^= bit
	if r.Outcome == node.Granted {
		e.confirmedAt &^= bit // an earlier attempt may have been told there, late, of who had it then
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
		e.waiter.nudge() // it may be worthwhile sooner than it seemed
	}
	if e.left && r.Outcome != node.Granted { // else it goes with what was granted
		e.leaveNodeLocked(i)
	}
}

// onReturned notes that a node is free, as somebody else gave back what was no use alone.
func (e *ticket) onReturned(i int, now time.Duration) {
	e.onGaveBack(i, now)
	e.waiter.nudge()
}

// abandon has nothing that still comes of its attempts put it back into a queue: it goes with
// the release of what was granted.
func (e *ticket) abandon() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.left = true
}

// onResubscribed notes that messages of a node arrive, of a new subscription: who has an entry
// there may have missed some.
func (e *ticket) onResubscribed(i int, now time.Duration) {
	e.mu.Lock()
	missed := e.queuedAt&(1<<i) != 0
	e.mu.Unlock()
	if missed {
		e.onWoken(i, now)
	}
}

// onGaveBack notes that a node granted, and the grant is being undone.
func (e *ticket) onGaveBack(i int, now time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.forecast.Free(i, now)
}

// onAttemptFailed notes what an attempt has come to: until when to wait at most if there are too few
// nodes that can tell.
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

// onAnnounced notes that a lock was released on a node, by somebody who tells everybody. Who
// is not the first there holds back: if the queue is told too, then another is woken now.
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

// onLost notes that messages of a node do not arrive any more.
func (e *ticket) onLost(i int) {
	e.mu.Lock()
	e.confirmedAt &^= 1 << i
	e.mu.Unlock()
	e.waiter.nudge()
}

// nextAttempt is when the next attempt is worthwhile.
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

// The bounds of the pause between two attempts for which there seems to be reason.
const (
	minBackoff = time.Millisecond
	maxBackoff = 50 * time.Millisecond
)

// backoff is how long to hold back after this attempt while no node tells of a release:
// those who give back what they could not use tell each other that it is free, and must not
// go on like that. The first retry is free, as it often succeeds. It is not so long that the nodes
// forget the entry meanwhile. The mutex is held.
func (e *ticket) backoff() time.Duration {
	e.attemptsSinceWake++
	if e.attemptsSinceWake < 2 {
		return 0
	}
	c := e.client
	return quorum.Backoff(e.attemptsSinceWake-2, minBackoff, max(maxBackoff, min(c.contentionPause(), c.entryTTL()/2)), c.cfg.Jitter())
}

// holderIsCovered reports whether whoever holds the lock has it on a node that will tell of its
// release. The mutex is held.
func (e *ticket) holderIsCovered() bool {
	lock := e.waiter.lock
	return bits.OnesCount64(e.confirmedAt) > e.client.nodes.Len()-lock.need
}

// leaveAll takes the entry out of the queues. On a node that has not answered yet that is
// done when it has.
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

// leaveNode does so on one node, by itself.
func (e *ticket) leaveNode(i int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leaveNodeLocked(i)
}

// leaveNodeLocked does so on one node. The mutex is held.
func (e *ticket) leaveNodeLocked(i int) {
	if e.queuedAt&(1<<i) != 0 {
		e.queuedAt &^= 1 << i
		e.client.nodes.Leave(i, e.names, e.nodeID, e.waiter.lock.slots.OnNodes(), e.client.entryTTL())
	}
}

// redissonNames are the names whose releases Redisson may announce: it knows nothing of semaphores here.
func (e *ticket) redissonNames() []string {
	if e.waiter.lock.slots != nil {
		return nil
	}
	return e.names
}

// addHint notes which slots a node would have the waiter take.
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

// takeHints are the hints since the last attempt, for the next.
func (e *ticket) takeHints() []quorum.Slots {
	e.mu.Lock()
	defer e.mu.Unlock()
	hints := e.slotHints
	e.slotHints = nil
	return hints
}

// What becomes of the entry of a waiter that has got its permits. The nodes that granted them
// have forgotten it. The others have denied, mostly since the release that made room had not
// come through to them: there it stays, and waits for that. For another to be woken by it
// would be in vain, as most nodes have given the slot away.

// keepPlaces notes what the waiter of the entry has got, and takes the entry out of the queues of those
// nodes that may have it and have not said so.
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

// returnHintedSlot has a node that tells a waiter of free slots put back the one that it has got elsewhere,
// and forget the waiter: if others are free too, somebody else is woken then. It reports
// whether the waiter has got any.
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

// renewNode renews the lease on one node. The mutex is held, and the phase is held.
func (h *grant) renewNode(i int) {
	r := &renewalRound{grant: h, tally: quorum.NewTally(h.claims.Nodes(), h.lock.need), decided: true}
	h.proposal.Renews()
	h.proposal.Expose(i)
	op := h.operation(node.Renew)
	if err := h.client.nodes.Submit(i, &dispatch.Call{Op: &op, To: r, Renews: h.renews()}); err != nil {
		r.recordVote(i, 0, &node.Reply{Err: err, Unsent: true})
	}
}

// attemptNow has a waiter try now, whatever it expects. The mutex of the lines is held.
func (w *waiter) attemptNow() {
	w.stale = true
	w.nudge()
}

// mayBeFirst reports whether a waiter is not known to stand behind others: it has no entry, or is
// the first in the queues of enough nodes. The mutex of the lines is held.
func (w *waiter) mayBeFirst() bool {
	return w.visibleTicket == nil || w.visibleTicket.mayBeFirst()
}

// publishTicket has others see the entry of a waiter.
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

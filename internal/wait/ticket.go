package wait

import (
	"math"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/slots"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/quorum"
)

// ticket is a waiter's place in the queues of the nodes, with a forecast of when they are free.
// Nodes forget it if the next attempt or beat does not come in time, see entryTTL.
type ticket struct {
	*shared
	router *router
	spec   *lease.Spec
	names  []string
	// signals wakes the waiter.
	signals chan struct{}
	// id tells the ticket from others of the client. nodeID is id with the time that nodes give the
	// woken waiter; the first attempt sets it.
	id, nodeID string
	number     int64
	// fifo is set if the waiter leaves free nodes to earlier waiters.
	fifo bool

	mu       sync.Mutex
	forecast decision.Forecast
	// These are sets of nodes. listening: their messages arrived at the last attempt. opening: they
	// were about to, as the client was subscribing. queuedAt: the ticket may be in their queues.
	// confirmedAt: they have confirmed that since the last attempt. headAt: no waiter is ahead there.
	// unanswered: they have not answered.
	// queuedBefore: queuedAt when the last attempt began.
	listening, opening, queuedAt, queuedBefore, confirmedAt, headAt, unanswered uint64
	// attempted is set once an attempt has carried the ticket. mustPoll is set if the last attempt
	// found too few nodes that can wake the waiter. left is set when the waiter has gone.
	attempted, mustPoll, left bool
	// counted is set once the waiter was denied. before and after are the neighbours in the list of all tickets. The mutex
	// of the router guards them.
	counted       bool
	before, after *ticket
	// pollAt is when to ask if the nodes may not wake the waiter.
	pollAt time.Duration
	// asked are the nodes that a beat has asked since the last attempt. holders is who keeps the waiter from the
	// lock on each of them; nil before the first answer.
	asked   uint64
	holders []wire.Holder
	// rank is the fewest waiters that a node has reported before this one since the last attempt or beat;
	// unranked if none has.
	rank int
	// dueAt is the time of the next attempt that the waiter knows. It is 0 during an attempt, since the
	// waiter looks again after that.
	dueAt time.Duration
	// attemptsSinceWake counts the attempts since a node last reported a release. While none does,
	// the next attempt is not before notBefore.
	attemptsSinceWake int
	notBefore         time.Duration
	// slotHints has, for each node, the slots of a semaphore that it has offered since the last
	// attempt; nil if none has.
	slotHints []decision.Slots
	// grant is the waiter's grant, if it got permits of a semaphore.
	grant *lease.Grant
}

// unranked stands for a rank that no node has reported.
const unranked = math.MaxInt

func newTicket(r *router, s *lease.Spec, number int64, signals chan struct{}) *ticket {
	return &ticket{
		shared:   r.shared,
		router:   r,
		spec:     s,
		names:    s.Names,
		signals:  signals,
		id:       s.Slots.WaiterID(r.engine.NextID("")),
		number:   number,
		fifo:     !s.Spins,
		forecast: decision.NewForecast(r.engine.Nodes.Len(), s.Need),
		rank:     unranked,
	}
}

// Begin prepares the ticket for an attempt.
func (t *ticket) Begin(now time.Duration) {
	opening := t.subscriptions.Opening()
	listening, _ := t.subscriptions.Listening()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.attempted {
		id := wire.WaiterID
		if t.spec.Reads {
			id = wire.ReaderID
		}
		t.nodeID = id(t.id, 3*t.engine.Nodes.MedianLatency())
	}
	t.listening, t.opening, t.confirmedAt, t.headAt, t.attempted = listening, opening, 0, 0, true
	t.queuedBefore = t.queuedAt
	t.asked, t.holders, t.rank = 0, nil, unranked
	t.notBefore, t.dueAt = now+t.backoff(), 0
	t.forecast.StartAttempt(t.SettleTime())
}

// Stamp adds the ticket to an acquisition on one node: a denial then enters it into the queue
// there.
func (t *ticket) Stamp(op *wire.Op, i int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.listening&(1<<i) == 0 {
		// This ticket cannot queue on the node, so the waiter barges. Two waiters would otherwise
		// leave such nodes to each other until the privilege of the first waiters ends. But it
		// overtakes no other while it can expect to queue soon.
		op.Fair = t.fifo && t.opening&(1<<i) != 0
		return
	}
	op.Fair = t.fifo
	t.queuedAt |= 1 << i
	t.unanswered |= 1 << i
	op.Waiter = t.asWaiter()
}

// asWaiter is the ticket as nodes see it while the waiter waits.
func (t *ticket) asWaiter() wire.Waiter {
	return wire.Waiter{ID: t.nodeID, Ticket: t.number, Keep: t.entryTTL()}
}

// AfterUndo returns the ticket as a node should see it when a failed attempt is undone there.
func (t *ticket) AfterUndo(i int) wire.Waiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.left:
		return t.Leaver()
	case t.queuedAt&(1<<i) == 0:
		return wire.Waiter{} // the ticket is not queued there
	default:
		return t.asWaiter()
	}
}

// Leaver is the ticket as nodes see it when the waiter has gone: they remove it.
func (t *ticket) Leaver() wire.Waiter { return wire.Waiter{ID: t.nodeID} }

// Voted updates the forecast with a node's answer to the acquisition.
func (t *ticket) Voted(i int, now time.Duration, r *wire.Reply) {
	t.mu.Lock()
	defer t.mu.Unlock()
	bit := uint64(1) << i
	t.unanswered &^= bit
	if r.Outcome == wire.Granted {
		t.confirmedAt &^= bit // a late denial of an earlier attempt may have set it
	}
	if r.Outcome == wire.Denied {
		t.confirmedAt |= t.queuedAt & bit
		t.placedLocked(i, now, r.Holder, r.Rank)
		if r.Holder.Owner != "" && t.spec.Slots.WrongSlots(r.Pool) {
			t.forecast.Free(i, now)
		}
		t.signalIfSoonerLocked()
	}
	if t.left && r.Outcome != wire.Granted { // a grant is undone, and the ticket with it
		t.leaveNodeLocked(i)
	}
}

// placedLocked updates the forecast with what node i says of the waiter: who keeps it from the lock there, and how many
// waiters stand before it.
func (t *ticket) placedLocked(i int, now time.Duration, h wire.Holder, rank int) {
	bit := uint64(1) << i
	t.rank = min(t.rank, rank)
	t.headAt &^= bit
	if rank == 0 {
		t.headAt |= bit
	}
	until := decision.After(now, lease.HolderTTL(h))
	if h.Owner == "" {
		t.forecast.Reserved(i, until, rank)
		return
	}
	if rank > nearHead { // waiters before this one find out first whether the holder has died
		until = max(until, decision.After(now, beatInterval(rank)))
	}
	t.forecast.Denied(i, until, rank)
}

// Withdrawn records that an acquisition was not sent to a node. If none was, the node has no ticket but that of an
// earlier attempt.
func (t *ticket) Withdrawn(i int, never bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	bit := uint64(1) << i
	t.unanswered &^= bit
	if never {
		t.queuedAt &^= bit &^ t.queuedBefore
	}
}

// Freed records that a node has granted, and that the grant is being undone. If that is late, the
// waiter may wait for it.
func (t *ticket) Freed(i int, now time.Duration, late bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forecast.Free(i, now)
	if late {
		t.signalIfSoonerLocked()
	}
}

// Close keeps late answers from queueing the ticket again, and ends its messages. The release of
// the grant removes it from the nodes.
func (t *ticket) Close() {
	t.mu.Lock()
	t.left = true
	t.mu.Unlock()
	t.router.removeTicket(t)
}

// onResubscribed records that messages of a node arrive again, by a new subscription. A queued
// ticket may have missed a wake, so it counts as woken.
func (t *ticket) onResubscribed(i int, now time.Duration) {
	t.mu.Lock()
	missed := t.queuedAt&(1<<i) != 0
	t.mu.Unlock()
	if missed {
		t.onWoken(i, now)
	}
}

// onAttemptFailed records a failed attempt. poll is when to ask again at the latest if too few
// nodes can wake the waiter.
func (t *ticket) onAttemptFailed(poll time.Duration, held bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pollAt, t.mustPoll = poll, !held
}

func (t *ticket) onWoken(i int, now time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forecast.Woken(i, now)
	t.attemptsSinceWake, t.notBefore = 0, 0
	t.signalIfSoonerLocked()
}

func (t *ticket) onStandby(i int, now time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forecast.Standby(i, now)
	t.signalIfSoonerLocked()
}

// onAnnounced handles a release of one of the names that a node announced to all waiters. Only the waiter at the head
// of the queue goes at once. Those near it stand by: the queue may wake another waiter now.
func (t *ticket) onAnnounced(i int, names []string, now time.Duration) {
	waits := func(name string) bool {
		_, found := slices.BinarySearch(t.names, name)
		return found
	}
	if !slices.ContainsFunc(names, waits) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.headAt&(1<<i) != 0:
		t.forecast.Woken(i, now)
	case t.rank <= nearHead || t.rank == unranked:
		t.forecast.Standby(i, now)
	}
	t.signalIfSoonerLocked()
}

func (t *ticket) onLost(i int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.confirmedAt &^= 1 << i
	t.signalIfSoonerLocked()
}

// nextAttempt returns when to make the next attempt.
func (t *ticket) nextAttempt() time.Duration {
	_, settled := t.subscriptions.Listening()
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.attempted:
		t.dueAt = t.forecastLocked()
		return t.dueAt
	case settled:
		return 0
	default:
		return t.pollAt
	}
}

// forecastLocked returns when to make the next attempt, after the first one.
func (t *ticket) forecastLocked() time.Duration {
	next := max(t.notBefore, t.forecast.NextAttempt())
	if t.mustPoll || !t.holderIsCovered() {
		return min(t.pollAt, next)
	}
	return next
}

// signalIfSoonerLocked wakes the waiter if its next attempt is due sooner than it knows. Most messages
// and answers do not change that, and a needless wake-up of the waiter's goroutine costs more than they do.
func (t *ticket) signalIfSoonerLocked() {
	if !t.attempted {
		signal(t.signals)
		return
	}
	if next := t.forecastLocked(); next < t.dueAt {
		t.dueAt = next
		signal(t.signals)
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
// Requires t.mu.
func (t *ticket) backoff() time.Duration {
	t.attemptsSinceWake++
	if t.attemptsSinceWake < 2 {
		return 0
	}
	return decision.Backoff(t.attemptsSinceWake-2, minBackoff, max(maxBackoff, min(t.contentionPause(), t.EntryTTL()/2)), t.engine.Jitter())
}

// holderIsCovered reports whether every possible holder holds a node that will wake this waiter. A
// holder may need only a majority, whatever the waiter needs. Requires t.mu.
func (t *ticket) holderIsCovered() bool {
	n := t.engine.Nodes.Len()
	return bits.OnesCount64(t.confirmedAt) > n-quorum.Majority().Need(n)
}

// mayBeFirst reports whether the ticket may be at the head of the queues of enough nodes.
func (t *ticket) mayBeFirst() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.attempted || bits.OnesCount64(t.headAt) >= t.spec.Need
}

// leaveAll removes the ticket from the queues of all nodes. On a node that has not answered yet,
// that happens when it answers.
func (t *ticket) leaveAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left = true
	for i := range t.engine.Nodes.Len() {
		if t.unanswered&(1<<i) == 0 {
			t.leaveNodeLocked(i)
		}
	}
}

// Leave removes the ticket from the queue of one node.
func (t *ticket) Leave(i int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leaveNodeLocked(i)
}

func (t *ticket) leaveNodeLocked(i int) {
	if t.queuedAt&(1<<i) != 0 {
		t.queuedAt &^= 1 << i
		t.engine.Nodes.Leave(i, t.names, t.nodeID, t.spec.Slots.OnNodes(), t.longestEntryTTL())
	}
}

// addHint records the slots that a node offers to the waiter.
func (t *ticket) addHint(i int, offered []int) {
	if t == nil || len(offered) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.slotHints == nil {
		t.slotHints = make([]decision.Slots, t.engine.Nodes.Len())
	}
	t.slotHints[i] = nil
	for _, slot := range offered {
		if slot < slots.MaxPermits {
			t.slotHints[i] = t.slotHints[i].With(slot)
		}
	}
}

func (t *ticket) takeHints() []decision.Slots {
	t.mu.Lock()
	defer t.mu.Unlock()
	hints := t.slotHints
	t.slotHints = nil
	return hints
}

// keepPlaces records the grant of the waiter, and decides on which nodes its ticket stays queued. A
// node that granted has removed it. A node whose answer is unknown is told to remove it.
//
// On a node that denied, the ticket stays. Mostly the release that made room has not reached that
// node yet. Without the ticket, that release would wake another waiter, for a slot that most nodes
// have given away.
func (t *ticket) keepPlaces(g *lease.Grant) {
	g.WithVotes(func(votes *decision.Tally) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.grant = g
		for i := range votes.Nodes() {
			switch votes.Vote(i) {
			case decision.Granted:
				t.queuedAt &^= 1 << i
			case decision.Unknown:
				t.leaveNodeLocked(i)
			}
		}
	})
}

// returnHintedSlot handles an offer of free slots to a waiter that already has its permits, and
// reports whether it has. The node is told to set these permits and to remove the ticket. If other
// slots are free too, it then wakes another waiter.
func (t *ticket) returnHintedSlot(i int) bool {
	t.mu.Lock()
	g := t.grant
	t.mu.Unlock()
	if g == nil {
		return false
	}
	if g.RenewOn(i) {
		t.Leave(i)
	}
	return true
}

package wait

import (
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// maxBeatNames bounds the names of one operation, since a node does nothing else meanwhile. A waiter for more names has
// one to itself.
const maxBeatNames = 64

// A beat sends a distant node one operation in each beatGap, up to maxBeatOps at once. If each waited for the answer to
// the last, a beat of many names could take longer than nodes keep the entries.
const (
	beatGap    = 10 * time.Millisecond
	maxBeatOps = 16
)

// heart sends the beats of a client: operations that tell a node which waiters still wait, and that learn from it how
// they stand. So waiters find out what no message has told them. While a client has no waiter that was denied, it
// sends none.
//
// Its mutex comes before that of inbox.Set.
type heart struct {
	router *router

	mu      sync.Mutex
	timer   clock.Timer
	beating bool
	// lastAt is the time of the last beat. jitter shortens the time until the next.
	lastAt time.Duration
	jitter float64
	// untold has, for each node, the tickets that are still to be told in this beat. unanswered counts the operations
	// under way. They are few: other operations of the client need not wait for all of them.
	untold     [][]*ticket
	unanswered []int
}

func (h *heart) init(r *router) {
	n := r.engine.Nodes.Len()
	h.router, h.untold, h.unanswered = r, make([][]*ticket, n), make([]int, n)
}

// start makes the heart beat, since a waiter was denied.
func (h *heart) start() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.beating {
		return
	}
	h.lastAt, h.jitter = h.router.engine.Clock.Now(), h.router.engine.Jitter()
	h.router.interval.Store(int64(BeatInterval))
	h.armLocked(h.lastAt, BeatInterval)
}

// armLocked sets the timer to the time when the next beat is due, but to BeatInterval at most: the ranks may have
// changed then.
func (h *heart) armLocked(now, interval time.Duration) {
	h.beating = true
	wait := min(h.dueLocked(interval)-now, BeatInterval)
	if h.timer == nil {
		h.timer = h.router.engine.Clock.AfterFunc(wait, h.beat)
	} else {
		h.timer.Reset(wait)
	}
}

func (h *heart) dueLocked(interval time.Duration) time.Duration {
	interval = min(interval, time.Duration(h.router.interval.Load()))
	return h.lastAt + interval - time.Duration(h.jitter*float64(interval/4))
}

func (h *heart) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.timer != nil {
		h.timer.Stop()
	}
}

// beat begins a beat if it is due. A node that has not answered the last beat is left out.
func (h *heart) beat() {
	h.mu.Lock()
	defer h.mu.Unlock()
	tickets := h.router.waiting()
	if len(tickets) == 0 {
		h.beating = false
		return
	}
	interval := maxBeatInterval
	for _, t := range tickets {
		interval = min(interval, t.beatInterval())
	}
	now := h.router.engine.Clock.Now()
	if now >= h.dueLocked(interval) {
		h.lastAt, h.jitter = now, h.router.engine.Jitter()
		h.router.interval.Store(int64(interval))
		for _, t := range tickets {
			t.forgetRank()
		}
		for i := range h.untold {
			if h.unanswered[i] == 0 {
				h.untold[i] = tickets
				h.tellLocked(i)
			}
		}
	}
	h.armLocked(now, interval)
}

// tellLocked sends node i the next operations. A node that cannot be asked now is told in the next beat.
func (h *heart) tellLocked(i int) {
	most := min(max(1, int(h.router.engine.Nodes.Latency(i)/beatGap)), maxBeatOps)
	for h.unanswered[i] < most && h.tellSomeLocked(i) {
		h.unanswered[i]++
	}
}

// tellSomeLocked sends node i one operation, and reports whether it did.
func (h *heart) tellSomeLocked(i int) bool {
	listening, _ := h.router.subscriptions.Listening()
	var told []*ticket
	op := &wire.Op{Kind: wire.Refresh, TTL: h.router.entryTTL()}
	for listening&(1<<i) != 0 && len(h.untold[i]) > 0 {
		t := h.untold[i][0]
		if len(op.Names) > 0 && len(op.Names)+len(t.names) > maxBeatNames {
			break
		}
		h.untold[i] = h.untold[i][1:]
		if w, ok := t.waiting(i); ok {
			told, op.Waiting, op.Names = append(told, t), append(op.Waiting, w), append(op.Names, w.Names...)
		}
	}
	slices.Sort(op.Names)
	op.Names = slices.Compact(op.Names)
	if len(op.Names) > 0 && h.router.engine.Nodes.Refresh(i, op, func(r *wire.Reply) { h.onAnswer(i, told, r) }) {
		return true
	}
	h.untold[i] = nil
	return false
}

// onAnswer passes the answer of node i on to the tickets. An operation that was never sent says nothing.
func (h *heart) onAnswer(i int, told []*ticket, r *wire.Reply) {
	if !r.Unsent {
		now := h.router.engine.Clock.Now()
		for k, t := range told {
			var s wire.Standing
			if k < len(r.Standings) {
				s = r.Standings[k]
			}
			t.onStanding(i, now, s)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unanswered[i]--
	h.tellLocked(i)
}

// waiting returns the tickets whose waiters were denied, the oldest first.
func (r *router) waiting() (tickets []*ticket) {
	r.eachTicket(func(t *ticket) {
		if t.counted {
			tickets = append(tickets, t)
		}
	})
	return tickets
}

// waiting returns the ticket as node i should see it. It is not ok during an attempt, which tells the node
// more.
func (t *ticket) waiting(i int) (w wire.Waiting, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left || t.dueAt == 0 || t.unanswered&(1<<i) != 0 {
		return wire.Waiting{}, false
	}
	t.queuedAt |= 1 << i
	t.asked |= 1 << i
	return wire.Waiting{
		Waiter: wire.Waiter{ID: t.nodeID, Ticket: t.number}, Names: t.names, Reads: t.spec.Reads, Pool: t.spec.Slots.OnNodes(),
	}, true
}

func (t *ticket) onStanding(i int, now time.Duration, s wire.Standing) {
	t.mu.Lock()
	defer t.mu.Unlock()
	bit := uint64(1) << i
	switch {
	case t.left: // the operation may have made an entry again
		t.queuedAt |= bit
		t.leaveNodeLocked(i)
	case t.asked&bit == 0: // an attempt has begun since, and tells more
	case !s.Known:
		t.confirmedAt &^= bit
		t.signalIfSoonerLocked()
	default:
		if t.holders == nil {
			t.holders = make([]wire.Holder, t.engine.Nodes.Len())
		}
		t.holders[i] = s.Holder
		t.confirmedAt |= bit
		t.placedLocked(i, now, s.Holder, s.Rank)
		t.signalIfSoonerLocked()
	}
}

// forgetRank makes the ticket learn its rank anew.
func (t *ticket) forgetRank() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rank = unranked
}

// beatInterval is how long after the last beat the ticket needs another one. It is short if no node has answered.
func (t *ticket) beatInterval() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rank == unranked {
		return BeatInterval
	}
	return beatInterval(t.rank)
}

// obstacle returns the error that names who keeps the waiter from the lock, by the answers to the beats since the
// last attempt. It is nil if too few nodes have answered.
func (t *ticket) obstacle() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.engine.HeldBy(t.spec, t.holders)
}

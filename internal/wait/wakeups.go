package wait

import (
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/inbox"
	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// router passes messages of the nodes to the waiters of a client: waiters for locks
// have a ticket, and package latch knows the waiters for latches. A node sends such a message from the
// script that frees a name or counts a latch down: see node/scripts/inline/wake.lua and node/scripts/lib/queue.lua.
type router struct {
	*shared

	// mu may be taken while the mutex of subscriptions is held, never the other way round.
	mu      sync.Mutex
	tickets map[string]*ticket
	// first and last are the ends of the list of all tickets, the oldest first: events reach them in that order.
	first, last *ticket
	// stale has, for each node, the tickets that were left over there, and when their removal was
	// last requested.
	stale []map[string]time.Duration
}

func (r *router) init(s *shared) {
	r.shared = s
	r.tickets = make(map[string]*ticket)
	e := s.engine
	var nodes []node.Node
	for i := range e.Nodes.Len() {
		nodes = append(nodes, e.Nodes.Node(i))
		r.stale = append(r.stale, make(map[string]time.Duration))
	}
	r.subscriptions = inbox.New(e.Clock, nodes, e.ID, e.Announce, inboxHandler{r})
}

// addTicket makes a ticket for a waiter that gets these signals, and routes messages to it.
func (r *router) addTicket(s *lease.Spec, number int64, signals chan struct{}) *ticket {
	t := newTicket(r, s, number, signals)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tickets[t.id] = t
	if t.before = r.last; t.before == nil {
		r.first = t
	} else {
		t.before.after = t
	}
	r.last = t
	return t
}

// onDenied records that the waiter was denied, so that it needs messages, and reports whether that is new.
func (r *router) onDenied(t *ticket) bool {
	first := r.setDenied(t, true)
	if first {
		r.subscriptions.Use()
	}
	return first
}

// onServed records that the waiter has the lock, and needs no messages. The ticket stays until the
// release, since nodes may have it until then.
func (r *router) onServed(t *ticket) {
	if r.setDenied(t, false) {
		r.subscriptions.Done()
	}
}

// setDenied sets the mark of a ticket, and reports whether it changed.
func (r *router) setDenied(t *ticket, denied bool) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed = t.counted != denied
	t.counted = denied
	return changed
}

func (r *router) removeTicket(t *ticket) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tickets[t.id] != t {
		return
	}
	delete(r.tickets, t.id)
	if t.before == nil {
		r.first = t.after
	} else {
		t.before.after = t.after
	}
	if t.after == nil {
		r.last = t.before
	} else {
		t.after.before = t.before
	}
	t.before, t.after = nil, nil
}

func (r *router) eachTicket(f func(*ticket)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for t := r.first; t != nil; t = t.after {
		f(t)
	}
}

// inboxHandler implements inbox.Handler.
type inboxHandler struct{ *router }

func (h inboxHandler) Message(i int, m wire.Message) {
	now := h.engine.Clock.Now()
	switch m.Kind {
	case wire.Announced:
		names := wire.RedissonNames(m.Name)
		h.eachTicket(func(t *ticket) { t.onAnnounced(i, names, now) })
	case wire.Forced:
		h.engine.OnForced(i, m.Waiter)
	case wire.Counted:
		h.env.Events.LatchCounted(i, m.Name)
	case wire.Woken, wire.Standby, wire.Returned:
		h.engine.Tokens.Observe(m.Fence, m.Name)
		h.wakeTicket(i, m, now)
	}
}

func (h inboxHandler) Opened(i int) {
	now := h.engine.Clock.Now()
	h.eachTicket(func(t *ticket) { t.onResubscribed(i, now) })
}

func (h inboxHandler) Lost(i int) { h.eachTicket(func(t *ticket) { t.onLost(i) }) }

func (h inboxHandler) Resubscribed(i int) {
	now := h.engine.Clock.Now()
	h.eachTicket(func(t *ticket) { t.onWoken(i, now) })
	h.env.Events.SubscriptionsChanged()
}

func (h inboxHandler) Settled() {
	h.eachTicket(func(t *ticket) { signal(t.signals) })
	h.env.Events.SubscriptionsChanged()
}

func (h inboxHandler) CannotFollow(i int, err error) {
	h.env.Events.CannotFollow(h.engine.Nodes.Name(i), err)
}

// wakeTicket passes a message to the waiter that it names.
func (r *router) wakeTicket(i int, m wire.Message, now time.Duration) {
	r.mu.Lock()
	t := r.tickets[wire.WaiterKey(m.Waiter)]
	r.mu.Unlock()
	if pool, slots, ok := wire.Vacated(m.Name); ok {
		m.Name = pool
		t.addHint(i, slots)
	}
	switch {
	case t == nil:
		r.dropStale(i, m, now)
	case t.returnHintedSlot(i):
	case m.Kind == wire.Woken:
		t.onWoken(i, now)
	case m.Kind == wire.Returned:
		t.Freed(i, now, true) // another contender has undone its grant there
	default:
		t.onStandby(i, now)
	}
}

// stalePause is the time between two requests to remove the same stale ticket.
const stalePause = 100 * time.Millisecond

// maxStale bounds how many stale tickets are remembered for each node.
const maxStale = 1000

// dropStale handles a message to a waiter that is gone. Mostly the removal of its ticket is on its
// way, and wakes the next waiter. Otherwise a late acquisition has left the ticket behind, and it
// is removed here.
func (r *router) dropStale(i int, m wire.Message, now time.Duration) {
	if r.engine.Nodes.Leaves(i, m.Waiter) {
		return
	}
	r.mu.Lock()
	strays := r.stale[i]
	last, before := strays[m.Waiter]
	again := before && now-last < stalePause
	if !again {
		if len(strays) >= maxStale {
			clear(strays)
		}
		strays[m.Waiter] = now
	}
	r.mu.Unlock()
	if !again {
		r.engine.Nodes.Leave(i, []string{m.Name}, m.Waiter, r.env.Slots.OnNodes(m.Name), r.longestEntryTTL())
	}
}

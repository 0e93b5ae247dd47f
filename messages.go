package quorumlock

import (
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/inbox"
	"github.com/quorumlock/quorumlock/node"
)

// router passes messages of the nodes on to the waiters of a client: those in queues, who have an
// entry, and those of latches, who have a watcher.
type router struct {
	client        *Client
	subscriptions *inbox.Set

	// mu may be taken while the mutex of subscriptions is held, but not the other way round.
	mu       sync.Mutex
	entries  map[string]*entry
	watchers map[*watcher]struct{}
	// strays has, for each node, the waiters whose entries were left over there, and when they
	// were removed last.
	strays []map[string]time.Duration
}

func (r *router) init(c *Client, nodes []node.Node) {
	r.client = c
	r.entries = make(map[string]*entry)
	r.watchers = make(map[*watcher]struct{})
	for range nodes {
		r.strays = append(r.strays, make(map[string]time.Duration))
	}
	r.subscriptions = inbox.New(c.clock, nodes, c.id, c.cfg.Redisson, inboxHandler{r})
}

// enlist makes an entry for a waiter, which gets messages from then on.
func (r *router) enlist(w *waiter) *entry {
	e := newEntry(w)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries[e.key] = e
	return e
}

// waits records that the waiter of an entry was denied, so that it needs messages.
func (r *router) waits(e *entry) {
	if r.setDenied(e, true) {
		r.subscriptions.Use(e.followed())
	}
}

// served records that the waiter of an entry has the lock, and needs no messages. The entry stays
// until the release, as it is in the queues until then.
func (r *router) served(e *entry) {
	if r.setDenied(e, false) {
		r.subscriptions.Done(e.followed())
	}
}

// setDenied sets the mark of an entry, and reports whether that changed it.
func (r *router) setDenied(e *entry, denied bool) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed = e.denied != denied
	e.denied = denied
	return changed
}

// unlist ends the messages to an entry.
func (r *router) unlist(e *entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.entries, e.key)
}

// eachEntry calls f for all entries.
func (r *router) eachEntry(f func(*entry)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.entries {
		f(e)
	}
}

// inboxHandler implements inbox.Handler.
type inboxHandler struct{ *router }

func (h inboxHandler) Message(i int, m node.Message) {
	now := h.client.clock.Now()
	switch m.Kind {
	case node.Announced:
		h.eachEntry(func(e *entry) { e.announced(i, m.Name, now) })
	case node.Counted:
		h.counted(i, m.Name)
	case node.Woken, node.Standby, node.Returned:
		h.client.tokens.saw(m.Fence, m.Name)
		h.toWaiter(i, m, now)
	}
}

func (h inboxHandler) Opened(i int) {
	now := h.client.clock.Now()
	h.eachEntry(func(e *entry) { e.resubscribed(i, now) })
}

func (h inboxHandler) Lost(i int) { h.eachEntry(func(e *entry) { e.deaf(i) }) }

func (h inboxHandler) Resubscribed(i int) {
	now := h.client.clock.Now()
	h.eachEntry(func(e *entry) { e.woken(i, now) })
	h.lookAgain()
}

func (h inboxHandler) Settled() {
	h.eachEntry(func(e *entry) { e.waiter.nudge() })
	h.lookAgain()
}

func (h inboxHandler) CannotFollow(i int, err error) {
	h.client.warn("quorumlock: waiters do not hear when Redisson releases a lock, and look once a second", "node", h.client.nodes.Name(i), "err", err)
}

// toWaiter passes a message on to the waiter that it names.
func (r *router) toWaiter(i int, m node.Message, now time.Duration) {
	r.mu.Lock()
	e := r.entries[node.WaiterKey(m.Waiter)]
	r.mu.Unlock()
	if pool, slots, ok := node.Vacated(m.Name); ok {
		m.Name = pool
		e.hint(i, slots)
	}
	switch {
	case e == nil:
		r.dropStray(i, m, now)
	case e.fill(i):
	case m.Kind == node.Woken:
		e.woken(i, now)
	case m.Kind == node.Returned:
		e.returned(i, now)
	default:
		e.standby(i, now)
	}
}

// strayPause is the time between two attempts to remove the same entry.
const strayPause = 100 * time.Millisecond

// maxStrays bounds how many attempts are remembered for each node.
const maxStrays = 1000

// dropStray handles a message to a waiter that is gone. Mostly an operation that removes its entry
// is on its way, and the next waiter is woken then. Otherwise a late acquisition has left the
// entry behind, and it is removed here.
func (r *router) dropStray(i int, m node.Message, now time.Duration) {
	if r.client.nodes.Leaves(i, m.Waiter) {
		return
	}
	r.mu.Lock()
	strays := r.strays[i]
	last, before := strays[m.Waiter]
	again := before && now-last < strayPause
	if !again {
		if len(strays) >= maxStrays {
			clear(strays)
		}
		strays[m.Waiter] = now
	}
	r.mu.Unlock()
	if !again {
		r.client.nodes.Leave(i, []string{m.Name}, m.Waiter, r.client.pools.OnNodes(m.Name), r.client.keepEntry())
	}
}

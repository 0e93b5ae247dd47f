package quorumlock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/node"
)

// inboxes are a client's subscriptions, one on each node, and the waiters whom the messages
// are for. They are made when somebody has to wait for the first time, and given up when
// nobody has waited for a while.
type inboxes struct {
	client *Client
	// ctx ends with the client; tasks are the subscriptions that are being made or given up.
	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	mu      sync.Mutex
	boxes   []inbox
	entries map[string]*entry
	// watchers wait for latches.
	watchers map[*watcher]struct{}
	// waiting counts the entries of those who were denied, and have not been served, and those
	// who wait for latches.
	waiting int
	// wanted counts, by name, those who wait, where Redisson is heard.
	wanted map[string]int
	// idle gives the subscriptions up.
	idle   clock.Timer
	closed bool
}

// inbox is the subscription on one node.
type inbox struct {
	// opening is set while it is being made, deaf while it is there but was lost.
	opening, deaf bool
	sub           node.Inbox
	// number tells it from those before it.
	number int
	// retryAt is when to try again after a failure.
	retryAt time.Duration
	// strays are waiters whose entries were left over, and when they were taken out last.
	strays map[string]time.Duration
	// follows are the names that it follows, aligning is set while that is being changed, and
	// complained once that has failed.
	follows              map[string]bool
	aligning, complained bool
}

const (
	// inboxRetry is how long after a failed subscription the next is tried.
	inboxRetry = time.Second
	// inboxLinger is how long subscriptions are kept for the next who has to wait.
	inboxLinger = 10 * time.Second
)

func (b *inboxes) init(c *Client) {
	b.client = c
	b.boxes = make([]inbox, c.nodes.Len())
	for i := range b.boxes {
		b.boxes[i].strays = make(map[string]time.Duration)
	}
	b.entries = make(map[string]*entry)
	b.wanted = make(map[string]int)
	b.ctx, b.cancel = context.WithCancel(context.Background())
}

// open reports whether there is any subscription.
func (b *inboxes) open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.boxes {
		if b.boxes[i].sub != nil {
			return true
		}
	}
	return false
}

// enlist makes an entry for a waiter, which gets messages from then on.
func (b *inboxes) enlist(w *waiter) *entry {
	e := newEntry(w)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries[e.key] = e
	return e
}

// waits notes that the waiter of an entry was denied, and so has to wait.
func (b *inboxes) waits(e *entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !e.denied {
		e.denied = true
		b.waiting++
		b.subscribe()
		b.want(e.followed(), 1)
	}
}

// served notes that the waiter of an entry has the lock. The entry goes with that; until then
// messages to it are of no use to anybody.
func (b *inboxes) served(e *entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.denied {
		e.denied = false
		b.waiting--
		b.want(e.followed(), -1)
		b.linger()
	}
}

// unlist has a served entry get no more messages.
func (b *inboxes) unlist(e *entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.entries, e.key)
}

// linger has the subscriptions given up some time after the last who waits has left.
func (b *inboxes) linger() {
	switch {
	case b.waiting > 0 || b.closed:
	case b.idle == nil:
		b.idle = b.client.clock.AfterFunc(inboxLinger, b.rest)
	default:
		b.idle.Reset(inboxLinger)
	}
}

// subscribe has the subscriptions made that are missing, unless that has failed just now.
// The mutex is held.
func (b *inboxes) subscribe() {
	now := b.client.clock.Now()
	for i := range b.boxes {
		box := &b.boxes[i]
		if b.closed || b.waiting == 0 || box.sub != nil || box.opening || now < box.retryAt {
			continue
		}
		box.opening = true
		b.tasks.Go(func() { b.listen(i) })
	}
}

// listen makes the subscription on one node, and has those look again who wait for it.
func (b *inboxes) listen(i int) {
	b.mu.Lock()
	box := &b.boxes[i]
	box.number++
	number := box.number
	box.deaf = false // it may be lost before Listen returns
	b.mu.Unlock()
	sub, err := node.Listen(b.ctx, b.client.nodes.Node(i), b.client.id, func(m node.Message) { b.deliver(i, number, m) })
	b.mu.Lock()
	defer b.mu.Unlock()
	box.opening, box.sub = false, sub
	box.follows = make(map[string]bool)
	b.align(i)
	switch {
	case err == nil:
		for _, e := range b.entries {
			e.resubscribed(i, b.client.clock.Now())
		}
	case errors.Is(err, errors.ErrUnsupported):
		box.retryAt = never
	default:
		box.retryAt = b.client.clock.Now() + inboxRetry
	}
	b.linger()
	if !b.settled() {
		return
	}
	for _, e := range b.entries {
		e.waiter.nudge()
	}
	b.lookAgain()
}

// settled reports whether all subscriptions have been made, as far as that is possible now.
// The mutex is held.
func (b *inboxes) settled() bool {
	for i := range b.boxes {
		if b.boxes[i].opening {
			return false
		}
	}
	return true
}

// listening are the nodes whose messages arrive, and whether all have been asked for that.
// Those that are missing are asked again from time to time.
func (b *inboxes) listening() (nodes uint64, settled bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.subscribe()
	for i := range b.boxes {
		if b.boxes[i].sub != nil && !b.boxes[i].deaf {
			nodes |= 1 << i
		}
	}
	return nodes, b.settled()
}

// deliver is what a node's subscription calls; number is that of the subscription.
func (b *inboxes) deliver(i, number int, m node.Message) {
	now := b.client.clock.Now()
	switch m.Kind {
	case node.Lost:
		b.hear(i, number, false, func(e *entry) { e.deaf(i) })
	case node.Announced:
		b.announced(i, m.Name)
	case node.Counted:
		b.counted(i, m.Name)
	case node.Resubscribed:
		b.hear(i, number, true, func(e *entry) { e.woken(i, now) })
	case node.Woken, node.Standby, node.Returned:
		b.client.tokens.saw(m.Fence, m.Name)
		b.mu.Lock()
		e := b.entries[node.WaiterKey(m.Waiter)]
		b.mu.Unlock()
		if pool, slots, ok := node.Vacated(m.Name); ok {
			m.Name = pool
			e.hint(i, slots)
		}
		switch {
		case e == nil:
			b.astray(i, m, now)
		case e.fill(i):
		case m.Kind == node.Woken:
			e.woken(i, now)
		case m.Kind == node.Returned:
			e.returned(i, now)
		default:
			e.standby(i, now)
		}
	}
}

// strayPause is how long after one attempt to take an entry out the next one is made.
const strayPause = 100 * time.Millisecond

// maxStrays bounds how many such attempts are remembered.
const maxStrays = 1000

// astray is for a message to a waiter that is gone. Mostly its entry is about to leave the
// queue, and the next is woken then. Else it is left over, from an acquisition that came late,
// and has to be taken out.
func (b *inboxes) astray(i int, m node.Message, now time.Duration) {
	if b.client.nodes.Leaves(i, m.Waiter) {
		return
	}
	b.mu.Lock()
	strays := b.boxes[i].strays
	last, before := strays[m.Waiter]
	again := before && now-last < strayPause
	if !again {
		if len(strays) >= maxStrays {
			clear(strays)
		}
		strays[m.Waiter] = now
	}
	b.mu.Unlock()
	if !again {
		b.client.nodes.Leave(i, []string{m.Name}, m.Waiter, b.client.pools.OnNodes(m.Name), b.client.keepEntry())
	}
}

// hear tells everybody who waits that a subscription was lost, or is back.
func (b *inboxes) hear(i, number int, again bool, tell func(*entry)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.boxes[i].number != number {
		return // it has been given up since
	}
	b.boxes[i].deaf = !again
	b.align(i)
	for _, e := range b.entries {
		tell(e)
	}
	if again {
		b.lookAgain()
	}
}

// rest gives the subscriptions up if nobody waits.
func (b *inboxes) rest() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting == 0 {
		b.giveUp()
	}
}

// giveUp closes the subscriptions. The mutex is held.
func (b *inboxes) giveUp() {
	for i := range b.boxes {
		if sub := b.boxes[i].sub; sub != nil {
			b.boxes[i].sub = nil
			b.boxes[i].number++
			b.tasks.Go(func() { _ = sub.Close() })
		}
	}
}

// close ends all, and waits for it.
func (b *inboxes) close() {
	b.mu.Lock()
	b.closed = true
	if b.idle != nil {
		b.idle.Stop()
	}
	b.cancel()
	b.giveUp()
	b.mu.Unlock()
	b.tasks.Wait() // and those that were being made
	b.mu.Lock()
	b.giveUp()
	b.mu.Unlock()
	b.tasks.Wait()
}

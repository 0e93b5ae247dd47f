package node

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
)

const (
	// pingInterval is how often a subscription checks that the server is still there. Waiters ask the nodes
	// themselves once a second, so a loss that is noticed late costs little time.
	pingInterval = 2 * time.Second
	// firstPause and longestPause bound the pauses between attempts to subscribe again. Each pause is twice
	// the one before, and up to half of it is random.
	firstPause   = 50 * time.Millisecond
	longestPause = 2 * time.Second
)

// redisInbox is a subscription to a [redisNode], and the goroutine that subscribes, delivers, and subscribes
// again after a loss.
type redisInbox struct {
	node *redisNode
	// subscribes are the commands by which it should subscribe.
	subscribes [][]string
	deliver    func(wire.Message)
	// ctx ends when the inbox is closed.
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// Listen implements [Node], over a connection of its own to the server that runs the operations. If that
// server falls silent, the loss is noticed pingInterval + the timeout of an exchange after its last answer.
func (r *redisNode) Listen(ctx context.Context, client string, follows bool, deliver func(wire.Message)) (wire.Inbox, error) {
	if ctx.Err() != nil {
		return nil, &Error{Node: r.name, Reason: ErrCanceled}
	}
	subscribes := [][]string{{"SUBSCRIBE", wire.InboxPrefix + client}}
	if follows {
		subscribes = append(subscribes, []string{"PSUBSCRIBE", wire.RedissonPrefix + "*"})
	}
	b := &redisInbox{node: r, subscribes: subscribes, deliver: deliver}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	first := make(chan error)
	if !b.start(first) { //nolint:contextcheck // it outlives the call
		b.cancel()
		return nil, b.closed()
	}
	select {
	case err := <-first:
		if err != nil {
			b.cancel()
			return nil, err
		}
		return b, nil
	case <-ctx.Done():
		b.cancel()
		return nil, &Error{Node: r.name, Reason: ErrCanceled}
	case <-b.ctx.Done():
		return nil, b.closed()
	}
}

func (b *redisInbox) closed() error { return &Error{Node: b.node.name, Reason: ErrClosed} }

// start starts the goroutine, unless the node is closed. The goroutine sends the result of the first attempt,
// and ends if the caller of Listen has stopped waiting. An attempt can take longer than the context of
// Listen; then only the Close of the node waits for it.
func (b *redisInbox) start(first chan<- error) bool {
	b.node.mu.Lock()
	defer b.node.mu.Unlock()
	if b.node.inboxesClosed {
		return false
	}
	b.node.inboxes[b] = struct{}{}
	b.done.Go(func() {
		defer b.unregister()
		s, err := b.subscribe(b.subscribes)
		select {
		case first <- err:
			if err == nil {
				b.run(s)
			}
		case <-b.ctx.Done():
			if err == nil {
				s.close()
			}
		}
	})
	return true
}

// unregister removes the inbox from the node.
func (b *redisInbox) unregister() {
	b.node.mu.Lock()
	defer b.node.mu.Unlock()
	delete(b.node.inboxes, b)
}

// Close implements [wire.Inbox]. It waits for an attempt to subscribe, which the options' timeouts bound.
func (b *redisInbox) Close() error {
	b.cancel()
	b.done.Wait()
	return nil
}

// closeInboxes closes all inboxes, and prevents new ones.
func (r *redisNode) closeInboxes() {
	r.mu.Lock()
	r.inboxesClosed = true
	inboxes := slices.Collect(maps.Keys(r.inboxes))
	r.mu.Unlock()
	for _, b := range inboxes {
		b.cancel()
	}
	for _, b := range inboxes {
		_ = b.Close()
	}
}

// run delivers until the inbox is closed, from one subscription after the other.
func (b *redisInbox) run(s *subscription) {
	attempt := 0
	for {
		if s.receive(b.deliverIfOpen) {
			attempt = 0
		}
		b.deliverIfOpen(wire.Message{Kind: wire.Lost})
		for s = nil; s == nil; attempt++ {
			if !sleep(b.ctx, pause(attempt)) {
				return
			}
			var refused *Error
			var err error
			// The rights may have changed, or be others on the server that has taken over. Without a right, it does not follow
			// Redisson until it is lost again, because the messages for this client matter more.
			if s, err = b.subscribe(b.subscribes); errors.As(err, &refused) && refused.Permanent() && len(b.subscribes) > 1 {
				s, _ = b.subscribe(b.subscribes[:1])
			}
		}
		b.deliverIfOpen(wire.Message{Kind: wire.Resubscribed})
	}
}

// deliverIfOpen delivers a message, unless the inbox is closed.
func (b *redisInbox) deliverIfOpen(message wire.Message) {
	if b.ctx.Err() == nil {
		b.deliver(message)
	}
}

// subscribe makes a subscription on the server that runs the operations. It follows the route of their
// connection, since the server may have changed.
func (b *redisInbox) subscribe(subscribes [][]string) (*subscription, error) {
	r := b.node
	if err := r.ask(b.ctx, (*link).identify); err != nil {
		if b.ctx.Err() != nil {
			return nil, b.closed()
		}
		return nil, err
	}
	s := &subscription{inbox: b, subscribes: subscribes}
	s.identity, _ = r.Server()
	if err := s.open(r.link.greetedRoute.Load()); err != nil {
		if b.ctx.Err() != nil {
			return nil, b.closed()
		}
		return nil, newError(r.name, 0, reasonOf(err), err)
	}
	return s, nil
}

// pause returns how long to wait before an attempt.
func pause(attempt int) time.Duration {
	d := min(firstPause<<min(attempt, 30), longestPause)
	return d/2 + rand.N(d/2)
}

// sleep waits for d, and reports whether the context is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	end, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-end.Done()
	return ctx.Err() == nil
}

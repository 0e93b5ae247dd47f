package memory

import (
	"context"
	"slices"
	"sync"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// inbox is a subscription to a [Node], and the goroutine that delivers.
type inbox struct {
	node    *Node
	client  string
	follows bool
	deliver func(wire.Message)
	// due holds one token if there may be work.
	due  chan struct{}
	quit chan struct{}
	once sync.Once
	done sync.WaitGroup

	// The mutex of the node guards the fields below.
	messages []wire.Message
	// lost is set while there is no connection.
	lost bool
}

func (e *endpoint) Listen(ctx context.Context, client string, follows bool, deliver func(wire.Message)) (wire.Inbox, error) {
	m := (*Node)(e)
	if err := m.ready(ctx); err != nil {
		return nil, &node.Error{Node: m.name, Reason: err}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return nil, &node.Error{Node: m.name, Reason: node.ErrClosed}
	case m.stopped:
		return nil, &node.Error{Node: m.name, Reason: node.ErrUnreachable}
	}
	b := &inbox{
		node: m, client: client, follows: follows, deliver: deliver,
		due: make(chan struct{}, 1), quit: make(chan struct{}),
	}
	m.inboxes = append(m.inboxes, b)
	b.done.Go(b.run)
	return b, nil
}

// Close implements [wire.Inbox].
func (b *inbox) Close() error {
	b.once.Do(func() {
		b.node.mu.Lock()
		b.node.inboxes = slices.DeleteFunc(b.node.inboxes, func(other *inbox) bool { return other == b })
		b.node.mu.Unlock()
		close(b.quit)
	})
	b.done.Wait()
	return nil
}

func (b *inbox) run() {
	for {
		select {
		case <-b.due:
		case <-b.quit:
			return
		}
		for {
			message, ok := b.next()
			if !ok {
				break
			}
			b.deliver(message)
		}
	}
}

// next takes the first message, unless the node hangs or the inbox is closed.
func (b *inbox) next() (wire.Message, bool) {
	b.node.mu.Lock()
	defer b.node.mu.Unlock()
	if !slices.Contains(b.node.inboxes, b) || b.node.resume != nil || len(b.messages) == 0 {
		return wire.Message{}, false
	}
	message := b.messages[0]
	b.messages = b.messages[1:]
	return message, true
}

// add queues a message for delivery. Requires the node's mu.
func (b *inbox) add(message wire.Message) {
	b.messages = append(b.messages, message)
	b.stir()
}

// stir makes the goroutine look for work.
func (b *inbox) stir() {
	select {
	case b.due <- struct{}{}:
	default:
	}
}

// loseSubscriptions interrupts all subscriptions.
func (m *Node) loseSubscriptions() {
	for _, b := range m.inboxes {
		if !b.lost {
			b.lost = true
			b.add(wire.Message{Kind: wire.Lost})
		}
	}
}

// subscribe restores the lost subscriptions, if the node is reachable.
func (m *Node) subscribe() {
	for _, b := range m.inboxes {
		if b.lost && !m.stopped {
			b.lost = false
			b.add(wire.Message{Kind: wire.Resubscribed})
		}
	}
}

// signalInboxes makes all inboxes look for work.
func (m *Node) signalInboxes() {
	for _, b := range m.inboxes {
		b.stir()
	}
}

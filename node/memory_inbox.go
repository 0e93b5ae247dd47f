package node

import (
	"context"
	"sync"
)

// memoryInbox is a subscription to a [Memory], and the goroutine that delivers.
type memoryInbox struct {
	node    *Memory
	client  string
	deliver func(Message)
	// due holds one token if there may be work.
	due  chan struct{}
	quit chan struct{}
	once sync.Once
	done sync.WaitGroup

	// The mutex of the node guards the fields below.
	messages []Message
	followed map[string]struct{}
	// lost is set while there is no connection.
	lost bool
}

// Listen implements [Listener].
func (m *Memory) Listen(ctx context.Context, client string, deliver func(Message)) (Inbox, error) {
	if err := checkClient(client); err != nil {
		return nil, &Error{Node: m.name, Reason: ErrMisconfigured, Err: err}
	}
	if err := m.ready(ctx); err != nil {
		return nil, &Error{Node: m.name, Reason: err}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return nil, &Error{Node: m.name, Reason: ErrClosed}
	case m.stopped:
		return nil, &Error{Node: m.name, Reason: ErrUnreachable}
	}
	b := &memoryInbox{
		node: m, client: client, deliver: deliver,
		due: make(chan struct{}, 1), quit: make(chan struct{}),
		followed: make(map[string]struct{}),
	}
	m.inboxes[b] = struct{}{}
	b.done.Go(b.run)
	return b, nil
}

// Close implements [Inbox].
func (b *memoryInbox) Close() error {
	b.once.Do(func() {
		b.node.mu.Lock()
		delete(b.node.inboxes, b)
		b.node.mu.Unlock()
		close(b.quit)
	})
	b.done.Wait()
	return nil
}

// Follow implements [Follower].
func (b *memoryInbox) Follow(name string) error {
	m := b.node
	if err := m.ready(context.Background()); err != nil {
		return &Error{Node: m.name, Reason: err}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, open := m.inboxes[b]; !open {
		return &Error{Node: m.name, Reason: ErrClosed}
	}
	if b.lost {
		return &Error{Node: m.name, Reason: ErrUnreachable, Err: errLost}
	}
	b.followed[name] = struct{}{}
	return nil
}

// Unfollow implements [Follower].
func (b *memoryInbox) Unfollow(name string) {
	b.node.mu.Lock()
	defer b.node.mu.Unlock()
	delete(b.followed, name)
}

func (b *memoryInbox) run() {
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
func (b *memoryInbox) next() (Message, bool) {
	b.node.mu.Lock()
	defer b.node.mu.Unlock()
	_, open := b.node.inboxes[b]
	if !open || b.node.resume != nil || len(b.messages) == 0 {
		return Message{}, false
	}
	message := b.messages[0]
	b.messages = b.messages[1:]
	return message, true
}

// add queues a message for delivery. Requires the node's mu.
func (b *memoryInbox) add(message Message) {
	b.messages = append(b.messages, message)
	b.stir()
}

// stir makes the goroutine look for work.
func (b *memoryInbox) stir() {
	select {
	case b.due <- struct{}{}:
	default:
	}
}

// publish sends a message to the inboxes of a client, and reports whether there are any.
func (m *Memory) publish(client string, message Message) (received bool) {
	for b := range m.inboxes {
		if b.client == client && !b.lost {
			b.add(message)
			received = true
		}
	}
	return received
}

// announce is the function of the same name in the scripts.
func (m *Memory) announce(name string) {
	for _, name := range redissonNames(redissonChannel(name)) {
		m.tellFollowers(name)
	}
}

// tellFollowers tells those who follow a name that it was announced.
func (m *Memory) tellFollowers(name string) {
	for b := range m.inboxes {
		if _, followed := b.followed[name]; followed && !b.lost {
			b.add(Message{Kind: Announced, Name: name})
		}
	}
}

// loseSubscriptions interrupts all subscriptions.
func (m *Memory) loseSubscriptions() {
	for b := range m.inboxes {
		if !b.lost {
			b.lost = true
			b.add(Message{Kind: Lost})
		}
	}
}

// subscribe restores the lost subscriptions, if the node is reachable.
func (m *Memory) subscribe() {
	for b := range m.inboxes {
		if b.lost && !m.stopped {
			b.lost = false
			b.add(Message{Kind: Resubscribed})
		}
	}
}

// signalInboxes makes all inboxes look for work.
func (m *Memory) signalInboxes() {
	for b := range m.inboxes {
		b.stir()
	}
}

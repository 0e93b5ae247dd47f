package fleet

import (
	"context"
	"sync"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
)

// TotalAsked returns how many acquisitions all these spies have counted.
func TotalAsked(spies ...[]*Spy) (n int) {
	for _, s := range spies {
		for _, one := range s {
			n += one.Asked()
		}
	}
	return n
}

// Spy is a client's connection to a node. It counts acquisitions and subscriptions, and can drop messages. Tests change
// its exported fields through Set while the client runs.
type Spy struct {
	*node.Memory
	mu sync.Mutex
	// entries counts the acquisitions that leave an entry in the queue, and listened the subscriptions.
	acquisitions, entries, listened int
	// After, if not nil, runs after each exchange with acquisitions, before the client gets the replies.
	After func()
	// Message, if not nil, decides whether a message is delivered.
	Message func(node.Message) bool
	// Listening, if not nil, holds up subscriptions until it is closed.
	Listening chan struct{}
}

// Do counts the acquisitions, and passes the operations on.
func (s *Spy) Do(ctx context.Context, ops []node.Op, replies []node.Reply) {
	s.mu.Lock()
	acquisitions := 0
	for _, op := range ops {
		if op.Kind == node.Acquire {
			acquisitions++
			if op.Waiter.ID != "" {
				s.entries++
			}
		}
	}
	s.acquisitions += acquisitions
	after := s.After
	s.mu.Unlock()
	s.Memory.Do(ctx, ops, replies)
	if after != nil && acquisitions > 0 {
		after()
	}
}

// Listen counts the subscription, and passes it on.
func (s *Spy) Listen(ctx context.Context, client string, deliver func(node.Message)) (node.Inbox, error) {
	s.mu.Lock()
	s.listened++
	wait := s.Listening
	s.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
		}
	}
	return s.Memory.Listen(ctx, client, func(m node.Message) {
		s.mu.Lock()
		message := s.Message
		s.mu.Unlock()
		if message == nil || message(m) {
			deliver(m)
		}
	})
}

// Asked returns how many acquisitions the client has sent.
func (s *Spy) Asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acquisitions
}

// Listens returns how many subscriptions the client has made.
func (s *Spy) Listens() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listened
}

// Entered returns how many acquisitions leave an entry in the queue when they are denied.
func (s *Spy) Entered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries
}

// Set changes the spy while no exchange looks at it.
func (s *Spy) Set(change func(*Spy)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// SpiedClient makes a client with a spy on its connection to every node.
func (f *Fleet) SpiedClient() (*quorumlock.Client, []*Spy) {
	spies := make([]*Spy, len(f.Nodes))
	return f.Client(func(cfg *quorumlock.Config) {
		for i, nd := range f.Nodes {
			spies[i] = &Spy{Memory: nd}
			cfg.Nodes[i] = spies[i]
		}
	}), spies
}

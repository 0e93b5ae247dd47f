package fleet

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

// TotalAsked returns how many acquisitions all these spies have counted.
func TotalAsked(spies ...[]*Spy) (n int) {
	for _, s := range slices.Concat(spies...) {
		n += s.Asked()
	}
	return n
}

// Spy is a client's connection to a node. It counts acquisitions and subscriptions, has hooks around exchanges, can be
// far away or cut, and can drop messages. Tests change its exported fields through Set while the client runs.
type Spy struct {
	*memory.Node
	// Alias, if not empty, is what Name returns.
	Alias string
	// Way is how long requests, replies and messages take.
	Way time.Duration
	// Slow is a further delay of requests, Muted one of replies, in nanoseconds.
	Slow, Muted atomic.Int64
	// Severed makes the node unreachable for this client.
	Severed atomic.Bool

	mu sync.Mutex
	// entries counts the acquisitions that leave an entry in the queue, beats the operations that ask how waiters stand,
	// and listened the subscriptions.
	acquisitions, entries, beats, listened int
	// Before and After, if not nil, run before and after each exchange; the client gets the replies after that.
	Before, After func(ops []wire.Op)
	// Message, if not nil, decides whether a message is delivered.
	Message func(wire.Message) bool
	// Listening, if not nil, holds up subscriptions until it is closed.
	Listening chan struct{}
}

// OnAcquire makes a hook that runs for exchanges with acquisitions only.
func OnAcquire(run func()) func(ops []wire.Op) {
	return func(ops []wire.Op) {
		if slices.ContainsFunc(ops, func(op wire.Op) bool { return op.Kind == wire.Acquire }) {
			run()
		}
	}
}

// Name returns the Alias, or the name of the node.
func (s *Spy) Name() string { return cmp.Or(s.Alias, s.Node.Name()) }

// Do counts the acquisitions, and passes the operations on between the two hooks.
func (s *Spy) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	s.mu.Lock()
	for _, op := range ops {
		switch op.Kind {
		case wire.Refresh:
			s.beats++
		case wire.Acquire:
			s.acquisitions++
			if op.Waiter.ID != "" {
				s.entries++
			}
		}
	}
	before, after := s.Before, s.After
	s.mu.Unlock()
	if before != nil {
		before(ops)
	}
	if s.Severed.Load() {
		for i, op := range ops {
			replies[i] = wire.Reply{Err: &node.Error{Node: s.Name(), Op: op.Kind.String(), Reason: node.ErrUnreachable}, Unsent: true}
		}
		return
	}
	time.Sleep(s.Way + time.Duration(s.Slow.Load()))
	s.Node.Do(ctx, ops, replies)
	time.Sleep(s.Way + time.Duration(s.Muted.Load()))
	if after != nil {
		after(ops)
	}
}

// Listen counts the subscription, and passes it on.
func (s *Spy) Listen(ctx context.Context, client string, follows bool, deliver func(wire.Message)) (wire.Inbox, error) {
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
	if s.Severed.Load() {
		return nil, &node.Error{Node: s.Name(), Reason: node.ErrUnreachable}
	}
	time.Sleep(2 * s.Way)
	return s.Node.Listen(ctx, client, follows, func(m wire.Message) {
		s.mu.Lock()
		message := s.Message
		s.mu.Unlock()
		switch {
		case message != nil && !message(m):
		case s.Way > 0: // Messages do not wait for each other on the way.
			time.AfterFunc(s.Way, func() { deliver(m) })
		default:
			deliver(m)
		}
	})
}

// Probe passes the probe on, or fails it.
func (s *Spy) Probe(ctx context.Context) error {
	if s.Severed.Load() {
		return &node.Error{Node: s.Name(), Reason: node.ErrUnreachable}
	}
	time.Sleep(2 * s.Way)
	return s.Node.Probe(ctx)
}

// Deaf is a client's connection to a node that lets nobody subscribe, so that waiters ask again.
type Deaf struct{ node.Node }

// Listen fails.
func (d Deaf) Listen(context.Context, string, bool, func(wire.Message)) (wire.Inbox, error) {
	return nil, &node.Error{Node: d.Name(), Reason: node.ErrMisconfigured}
}

// Asked returns how many acquisitions the client has sent.
func (s *Spy) Asked() int { return s.read(&s.acquisitions) }

// Beats returns how many operations asked how waiters stand.
func (s *Spy) Beats() int { return s.read(&s.beats) }

// Listens returns how many subscriptions the client has made.
func (s *Spy) Listens() int { return s.read(&s.listened) }

// Entered returns how many acquisitions leave an entry in the queue when they are denied.
func (s *Spy) Entered() int { return s.read(&s.entries) }

func (s *Spy) read(count *int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *count
}

// Set changes the spy while no exchange looks at it.
func (s *Spy) Set(change func(*Spy)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// SpiedClient makes a client with a spy on its connection to every node.
func (f *Fleet) SpiedClient(changes ...func(*quorumlock.Config)) (*quorumlock.Client, []*Spy) {
	return f.DistantClient(0, changes...)
}

// DistantClient makes a client with a spy on its connection to every node, which takes this long in each direction.
func (f *Fleet) DistantClient(way time.Duration, changes ...func(*quorumlock.Config)) (*quorumlock.Client, []*Spy) {
	spies := make([]*Spy, len(f.Nodes))
	return f.Client(append(changes, func(cfg *quorumlock.Config) {
		for i, nd := range cfg.Nodes {
			spies[i] = &Spy{Node: nd.(*memory.Node), Way: way} //nolint:forcetypeassert // as the fleet makes them
			cfg.Nodes[i] = spies[i]
		}
	})...), spies
}

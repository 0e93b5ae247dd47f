package sim

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/node"
)

// Times of subscriptions: as real ones, but shorter, because all times of a run are short.
const (
	keepalive   = ttl / 4
	firstPause  = 10 * time.Millisecond
	longestWait = ttl / 4
)

// inbox receives messages of one server for a process, over one subscription after the other, when the last one was
// lost.
type inbox struct {
	link    *link
	client  string
	deliver func(node.Message)
	quit    chan struct{}
	once    sync.Once

	mu  sync.Mutex
	rng *rand.Rand
	// at is the current subscription, whose messages count; nil if there is none.
	at *subscription
}

var _ node.Listener = (*link)(nil)

// Listen implements [node.Listener].
func (l *link) Listen(ctx context.Context, client string, deliver func(node.Message)) (node.Inbox, error) {
	if !l.process.awake() {
		return nil, &node.Error{Node: l.Name(), Reason: node.ErrClosed}
	}
	b := &inbox{link: l, client: client, deliver: deliver, quit: make(chan struct{}), rng: l.newRand()}
	s, err := b.connect(ctx.Done())
	if err != nil {
		return nil, &node.Error{Node: l.Name(), Reason: err}
	}
	b.mu.Lock()
	b.at = s
	b.mu.Unlock()
	l.server.world.Go(func() { b.run(s) })
	return b, nil
}

// newRand returns the random source of the next inbox.
func (l *link) newRand() *rand.Rand {
	l.mu.Lock()
	defer l.mu.Unlock()
	return rand.New(rand.NewPCG(l.rng.Uint64(), 5))
}

// Close implements [node.Inbox].
func (b *inbox) Close() error {
	b.once.Do(func() { close(b.quit) })
	b.mu.Lock() // deliver has returned
	defer b.mu.Unlock()
	b.at = nil
	return nil
}

// run maintains the subscriptions until the inbox is closed, or the process dies.
func (b *inbox) run(s *subscription) {
	for {
		goesOn := s.watch()
		s.hangUp()
		if !goesOn || !b.use(nil) {
			return
		}
		if s = b.again(); s == nil {
			return
		}
	}
}

// again subscribes again until it succeeds. It returns nil if the inbox was closed.
func (b *inbox) again() *subscription {
	for wait := firstPause; ; wait = min(2*wait, longestWait) {
		if !b.sleep(wait/2 + b.draw(wait/2)) {
			return nil
		}
		if s, err := b.connect(nil); err == nil {
			if b.use(s) {
				return s
			}
			s.hangUp()
			return nil
		}
	}
}

// use sets the current subscription, or none, and tells the process. It reports whether the inbox is still open.
func (b *inbox) use(s *subscription) bool {
	if !b.link.process.awake() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.quit:
		return false
	default:
	}
	news := node.Message{Kind: node.Lost}
	if s != nil {
		news.Kind = node.Resubscribed
	}
	b.at = s
	b.link.server.world.heard(b.link, news)
	b.deliver(news)
	return true
}

// receive hands a message to the process, if it came over the current subscription.
func (b *inbox) receive(s *subscription, m node.Message) {
	if !b.link.process.awake() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at == s {
		b.link.server.world.heard(b.link, m)
		b.deliver(m)
	}
}

// draw returns a random duration.
func (b *inbox) draw(most time.Duration) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Duration(b.rng.Int64N(int64(most) + 1))
}

// chance reports true with the given probability.
func (b *inbox) chance(of float64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rng.Float64() < of
}

// sleep waits, and reports whether the inbox is still open.
func (b *inbox) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return b.link.process.awake()
	case <-b.quit:
		return false
	case <-b.link.process.dead:
		return false
	}
}

// connect returns a subscription that the server has confirmed.
func (b *inbox) connect(canceled <-chan struct{}) (*subscription, error) {
	s := newSubscription(b)
	s.server.world.Go(s.ask)
	bound := time.NewTimer(nodeBound)
	defer bound.Stop()
	err := node.ErrTimeout
	select {
	case <-s.confirmed:
		b.link.process.awake() // a frozen process learns of it later
		return s, nil
	case <-s.over:
		err = node.ErrUnreachable
	case <-bound.C:
	case <-canceled:
		err = node.ErrCanceled
	case <-b.quit:
		err = node.ErrClosed
	case <-b.link.process.dead:
		err = node.ErrClosed
	}
	s.hangUp()
	b.link.process.awake()
	return nil, err
}

package sim

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
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
	deliver func(wire.Message)
	quit    chan struct{}
	once    sync.Once

	mu  sync.Mutex
	rng *rand.Rand
	// at is the current subscription, whose messages count; nil if there is none.
	at *subscription
}

// Listen implements [node.Node]. No client here follows Redisson.
func (l *link) Listen(ctx context.Context, client string, _ bool, deliver func(wire.Message)) (wire.Inbox, error) {
	if !l.process.awake() {
		return nil, &node.Error{Node: l.Name(), Reason: node.ErrClosed}
	}
	b := &inbox{link: l, client: client, deliver: deliver, quit: make(chan struct{}), rng: l.newRand()}
	s, err := b.connect(ctx.Done()) //nolint:contextcheck // the server does not see the context of the process
	if err != nil {
		return nil, &node.Error{Node: l.Name(), Reason: err}
	}
	b.mu.Lock()
	b.at = s
	b.mu.Unlock()
	s.use()
	l.server.world.Go(func() { b.run(s) }) //nolint:contextcheck // an inbox outlives the call
	return b, nil
}

// newRand returns the random source of the next inbox.
func (l *link) newRand() *rand.Rand {
	l.mu.Lock()
	defer l.mu.Unlock()
	return rand.New(rand.NewPCG(l.rng.Uint64(), 5))
}

// Close implements [wire.Inbox].
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
	news := wire.Message{Kind: wire.Lost}
	if s != nil {
		news.Kind = wire.Resubscribed
		defer s.use()
	}
	b.at = s
	b.link.server.world.heard(b.link, news)
	b.deliver(news)
	return true
}

// receive hands a message to the process, if it came over the current subscription.
func (b *inbox) receive(s *subscription, m wire.Message) {
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

func (b *inbox) trip() trip {
	b.mu.Lock()
	defer b.mu.Unlock()
	return newTrip(b.rng, b.link.server.world.weather())
}

func (b *inbox) draw(most time.Duration) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Duration(b.rng.Int64N(int64(most) + 1))
}

// sleep waits, and reports whether the inbox is still open.
func (b *inbox) sleep(d time.Duration) bool {
	timer := b.link.server.world.apart.NewTimer(d)
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

// ask asks the server, which serves the question if it runs, and returns why no good answer came.
func (b *inbox) ask(canceled <-chan struct{}, serve func() bool) error {
	good, answer := false, make(chan bool, 1)
	b.link.carry(b.trip(), func(alive bool) { good = alive && serve() }, func() { answer <- good })
	bound := b.link.server.world.apart.NewTimer(nodeBound)
	defer bound.Stop()
	err := node.ErrTimeout
	select {
	case is := <-answer:
		answer <- is
	case <-bound.C:
	case <-canceled:
		err = node.ErrCanceled
	case <-b.quit:
		err = node.ErrClosed
	case <-b.link.process.dead:
		err = node.ErrClosed
	}
	b.link.process.awake() // what has come meanwhile, a frozen process sees first
	select {
	case is := <-answer:
		if !is {
			return node.ErrUnreachable
		}
		return nil
	default:
		return err
	}
}

func (b *inbox) connect(canceled <-chan struct{}) (*subscription, error) {
	s := newSubscription(b)
	err := b.ask(canceled, func() bool { return s.server.admit(s) })
	if err != nil {
		s.hangUp()
		return nil, err
	}
	return s, nil
}

// subscription is one connection by which a server sends messages to a process. As with TCP, all messages arrive in
// order. After the loss of a message nothing more arrives, and each end notices that in its own time. Until the server
// does, it counts the process as a subscriber.
type subscription struct {
	inbox  *inbox
	server *server
	// over is closed when the process knows that the server has ended the connection. Two faults that end together may
	// both restart the server.
	over chan struct{}
	end  func()
	// used is closed when the process uses the subscription, or has given it up. No message arrives before.
	used chan struct{}
	use  func()

	mu sync.Mutex
	// remote is the server's part. gone is set once the server no longer wants it.
	remote wire.Inbox
	gone   bool
	// broken is set when a message was lost.
	broken bool
	// last is closed when the last message has arrived, or is lost.
	last <-chan struct{}
}

func newSubscription(b *inbox) *subscription {
	s := &subscription{inbox: b, server: b.link.server, over: make(chan struct{}), used: make(chan struct{})}
	s.end = sync.OnceFunc(func() { close(s.over) })
	s.use = sync.OnceFunc(func() { close(s.used) })
	s.last = s.used
	return s
}

func (s *subscription) published(m wire.Message) {
	switch m.Kind {
	case wire.Lost, wire.Resubscribed: // that is told by the end
	default:
		s.send(func() { s.inbox.receive(s, m) })
	}
}

// send sends something to the process, where it arrives behind all that was sent before.
func (s *subscription) send(arrive func()) {
	t := s.inbox.trip()
	arrived := make(chan struct{})
	s.mu.Lock()
	before := s.last
	s.last = arrived
	s.mu.Unlock()
	s.server.world.Go(func() {
		defer close(arrived)
		s.inbox.link.path.back.pass(s.server.world.apart, t.back, t.settle)
		<-before
		if s.reaches(t.lostBack) {
			arrive()
		}
	})
}

// reaches reports whether something reaches the process: neither it, nor anything before it was lost.
func (s *subscription) reaches(lost bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = s.broken || lost
	return !s.broken
}

// watch pings the server from time to time, and returns when the server does not answer. It reports whether the
// process wants another subscription.
func (s *subscription) watch() bool {
	for {
		timer := s.server.world.apart.NewTimer(keepalive - s.inbox.draw(keepalive/8))
		over := false
		select {
		case <-timer.C:
		case <-s.over:
			over = true
		case <-s.inbox.quit:
			return false
		case <-s.inbox.link.process.dead:
			return false
		}
		timer.Stop()
		if !s.inbox.link.process.awake() {
			return false
		}
		if over || !s.ping() {
			return true
		}
	}
}

// ping reports whether the server answers in time, and the connection is whole.
func (s *subscription) ping() bool {
	return s.inbox.ask(nil, func() bool { return s.server.has(s) && s.reaches(false) }) == nil
}

// hangUp ends the connection on the side of the process. The server notices when the end arrives, or, if the process
// died with its machine, much later.
func (s *subscription) hangUp() {
	s.use()
	t, later := s.inbox.trip(), s.inbox.draw(8*ttl)
	t.lostThere = false // TCP sends it again
	select {
	case <-s.inbox.link.process.dead:
		if later < 2*ttl { // a quarter of the machines die, too
			t.there += later
		}
	default:
	}
	s.inbox.link.carry(t, func(bool) { s.dropByServer() }, func() {})
}

// endByServer has the server end the connection, which the process learns behind its messages.
func (s *subscription) endByServer() {
	s.send(s.end)
	s.dropByServer()
}

func (s *subscription) dropByServer() {
	s.mu.Lock()
	remote, first := s.remote, !s.gone
	s.gone = true
	s.mu.Unlock()
	if !first {
		return
	}
	if remote != nil {
		_ = remote.Close()
	}
	s.server.forget(s)
}

// admit makes the server subscribe it, unless the process has hung up before.
func (s *server) admit(sub *subscription) bool {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if sub.gone {
		return false
	}
	remote, err := s.node().Listen(context.Background(), sub.inbox.client, false, sub.published)
	if err != nil {
		panic("sim: a node in memory that runs must listen: " + err.Error())
	}
	sub.remote = remote
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribed = append(s.subscribed, sub)
	return true
}

func (s *server) has(sub *subscription) bool {
	return slices.Contains(s.subscribers(), sub)
}

func (s *server) subscribers() []*subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.subscribed
}

func (s *server) forget(sub *subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribed = slices.DeleteFunc(slices.Clone(s.subscribed), func(other *subscription) bool { return other == sub })
}

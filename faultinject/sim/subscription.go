package sim

import (
	"context"
	"math/rand/v2"
	"slices"
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

// subscription is one connection by which a server sends messages to a process. As with TCP, all messages arrive in
// order. After the loss of a piece nothing more arrives, and each end notices that in its own time. Until the server
// does, it counts the process as a subscriber.
type subscription struct {
	inbox  *inbox
	server *server
	// confirmed is closed when the process knows that it is subscribed, over when it knows that the server has ended
	// the connection.
	confirmed, over chan struct{}
	// ends closes over: two faults that end together may both restart the server.
	ends sync.Once
	// due holds one token if there may be something to carry. ended is closed when the server has dropped the
	// subscription.
	due, ended chan struct{}

	mu sync.Mutex
	// remote is the server's part. gone is set once the server no longer wants it.
	remote node.Inbox
	gone   bool
	// broken is set when a piece was lost, or one end has died silently.
	broken bool
	frames []frame
	last   time.Time
}

// frame is a message or reply of the server.
type frame struct {
	kind    frameKind
	message node.Message
	// at is the time of arrival, if nothing delays it. settle separates frames that a heal releases at once.
	at     time.Time
	settle time.Duration
	lost   bool
	// answer is closed when the pong arrives.
	answer chan struct{}
}

type frameKind uint8

const (
	confirmation frameKind = iota
	message
	pong
	end
)

func newSubscription(b *inbox) *subscription {
	return &subscription{
		inbox: b, server: b.link.server,
		confirmed: make(chan struct{}), over: make(chan struct{}),
		due: make(chan struct{}, 1), ended: make(chan struct{}),
	}
}

// ask sends the request to the server.
func (s *subscription) ask() {
	if !s.reachesServer() || s.inbox.chance(s.server.world.weather().Lose) {
		return
	}
	s.server.arrive(func(alive bool) {
		if !alive || !s.server.admit(s) {
			s.server.world.Go(s.carry)
			s.send(frame{kind: end})
			s.dropByServer()
			return
		}
		s.send(frame{kind: confirmation})
		s.server.world.Go(s.carry)
	})
}

// reachesServer lets a piece travel to the server, and reports whether it arrives.
func (s *subscription) reachesServer() bool {
	w := s.server.world.weather()
	s.inbox.link.path.there.pass(w.Least+s.inbox.draw(w.Most-w.Least), s.inbox.draw(time.Millisecond))
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.broken
}

// published forwards a message of the server's node.
func (s *subscription) published(m node.Message) {
	switch m.Kind {
	case node.Lost, node.Resubscribed: // that is told by ends
	default:
		s.send(frame{kind: message, message: m})
	}
}

// send queues a frame of the server.
func (s *subscription) send(f frame) {
	w := s.server.world.weather()
	takes := w.Least + s.inbox.draw(w.Most-w.Least)
	f.settle = s.inbox.draw(time.Millisecond)
	f.lost = s.inbox.chance(w.Lose) && f.kind != pong // else none would last
	s.mu.Lock()
	defer s.mu.Unlock()
	f.at = time.Now().Add(takes)
	if !f.at.After(s.last) {
		f.at = s.last.Add(time.Microsecond)
	}
	s.last = f.at
	s.frames = append(s.frames, f)
	select {
	case s.due <- struct{}{}:
	default:
	}
}

// carry delivers the server's frames to the process, until either has ended the connection.
func (s *subscription) carry() {
	for {
		f, ok := s.next()
		if !ok {
			select {
			case <-s.due:
				continue
			case <-s.ended:
			}
			if f, ok = s.next(); !ok {
				return
			}
		}
		s.inbox.link.path.back.pass(time.Until(f.at), f.settle)
		if f.lost {
			s.mu.Lock()
			s.broken = true
			s.mu.Unlock()
		}
		s.arrived(f)
	}
}

func (s *subscription) next() (frame, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.frames) == 0 {
		return frame{}, false
	}
	f := s.frames[0]
	s.frames = s.frames[1:]
	return f, true
}

// arrived handles a frame, if the process still receives it.
func (s *subscription) arrived(f frame) {
	s.mu.Lock()
	broken := s.broken
	s.mu.Unlock()
	if broken {
		return
	}
	switch f.kind {
	case confirmation:
		close(s.confirmed)
	case message:
		s.inbox.receive(s, f.message)
	case pong:
		close(f.answer)
	case end:
		s.ends.Do(func() { close(s.over) })
	}
}

// watch pings the server from time to time, and returns when the server does not answer. It reports whether the
// process wants another subscription.
func (s *subscription) watch() bool {
	for {
		timer := time.NewTimer(keepalive - s.inbox.draw(keepalive/8))
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

// ping reports whether the server answers in time.
func (s *subscription) ping() bool {
	answer := make(chan struct{})
	s.server.world.Go(func() {
		if !s.reachesServer() {
			return
		}
		s.server.arrive(func(alive bool) {
			if s.server.has(s) && alive {
				s.send(frame{kind: pong, answer: answer})
			}
		})
	})
	bound := time.NewTimer(nodeBound)
	defer bound.Stop()
	select {
	case <-answer:
		return true
	case <-bound.C:
		s.inbox.link.process.awake() // what has come meanwhile, it sees first
	case <-s.over:
	case <-s.inbox.quit:
	case <-s.inbox.link.process.dead:
	}
	select {
	case <-answer:
		return true
	default:
		return false
	}
}

// hangUp ends the connection on the side of the process. The server notices when the end arrives, or, if the process
// died with its machine, much later.
func (s *subscription) hangUp() {
	silent := false
	select {
	case <-s.inbox.link.process.dead:
		silent = s.inbox.chance(0.25)
	default:
	}
	s.server.world.Go(func() {
		if silent {
			time.Sleep(s.inbox.draw(2 * ttl))
		}
		w := s.server.world.weather()
		s.inbox.link.path.there.pass(w.Least+s.inbox.draw(w.Most-w.Least), s.inbox.draw(time.Millisecond))
		s.server.arrive(func(bool) { s.dropByServer() })
	})
}

// dropByServer makes the server drop the subscription.
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
	close(s.ended)
}

// admit makes the server subscribe it, unless the process has hung up before.
func (s *server) admit(sub *subscription) bool {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if sub.gone {
		return false
	}
	remote, err := s.Listen(context.Background(), sub.inbox.client, sub.published)
	if err != nil {
		panic("sim: a node in memory that runs must listen: " + err.Error())
	}
	sub.remote = remote
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribed = append(s.subscribed, sub)
	return true
}

// has reports whether the server still sends messages there.
func (s *server) has(sub *subscription) bool {
	return slices.Contains(s.subscribers(), sub)
}

// subscribers returns the receivers of the server's messages.
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

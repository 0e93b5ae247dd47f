package peer

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"
)

var floorGroup = Peer{
	Name: "floor-group", Kind: Limit,
	About: "The floor with group commit: a queue and a sender per node, which sends the calls that were queued while the last batch was in flight.",
	Open: func(ctx context.Context, o Options) (Client, error) {
		clients, err := connect(ctx, o.Addresses)
		if err != nil {
			return nil, err
		}
		c := &groupClient{ttl: strconv.FormatInt(o.TTL.Milliseconds(), 10), prefix: ownerPrefix()}
		for _, client := range clients {
			s := &sender{client: client, wake: make(chan struct{}, 1), quit: make(chan struct{})}
			c.senders = append(c.senders, s)
			c.running.Go(s.run)
		}
		return c, nil
	},
}

type groupClient struct {
	senders []*sender
	running sync.WaitGroup
	ttl     string
	prefix  string
	owners  atomic.Uint64
}

func (c *groupClient) Lock(name string) Lock { return &groupLock{client: c, name: name} }

func (c *groupClient) Close(context.Context) error {
	for _, s := range c.senders {
		close(s.quit)
		s.client.Close()
	}
	c.running.Wait()
	return nil
}

// question is one script call for one node.
type question struct {
	script script
	args   [3]string
	n      int
	answer chan<- answer
}

// ask queues a question for all nodes.
func (c *groupClient) ask(s script, args [3]string, n int) error {
	answers := make(chan answer, len(c.senders))
	for _, s2 := range c.senders {
		s2.put(question{script: s, args: args, n: n, answer: answers})
	}
	return majority(answers, len(c.senders))
}

// sender sends to one node, one batch at a time.
type sender struct {
	client rueidis.Client
	wake   chan struct{}
	quit   chan struct{}

	mu    sync.Mutex
	queue []question
}

func (s *sender) put(q question) {
	s.mu.Lock()
	s.queue = append(s.queue, q)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// swap takes the queued calls, and leaves an empty queue that reuses the memory of the last batch.
func (s *sender) swap(last []question) []question {
	s.mu.Lock()
	defer s.mu.Unlock()
	gathered := s.queue
	s.queue = last[:0]
	return gathered
}

func (s *sender) run() {
	var batch []question
	var commands rueidis.Commands
	for {
		select {
		case <-s.wake:
		case <-s.quit:
			return
		}
		batch = s.swap(batch)
		if len(batch) == 0 {
			continue
		}
		commands = commands[:0]
		for _, q := range batch {
			commands = append(commands, lockCommand(s.client, q.script, q.args, q.n))
		}
		for i, reply := range s.client.DoMulti(context.Background(), commands...) {
			yes, err := granted(reply)
			batch[i].answer <- answer{yes: yes, err: err}
		}
	}
}

type groupLock struct {
	client *groupClient
	name   string
	owner  string
}

func (l *groupLock) Acquire(ctx context.Context) error {
	l.owner = l.client.prefix + strconv.FormatUint(l.client.owners.Add(1), 10)
	err := l.client.ask(acquireScript, [3]string{l.name, l.owner, l.client.ttl}, 3)
	if err != nil {
		_ = l.Release(ctx) // some nodes may have granted
	}
	return err
}

func (l *groupLock) Release(context.Context) error {
	return l.client.ask(releaseScript, [3]string{l.name, l.owner}, 2)
}

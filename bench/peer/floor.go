package peer

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1.
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

var (
	// floor runs a goroutine and an EVALSHA for each lock and node, which locks and does nothing else: no lease, no timeout,
	// no recovery, no token. It returns when a majority has answered.
	floor = Peer{
		Name: "floor",
		Open: func(ctx context.Context, o Options) (Client, error) { return openFloor(ctx, o) },
	}
	// floorAll is the floor of a lock that all nodes must grant.
	floorAll = Peer{
		Name: "floor-all",
		Open: func(ctx context.Context, o Options) (Client, error) {
			c, err := openFloor(ctx, o)
			if err != nil {
				return nil, err
			}
			c.need = len(c.clients)
			return c, nil
		},
	}
	// floorGroup is the floor with group commit: a queue and a sender per node, which sends the calls that were queued
	// while the last batch was in flight.
	floorGroup = Peer{
		Name: "floor-group",
		Open: func(ctx context.Context, o Options) (Client, error) { return openGroup(ctx, o) },
	}
)

// The scripts of the limits implement only the lock itself: no recovery, no token, one name.
var (
	acquireScript = newScript(`if redis.call('HKEYS', KEYS[1])[1] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`)
	releaseScript = newScript(`if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
return redis.call('DEL', KEYS[1])`)
)

type script struct{ source, sha string }

func newScript(source string) script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // Redis names scripts by their SHA-1.
	return script{source: source, sha: hex.EncodeToString(sum[:])}
}

// call is a script with its arguments: the name of the lock, the owner, and for an acquire the TTL.
type call struct {
	script script
	args   [3]string
	n      int
}

func (c call) command(client rueidis.Client) rueidis.Completed {
	return client.B().Evalsha().Sha1(c.script.sha).Numkeys(1).Key(c.args[0]).Arg(c.args[1:c.n]...).Build()
}

func (c call) run(ctx context.Context, client rueidis.Client) answer {
	return answerOf(client.Do(ctx, c.command(client)))
}

// answer is a node's answer: whether it granted, or released.
type answer struct {
	yes bool
	err error
}

func answerOf(r rueidis.RedisResult) answer {
	n, err := r.AsInt64()
	return answer{yes: n == 1, err: err}
}

// decide reads answers of n nodes until as many as needed have granted, or no longer can.
func decide(answers <-chan answer, n, need int) error {
	yes, no := 0, 0
	for {
		a := <-answers
		if a.yes {
			yes++
		} else {
			no++
		}
		switch {
		case yes == need:
			return nil
		case no > n-need && a.err != nil:
			return a.err
		case no > n-need:
			return errDenied
		}
	}
}

// connect makes a rueidis client for each node and loads the scripts. Each client has one connection: the default of
// four makes smaller batches and breaks their order.
func connect(ctx context.Context, addresses []string) ([]rueidis.Client, error) {
	var clients []rueidis.Client
	for _, address := range addresses {
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{address}, ForceSingleClient: true, DisableCache: true, PipelineMultiplex: -1,
		})
		if err == nil {
			clients = append(clients, client)
			for _, s := range []script{acquireScript, releaseScript, passScript} {
				err = errors.Join(err, client.Do(ctx, client.B().ScriptLoad().Script(s.source).Build()).Error())
			}
		}
		if err != nil {
			closeAll(clients)
			return nil, fmt.Errorf("node %s: connect: %w", address, err)
		}
	}
	return clients, nil
}

func closeAll(clients []rueidis.Client) {
	for _, client := range clients {
		client.Close()
	}
}

// floorClient is a client of the floors. They differ in how a call gets to the nodes.
type floorClient struct {
	// prefix begins the names of owners. It differs between the processes of a cell, because they start one after the
	// other.
	prefix  string
	owners  atomic.Uint64 // so far
	ttl     string
	clients []rueidis.Client
	need    int // of grants
	// send sends a call to a node. The answer goes into the channel, which has room for it.
	send    func(ctx context.Context, node int, c call, answers chan<- answer)
	stop    chan struct{}
	running sync.WaitGroup
}

func openFloor(ctx context.Context, o Options) (*floorClient, error) {
	clients, err := connect(ctx, o.Addresses)
	if err != nil {
		return nil, err
	}
	c := &floorClient{
		prefix: strconv.FormatInt(time.Now().UnixNano(), 36) + ":", ttl: strconv.FormatInt(o.TTL.Milliseconds(), 10),
		clients: clients, need: len(clients)/2 + 1, stop: make(chan struct{}),
	}
	c.send = func(ctx context.Context, node int, call call, answers chan<- answer) {
		c.running.Go(func() { answers <- call.run(ctx, clients[node]) })
	}
	return c, nil
}

func (c *floorClient) Lock(name string, _ int) Lock { return &floorLock{client: c, name: name} }

func (c *floorClient) next() string { return c.prefix + strconv.FormatUint(c.owners.Add(1), 10) }

// Close ends the connections first: otherwise stragglers would wait forever for a hanging node.
func (c *floorClient) Close(context.Context) error {
	close(c.stop)
	closeAll(c.clients)
	c.running.Wait()
	return nil
}

// ask returns once enough nodes have granted, or cannot any more.
func (c *floorClient) ask(ctx context.Context, call call) error {
	answers := make(chan answer, len(c.clients))
	for node := range c.clients {
		c.send(ctx, node, call, answers)
	}
	return decide(answers, len(c.clients), c.need)
}

type floorLock struct {
	client      *floorClient
	name, owner string
}

func (l *floorLock) Acquire(ctx context.Context) error {
	l.owner = l.client.next()
	err := l.client.ask(ctx, call{acquireScript, [3]string{l.name, l.owner, l.client.ttl}, 3})
	if err != nil {
		_ = l.Release(ctx) // some nodes may have granted
	}
	return err
}

func (l *floorLock) Release(ctx context.Context) error {
	return l.client.ask(ctx, call{releaseScript, [3]string{l.name, l.owner}, 2})
}

type groupCall struct {
	call
	answer chan<- answer
}

func openGroup(ctx context.Context, o Options) (*floorClient, error) {
	c, err := openFloor(ctx, o)
	if err != nil {
		return nil, err
	}
	lasting := context.WithoutCancel(ctx)
	var senders []*sender
	for _, client := range c.clients {
		s := &sender{client: client, wake: make(chan struct{}, 1)}
		senders = append(senders, s)
		c.running.Go(func() { s.run(lasting, c.stop) })
	}
	c.send = func(_ context.Context, node int, call call, answers chan<- answer) {
		senders[node].put(groupCall{call, answers})
	}
	return c, nil
}

// sender sends to one node, one batch at a time: everything that was queued while the last batch was in flight.
type sender struct {
	client   rueidis.Client
	commands rueidis.Commands // of the last batch, whose memory is reused
	wake     chan struct{}

	mu    sync.Mutex
	queue []groupCall
}

func (s *sender) put(q groupCall) {
	s.mu.Lock()
	s.queue = append(s.queue, q)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// swap takes the queue, and leaves an empty one that reuses the memory of the last batch.
func (s *sender) swap(last []groupCall) (gathered []groupCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gathered, s.queue = s.queue, last[:0]
	return gathered
}

func (s *sender) run(ctx context.Context, stop <-chan struct{}) {
	var batch []groupCall
	for {
		select {
		case <-s.wake:
		case <-stop:
			return
		}
		if batch = s.swap(batch); len(batch) > 0 {
			s.exchange(ctx, batch)
		}
	}
}

func (s *sender) exchange(ctx context.Context, batch []groupCall) {
	s.commands = s.commands[:0]
	for _, q := range batch {
		s.commands = append(s.commands, q.command(s.client))
	}
	for i, reply := range s.client.DoMulti(ctx, s.commands...) {
		batch[i].answer <- answerOf(reply)
	}
}

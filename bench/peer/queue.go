package peer

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/redis/rueidis"
)

// queue passes a lock on with one message: the floor with group commit, and a list of the waiters on the first node. The release
// passes the turn to the first of them, in the same script, with one message. No waiter looks whether its turn has
// come, and a waiter or node that dies stops the queue.
var queue = Peer{
	Name: "queue", Waits: true,
	Plain: []string{"rpush"},
	Open: func(ctx context.Context, o Options) (Client, error) {
		f, err := openGroup(ctx, o)
		if err != nil {
			return nil, err
		}
		c := &queueClient{floorClient: f, turns: map[string]chan struct{}{}}
		if err := c.listen(ctx); err != nil {
			return nil, errors.Join(err, c.Close(ctx))
		}
		return c, nil
	},
}

// passScript releases the lock, if the owner has it, and takes the owner from the queue. If the owner was the first
// there, the next one gets a message: the owner's name, on the channel of its client.
var passScript = newScript(`local queue = KEYS[1] .. ':queue'
local released = redis.call('HEXISTS', KEYS[1], ARGV[1])
if released == 1 then redis.call('DEL', KEYS[1]) end
local first = redis.call('LINDEX', queue, 0)
redis.call('LREM', queue, 1, ARGV[1])
local next = redis.call('LINDEX', queue, 0)
if next and first == ARGV[1] then redis.call('PUBLISH', string.match(next, '^[^:]*:'), next) end
return released`)

// queueClient has a sender per node, which keeps a release behind its acquire. Otherwise some locks would stay on a
// node until their TTL.
type queueClient struct {
	*floorClient
	subscriber func() // ends the subscription

	mu    sync.Mutex
	turns map[string]chan struct{} // of the owners that wait, closed when it is their turn
}

func (c *queueClient) listen(ctx context.Context) error {
	conn, end := c.clients[0].Dedicate()
	c.subscriber = end
	subscribed := make(chan struct{})
	broken := conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnSubscription: func(rueidis.PubSubSubscription) { close(subscribed) },
		OnMessage:      func(m rueidis.PubSubMessage) { c.wake(m.Message) },
	})
	if err := conn.Do(ctx, conn.B().Subscribe().Channel(c.prefix).Build()).Error(); err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	select {
	case <-subscribed:
		return nil
	case err := <-broken:
		return fmt.Errorf("subscribe: %w", err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *queueClient) wake(owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if turn := c.turns[owner]; turn != nil {
		close(turn)
		delete(c.turns, owner)
	}
}

func (c *queueClient) Lock(name string, _ int) Lock {
	return &queueLock{client: c, floorLock: floorLock{client: c.floorClient, name: name}}
}

func (c *queueClient) Close(ctx context.Context) error {
	c.subscriber()
	return c.floorClient.Close(ctx)
}

type queueLock struct {
	floorLock
	client *queueClient
}

func (l *queueLock) Acquire(ctx context.Context) error {
	l.owner = l.client.next()
	if err := l.awaitTurn(ctx); err != nil {
		return errors.Join(err, l.Release(context.WithoutCancel(ctx)))
	}
	for {
		err := l.client.ask(ctx, call{acquireScript, [3]string{l.name, l.owner, l.client.ttl}, 3})
		if err == nil {
			return nil
		}
		_ = l.floorLock.Release(ctx) // some nodes may have granted
		if !errors.Is(err, errDenied) || ctx.Err() != nil {
			return errors.Join(err, l.Release(context.WithoutCancel(ctx)))
		}
		// The last owner's release has reached the first node, but not yet enough of the others.
	}
}

// awaitTurn joins the queue, and waits until the owner is the first there.
func (l *queueLock) awaitTurn(ctx context.Context) error {
	c, turn := l.client, make(chan struct{})
	c.mu.Lock()
	c.turns[l.owner] = turn
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.turns, l.owner)
	}()
	first := c.clients[0]
	join := first.B().Rpush().Key(l.name + ":queue").Element(l.owner).Build()
	n, err := first.Do(context.WithoutCancel(ctx), join).AsInt64()
	if err != nil || n == 1 {
		return err
	}
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Release releases the lock on all nodes, and passes the turn on the first one.
func (l *queueLock) Release(ctx context.Context) error {
	c := l.client
	answers := make(chan answer, len(c.clients))
	for node := range c.clients {
		release := call{releaseScript, [3]string{l.name, l.owner}, 2}
		if node == 0 {
			release.script = passScript
		}
		c.send(ctx, node, release, answers)
	}
	return decide(answers, len(c.clients), c.need)
}

package redisson

import (
	"context"
	"time"
)

// Client is one Redisson client of each node, with an id of its own.
type Client struct {
	process *Process
	name    string
}

// Open makes a client of the nodes, as host:port, which must answer. Its watchdog renews locks
// that are taken without a lease, every third of its timeout: that is their TTL.
func (p *Process) Open(ctx context.Context, addresses []string, watchdog time.Duration) (*Client, error) {
	c := &Client{process: p, name: p.newName()}
	_, err := p.do(ctx, request{
		Op: "open", Client: c.name, Caller: c.name, Addresses: addresses, Watchdog: watchdog.Milliseconds(),
	})
	return c, err
}

// Close begins to end the client. What its callers hold stays where it is.
func (c *Client) Close(ctx context.Context) error {
	_, err := c.process.do(ctx, request{Op: "close", Client: c.name, Caller: c.name})
	return err
}

// Kind says what a lock is made of.
type Kind string

// The kinds of locks.
const (
	One   Kind = "one"   // RLock of one node
	Multi Kind = "multi" // RedissonMultiLock of an RLock of each node
	Red   Kind = "red"   // RedissonRedLock of the same
)

// Lock describes a lock.
type Lock struct {
	Kind Kind
	// Node is that of a lock of one node.
	Node int
	Name string
	// Lease is for how long it is taken; if 0, it is renewed until it is given back.
	Lease time.Duration
}

// Caller is one thread of a client. To Redisson it is the holder of what it has locked. What it
// is called to do it does one after the other.
type Caller struct {
	client *Client
	name   string
}

// Caller makes one.
func (c *Client) Caller() *Caller { return &Caller{client: c, name: c.process.newName()} }

// Lock takes a lock, for which it waits as long as ctx allows: lockInterruptibly. Redisson takes
// an interrupt for a node that failed where there are several, and goes on waiting; and it can
// leave a lock behind.
func (c *Caller) Lock(ctx context.Context, l Lock) error {
	_, err := c.call(ctx, "lock", l, 0)
	return err
}

// TryLock takes a lock if it is free within some time: tryLock.
func (c *Caller) TryLock(ctx context.Context, l Lock, wait time.Duration) (bool, error) {
	return c.call(ctx, "tryLock", l, wait)
}

// Unlock gives it back: unlock.
func (c *Caller) Unlock(ctx context.Context, l Lock) error {
	_, err := c.call(ctx, "unlock", l, 0)
	return err
}

// ForceUnlock has whoever holds a lock of one node hold it no longer, and reports whether
// anybody did: forceUnlock.
func (c *Caller) ForceUnlock(ctx context.Context, l Lock) (bool, error) {
	return c.call(ctx, "forceUnlock", l, 0)
}

// IsLocked reports whether anybody holds a lock of one node: isLocked.
func (c *Caller) IsLocked(ctx context.Context, l Lock) (bool, error) {
	return c.call(ctx, "isLocked", l, 0)
}

// IsHeld reports whether the caller holds a lock of one node: isHeldByCurrentThread.
func (c *Caller) IsHeld(ctx context.Context, l Lock) (bool, error) {
	return c.call(ctx, "isHeld", l, 0)
}

func (c *Caller) call(ctx context.Context, op string, l Lock, wait time.Duration) (bool, error) {
	lease := int64(-1)
	if l.Lease > 0 {
		lease = l.Lease.Milliseconds()
	}
	return c.client.process.do(ctx, request{
		Op: op, Client: c.client.name, Caller: c.name, Kind: l.Kind, Node: l.Node, Name: l.Name,
		Patience: wait.Milliseconds(), Lease: lease,
	})
}

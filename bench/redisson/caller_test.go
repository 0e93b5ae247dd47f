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

// Open makes a client of the nodes, as host:port, which must answer. Its watchdog renews locks without a lease every
// third of its timeout, which is their TTL.
func (p *Process) Open(ctx context.Context, addresses []string, watchdog time.Duration) (*Client, error) {
	c := &Client{process: p, name: p.newName()}
	_, err := p.do(ctx, request{
		Op: "open", Client: c.name, Caller: c.name, Addresses: addresses, Watchdog: watchdog.Milliseconds(),
	})
	return c, err
}

// Close begins to end the client. Locks of its callers remain.
func (c *Client) Close(ctx context.Context) error {
	_, err := c.process.do(ctx, request{Op: "close", Client: c.name, Caller: c.name})
	return err
}

// Kind is the composition of a lock.
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
	// Node is the node of a lock on one node.
	Node int
	Name string
	// Lease is the lease of the lock; if 0, the lock is renewed until it is released.
	Lease time.Duration
}

// Caller is one thread of a client. To Redisson it is the holder of its locks. It executes its calls one after the
// other.
type Caller struct {
	client *Client
	name   string
}

// Caller makes a new caller.
func (c *Client) Caller() *Caller { return &Caller{client: c, name: c.process.newName()} }

// Lock acquires a lock, and waits as long as ctx allows: lockInterruptibly. With several nodes, Redisson takes an
// interrupt for a failed node, and continues to wait; it may also leave a lock behind.
func (c *Caller) Lock(ctx context.Context, l Lock) error {
	_, err := c.call(ctx, "lock", l, 0)
	return err
}

// TryLock acquires a lock if it is free within some time: tryLock.
func (c *Caller) TryLock(ctx context.Context, l Lock, wait time.Duration) (bool, error) {
	return c.call(ctx, "tryLock", l, wait)
}

// Unlock releases the lock: unlock.
func (c *Caller) Unlock(ctx context.Context, l Lock) error {
	_, err := c.call(ctx, "unlock", l, 0)
	return err
}

// ForceUnlock removes a lock of one node from its holder, and reports whether there was one: forceUnlock.
func (c *Caller) ForceUnlock(ctx context.Context, l Lock) (bool, error) {
	return c.call(ctx, "forceUnlock", l, 0)
}

// IsLocked reports whether a lock of one node is held: isLocked.
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

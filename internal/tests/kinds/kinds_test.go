// Package kinds tests the rules that hold for every kind of lock: for plain locks, readers and writers, permits, and
// several names.
package kinds_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/quorum"
)

// asker is how a client asks for a lock: it waits, or tries once.
type asker struct {
	wait, try func(context.Context) (*quorumlock.Lease, error)
}

func locks(l *quorumlock.Lock) asker { return asker{l.Acquire, l.TryAcquire} }

func permits(s *quorumlock.Semaphore, n int) asker {
	return asker{
		func(ctx context.Context) (*quorumlock.Lease, error) { return s.Acquire(ctx, n) },
		func(ctx context.Context) (*quorumlock.Lease, error) { return s.TryAcquire(ctx, n) },
	}
}

// has requires that the lock is free, and acquires it.
func (a asker) has(t *testing.T) *quorumlock.Lease {
	t.Helper()
	lease, err := a.try(t.Context())
	require.NoError(t, err)
	fleet.Settle()
	return lease
}

// gets waits for the lock.
func (a asker) gets(t *testing.T) *quorumlock.Lease {
	t.Helper()
	lease, err := a.wait(t.Context())
	require.NoError(t, err)
	return lease
}

func (a asker) isRefused(t *testing.T) {
	t.Helper()
	lease, err := a.try(t.Context())
	require.Nil(t, lease)
	require.Error(t, err)
}

// starts begins to wait for the lock.
func (a asker) starts(ctx context.Context, t *testing.T) *fleet.Acquisition {
	t.Helper()
	return fleet.Start(ctx, t, a.wait)
}

// kind is a kind of lock: who holds it, and who is excluded meanwhile.
type kind struct {
	name          string
	holder, rival func(c *quorumlock.Client, o quorumlock.LockOptions) asker
	// reads is set for a holder that reads, and rivalReads for a rival that does.
	reads, rivalReads bool
	names             func(l *quorumlock.Lease) []string
}

func plain(c *quorumlock.Client, o quorumlock.LockOptions) asker {
	return locks(c.RedLock("job").With(o))
}

func reader(c *quorumlock.Client, o quorumlock.LockOptions) asker {
	return locks(c.RWLock("job").Read().With(o))
}

func writer(c *quorumlock.Client, o quorumlock.LockOptions) asker {
	return locks(c.RWLock("job").Write().With(o))
}

func several(c *quorumlock.Client, o quorumlock.LockOptions) asker {
	o.Rule = quorum.Majority()
	return locks(c.MultiLock("job", "more").With(o))
}

func allPermits(c *quorumlock.Client, o quorumlock.LockOptions) asker {
	return permits(c.Semaphore("job", 2).With(o), 2)
}

func onePermit(c *quorumlock.Client, o quorumlock.LockOptions) asker {
	return permits(c.Semaphore("job", 2).With(o), 1)
}

func slots(l *quorumlock.Lease) (names []string) {
	for _, slot := range l.Slots() {
		names = append(names, wire.SlotName(wire.PoolName("job"), slot))
	}
	return names
}

var kinds = []kind{
	{name: "a lock", holder: plain, rival: plain, names: (*quorumlock.Lease).Names},
	{name: "a reader, and writers", holder: reader, rival: writer, reads: true, names: (*quorumlock.Lease).Names},
	{name: "a writer, and readers", holder: writer, rival: reader, rivalReads: true, names: (*quorumlock.Lease).Names},
	{name: "several names, and one", holder: several, rival: plain, names: (*quorumlock.Lease).Names},
	{name: "permits", holder: allPermits, rival: onePermit, names: slots},
}

// none are the default options.
var none quorumlock.LockOptions

// fixed are the options of a lease that is not renewed.
var fixed = quorumlock.LockOptions{Fixed: true}

// forEach runs a test on n nodes for each kind of lock.
func forEach(t *testing.T, n int, test func(t *testing.T, f *fleet.Fleet, k kind)) {
	t.Helper()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			fleet.InVirtualTime(t, n, func(t *testing.T, f *fleet.Fleet) { test(t, f, k) })
		})
	}
}

// forEachLoss runs a test for each kind of lock, and for each way in which a node loses its memory.
func forEachLoss(t *testing.T, n int, test func(t *testing.T, f *fleet.Fleet, k kind, lose func(i int))) {
	t.Helper()
	for _, k := range kinds {
		t.Run(fmt.Sprintf("%s, on %d nodes", k.name, n), func(t *testing.T) {
			fleet.ForEachLoss(t, n, func(t *testing.T, f *fleet.Fleet, lose func(i int)) { test(t, f, k, lose) })
		})
	}
}

// follows requires that a later lease has a larger token. A reader may have the token of the last writer.
func (k kind) follows(t *testing.T, next, former *quorumlock.Lease) {
	t.Helper()
	if k.rivalReads {
		require.GreaterOrEqual(t, next.Token(), former.Token())
		return
	}
	require.Greater(t, next.Token(), former.Token())
}

// run runs an operation on the names of a lease, on some nodes.
func (k kind) run(f *fleet.Fleet, l *quorumlock.Lease, op wire.Op, nodes ...int) {
	f.T.Helper()
	op.Names, op.TTL = k.names(l), quorumlock.DefaultTTL
	for _, i := range nodes {
		f.Do(i, wire.Released, op)
	}
}

// remove deletes a lease on some nodes by hand.
func (k kind) remove(f *fleet.Fleet, l *quorumlock.Lease, nodes ...int) {
	f.T.Helper()
	k.run(f, l, wire.Op{Kind: wire.Release, Owner: l.Owner(), Reads: k.reads}, nodes...)
}

// waiters returns how many entries the queues of all nodes have. The lock must be held.
func (k kind) waiters(f *fleet.Fleet) (n int) {
	f.T.Helper()
	if k.name != "permits" {
		return f.Waiters()
	}
	// A stranger asks for a slot that does not exist. The denial reports how many waiters are ahead of it.
	pool, stranger := wire.PoolName("job"), wire.Waiter{ID: "stranger:1", Ticket: 1 << 52, Keep: time.Millisecond}
	for i := range f.Nodes {
		n += f.Do(i, wire.Denied, wire.Op{
			Kind: wire.Acquire, Names: []string{wire.SlotName(pool, 1000)}, Owner: stranger.ID, TTL: time.Second,
			Pool: wire.Pool{Name: pool, Size: 1}, Waiter: stranger,
		}).Rank
		f.Do(i, wire.Released, wire.Op{
			Kind: wire.Leave, Names: []string{pool}, Waiter: wire.Waiter{ID: stranger.ID}, Pool: wire.Pool{Name: pool},
		})
	}
	return n
}

package redisson_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/interop/redisson"
)

// These tests show promises that do not hold in a mixed fleet. If one fails, the documentation promises too little.

// TestRedissonDoesNotWaitForANodeToRecover: Redisson does not know recoveries. It takes locks from nodes that have
// lost their memory, although they are held.
func TestRedissonDoesNotWaitForANodeToRecover(t *testing.T) {
	f := newFleet(t, 10*time.Second)
	lock := f.golang().RedLock(name).With(quorumlock.LockOptions{Fixed: true})
	lease, caller := f.acquire(lock), f.caller(watchdog)
	f.owned(lease.Owner())
	for i := range 3 {
		f.command(i, "FLUSHALL")
	}
	_, err := lock.TryAcquire(t.Context())
	require.Error(t, err, "this library waits")
	f.locked(caller, redLock)
	require.NoError(t, lease.Err(), "two hold the lock")
}

// TestRedissonHasNoTokens: Redisson's locks have no token, and leave no trace in the tokens of this library, which
// still grow.
func TestRedissonHasNoTokens(t *testing.T) {
	f := newFleet(t, 10*time.Second)
	lock, caller := f.golang().RedLock(name), f.caller(watchdog)
	fence := func() string { return f.command(0, "GET", "quorumlock:fence:{job}") }

	first := f.acquire(lock)
	f.owned(first.Owner())
	require.NoError(t, first.Release(t.Context()))
	before := fence()
	require.NotEmpty(t, before)
	f.locked(caller, redLock)
	assert.Equal(t, before, fence())
	require.NoError(t, caller.Unlock(t.Context(), redLock))
	assert.Greater(t, f.acquire(lock).Token(), first.Token())
}

// TestALeaseOfRedissonEndsThatOfAnother: a RedissonRedLock with a lease does not check the time again if a node hangs
// at the wrong moment. It returns long after its locks have expired, and then sets the TTL of the keys, whoever their
// holder is. So a third client gets the lock while the second holds it.
func TestALeaseOfRedissonEndsThatOfAnother(t *testing.T) {
	f := newFleet(t, 10*time.Second)
	lock := f.golang().RedLock(name).With(quorumlock.LockOptions{Fixed: true})
	caller := f.caller(watchdog)
	there := redisson.Lock{Kind: redisson.Red, Name: name, Lease: 2 * time.Second}

	f.servers[3].Pause()
	t.Cleanup(f.servers[3].Resume)
	granted := make(chan error, 1)
	go func() { granted <- caller.Lock(f.ctx, there) }()
	f.eventually(func() bool { return f.command(2, "HKEYS", name) != "" }, "it has what it needs, and asks the node that hangs")
	lease := f.acquire(lock)
	require.NoError(t, <-granted, "it believes that it has the lock")
	require.NoError(t, lease.Err(), "its holder knows nothing of that")
	for i := range 3 {
		if f.command(i, "HKEYS", name) == lease.Owner() { // it may have done without one of these
			require.LessOrEqual(t, f.number(i, "PTTL", name), 2000)
		}
	}
	third := f.acquire(f.golang().RedLock(name))
	require.NoError(t, lease.Err(), "a third has the lock too")
	require.NoError(t, third.Err())
	assert.Greater(t, third.Token(), lease.Token(), "only the token tells")
}

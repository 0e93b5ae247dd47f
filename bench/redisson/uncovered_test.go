package redisson

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// These tests show guarantees that do not hold if some clients use Redisson. docs/redisson.md lists them. If a test
// fails, that guarantee may hold after all.

// TestRedissonIgnoresRecoveries: Redisson does not know recoveries. It acquires a lock on nodes that have lost their
// memory, although the lock is still held.
func TestRedissonIgnoresRecoveries(t *testing.T) {
	f := newFleet(t, 10*time.Second)
	lock := f.golang().RedLock(name).With(quorumlock.LockOptions{Fixed: true})
	lease, caller := f.acquire(lock), f.caller(watchdog)
	f.owned(lease.Owner())
	for i := range 3 {
		f.command(i, "FLUSHALL")
	}
	_, err := lock.TryAcquire(t.Context())
	require.Error(t, err, "this library waits for the recovery")
	f.locked(caller, redLock)
	require.NoError(t, lease.Err(), "both sides hold the lock")
}

// TestRedissonLocksHaveNoTokens: Redisson's locks have no token, and do not change the tokens of this library, which still
// grow.
func TestRedissonLocksHaveNoTokens(t *testing.T) {
	f := newFleet(t, 10*time.Second)
	lock, caller := f.golang().RedLock(name), f.caller(watchdog)
	fences := func() [sha256.Size]byte { // a digest, as the tokens of all names are one megabyte
		text := f.command(0, "GET", "quorumlock:fences")
		require.NotEmpty(t, text)
		return sha256.Sum256([]byte(text))
	}

	first := f.acquire(lock)
	f.owned(first.Owner())
	require.NoError(t, first.Release(t.Context()))
	before := fences()
	f.locked(caller, redLock)
	assert.Equal(t, before, fences())
	require.NoError(t, caller.Unlock(t.Context(), redLock))
	assert.Greater(t, f.acquire(lock).Token(), first.Token())
}

// TestLateRedissonLeaseShortensAnotherLease: a node hangs while a RedissonRedLock with a lease asks it. The call returns
// after its keys have expired elsewhere, and then sets the TTL of the keys, which belong to a second holder by now. So a
// third client gets the lock while the second one holds it.
func TestLateRedissonLeaseShortensAnotherLease(t *testing.T) {
	f := newFleet(t, 10*time.Second)
	lock := f.golang().RedLock(name).With(quorumlock.LockOptions{Fixed: true})
	caller := f.caller(watchdog)
	there := Lock{Kind: Red, Name: name, Lease: 2 * time.Second}

	f.servers[3].Pause()
	t.Cleanup(f.servers[3].Resume)
	granted := make(chan error, 1)
	go func() { granted <- caller.Lock(f.ctx, there) }()
	seen := false
	f.eventually(func() bool {
		seen = f.command(2, "HKEYS", name) != ""
		return seen || len(granted) > 0
	}, "the caller must have three nodes, and ask the hung one")
	require.True(t, seen, "the caller had three nodes, before the lease there ended")
	lease := f.acquire(lock)
	require.NoError(t, <-granted, "Lock returns as if it had succeeded")
	require.NoError(t, lease.Err(), "the second holder notices nothing")
	for i := range 3 {
		if f.command(i, "HKEYS", name) == lease.Owner() { // One of these nodes may have missed it.
			require.LessOrEqual(t, f.number(i, "PTTL", name), 2000)
		}
	}
	third := f.acquire(f.golang().RedLock(name))
	require.NoError(t, lease.Err(), "the second holder still holds the lock")
	require.NoError(t, third.Err())
	assert.Greater(t, third.Token(), lease.Token(), "only the token shows which holder is later")
}

package redisson

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// TestBothSidesExcludeEachOther: while one side holds a lock, the other cannot, whichever rule each of them follows.
func TestBothSidesExcludeEachOther(t *testing.T) {
	f := newFleet(t, 10*time.Second)
	client, caller := f.golang(), f.caller(watchdog)
	for _, there := range []Lock{
		{Kind: Red},
		{Kind: Red, Lease: time.Minute},
		{Kind: Multi},
		{Kind: Multi, Lease: time.Minute},
	} {
		there.Name = name
		for rule, here := range map[string]*quorumlock.Lock{"RedLock": client.RedLock(name), "MultiLock": client.MultiLock(name)} {
			t.Run(fmt.Sprintf("%s, lease %v, and %s", there.Kind, there.Lease, rule), func(t *testing.T) {
				f.locked(caller, there)
				_, err := here.TryAcquire(t.Context())
				var held *quorumlock.HeldError
				require.ErrorAs(t, err, &held)
				assert.Contains(t, f.owners(), held.Owner)
				assert.Greater(t, held.TTL, f.config.TTL, "the TTL comes from the nodes")
				require.NoError(t, caller.Unlock(t.Context(), there))

				lease := f.acquire(here)
				got, err := caller.TryLock(t.Context(), there, 50*time.Millisecond)
				require.NoError(t, err)
				require.False(t, got)
				require.NoError(t, lease.Err())
				require.NoError(t, lease.Release(t.Context()))
			})
		}
	}
}

// TestLockOfOneServerActsAsRLock: a lock of a client with one server and Redisson's RLock on that server exclude each
// other.
func TestLockOfOneServerActsAsRLock(t *testing.T) {
	f := newFleet(t, 10*time.Second)
	first := f.golang(func(c *quorumlock.Config) { c.Addresses = f.addresses()[:1] }).RedLock(name)
	caller, there := f.caller(watchdog), Lock{Kind: One, Name: name}

	f.locked(caller, there)
	_, err := first.TryAcquire(t.Context())
	require.ErrorIs(t, err, quorumlock.ErrHeld)
	require.NoError(t, caller.Unlock(t.Context(), there))

	lease := f.acquire(first)
	locked, err := caller.IsLocked(t.Context(), there)
	require.NoError(t, err)
	assert.True(t, locked)
	got, err := caller.TryLock(t.Context(), there, 50*time.Millisecond)
	require.NoError(t, err)
	require.False(t, got)
	require.NoError(t, lease.Release(t.Context()))
}

// TestReadersExcludeRedisson: for Redisson, all readers together are one holder of the lock.
func TestReadersExcludeRedisson(t *testing.T) {
	f := newFleet(t, 10*time.Second)
	lock, caller := f.golang().RWLock(name), f.caller(watchdog)

	one, other := f.acquire(lock.Read()), f.acquire(lock.Read())
	require.NoError(t, one.Release(t.Context()))
	got, err := caller.TryLock(t.Context(), redLock, 50*time.Millisecond)
	require.NoError(t, err)
	require.False(t, got, "one reader still holds the lock")
	require.NoError(t, other.Release(t.Context()))
	f.locked(caller, redLock)
	_, err = lock.Read().TryAcquire(t.Context())
	require.ErrorIs(t, err, quorumlock.ErrHeld)
	require.NoError(t, caller.Unlock(t.Context(), redLock))
}

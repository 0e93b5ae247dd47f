package redisson

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// TestRedissonLeaseExpires: a lease expires in Java, and a waiter in Go acquires the lock. The late unlock in Java does
// not affect the new holder.
func TestRedissonLeaseExpires(t *testing.T) {
	f := newFleet(t, 10*time.Second)
	caller := f.caller(watchdog)
	for _, kind := range []Kind{Red, Multi} {
		there := Lock{Kind: kind, Name: name, Lease: time.Second}
		f.locked(caller, there)
		lease := f.acquire(f.golang().RedLock(name))
		f.owned(lease.Owner())
		if err := caller.Unlock(t.Context(), there); kind == Multi { // RedissonRedLock does not report it.
			require.ErrorContains(t, err, "IllegalMonitorStateException")
		}
		f.owned(lease.Owner())
		require.NoError(t, lease.Release(t.Context()))
	}
}

// TestGoLeaseExpires: a lease expires in Go, and a waiter in Java acquires the lock. The late release in Go does not
// affect the new holder.
func TestGoLeaseExpires(t *testing.T) {
	f := newFleet(t, time.Second)
	lock := f.golang().RedLock(name).With(quorumlock.LockOptions{Fixed: true})
	caller := f.caller(watchdog)
	for _, kind := range []Kind{Red, Multi} {
		there := Lock{Kind: kind, Name: name}
		lease := f.acquire(lock)
		f.locked(caller, there)
		require.Error(t, lease.Err(), "the lease ends before its keys expire")
		owners := f.owners()
		require.ErrorIs(t, lease.Release(t.Context()), quorumlock.ErrLost)
		require.Equal(t, owners, f.owners())
		require.NoError(t, caller.Unlock(t.Context(), there))
	}
}

// TestBothSidesRenew: each side renews its lock until it is released, so the other side does not get it.
func TestBothSidesRenew(t *testing.T) {
	const ttl = 3 * time.Second
	f := newFleet(t, ttl)
	lock, caller := f.golang().RedLock(name), f.caller(ttl)

	lease := f.acquire(lock)
	got, err := caller.TryLock(t.Context(), redLock, 3*ttl)
	require.NoError(t, err)
	if got {
		require.ErrorIs(t, lease.Err(), quorumlock.ErrLost, "both sides hold the lock")
		t.Fatalf("the client in Go keeps its lock for %v", 3*ttl)
	}
	require.NoError(t, lease.Release(t.Context()))

	f.locked(caller, redLock)
	f.stays(lock, 3*ttl)
	require.NoError(t, caller.Unlock(t.Context(), redLock))
}

// TestLockOfDeadJavaHolderExpires: a holder in Java is killed. A caller in Go gets the lock after the timeout of
// Redisson's watchdog.
func TestLockOfDeadJavaHolderExpires(t *testing.T) {
	java, err := Start()
	java = needed(t, java, err)
	t.Cleanup(java.Kill)
	f := fleetOf(t, java, 10*time.Second)
	const ttl = 3 * time.Second
	caller, lock := f.caller(ttl), f.golang().RedLock(name)
	f.locked(caller, redLock)
	f.stays(lock, ttl*3/2)
	killed := time.Now()
	java.Kill()
	_, err = lock.TryAcquire(t.Context())
	// The last renewal was a third of the TTL ago at most, if the machine let it come in time.
	require.ErrorIs(t, err, quorumlock.ErrHeld, "the lock has not expired yet, %v after the kill", time.Since(killed))
	require.NoError(t, f.acquire(lock).Release(t.Context()))
}

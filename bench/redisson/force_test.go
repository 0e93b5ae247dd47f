package redisson

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// TestForceReleaseOfRedissonLock: ForceRelease removes a lock of Redisson. Its holder notices when it unlocks, and its
// watchdog does not affect the next holder.
func TestForceReleaseOfRedissonLock(t *testing.T) {
	f := newFleet(t, 10*time.Second)
	lock, caller := f.golang().RedLock(name), f.caller(watchdog)
	there := Lock{Kind: Multi, Name: name}
	f.locked(caller, there)
	status, err := lock.ForceRelease(t.Context())
	require.NoError(t, err)
	require.Len(t, status.Owners(), len(f.servers), "a Redisson holder has a different owner id on each node")
	require.Empty(t, status.Holder(), "no owner id has a quorum")

	lease := f.acquire(lock)
	held, err := caller.IsHeld(t.Context(), Lock{Kind: One, Name: name})
	require.NoError(t, err)
	require.False(t, held)
	err = caller.Unlock(t.Context(), there)
	var exception *Error
	require.ErrorAs(t, err, &exception)
	require.Contains(t, exception.Text, "IllegalMonitorStateException")
	require.NoError(t, lease.Extend(t.Context()))
	f.owned(lease.Owner())
}

// TestHolderRestoresLockAfterForceUnlockInJava: Redisson's forced unlock leaves no tombstone. The lock just seems to be
// missing on the nodes, so the holder's next renewal puts it back.
func TestHolderRestoresLockAfterForceUnlockInJava(t *testing.T) {
	f := newFleet(t, 10*time.Second)
	lease, caller := f.acquire(f.golang().RedLock(name)), f.caller(watchdog)
	f.owned(lease.Owner())
	f.forceUnlock(caller)
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Extend(t.Context()))
	f.owned(lease.Owner())
	require.NoError(t, lease.Release(t.Context()))
}

// TestForceUnlockInJavaAllowsSecondHolder: after a forced unlock in Java, another client acquires the lock before the
// holder's next renewal. Both hold it until then.
func TestForceUnlockInJavaAllowsSecondHolder(t *testing.T) {
	f := newFleet(t, 4*time.Second)
	fixed := f.golang().RedLock(name).With(quorumlock.LockOptions{Fixed: true}) // It renews only when Extend is called.
	lease, caller := f.acquire(fixed), f.caller(watchdog)
	f.owned(lease.Owner())
	f.forceUnlock(caller)
	f.locked(caller, Lock{Kind: Red, Name: name})
	require.NoError(t, lease.Err(), "the holder cannot know yet")
	require.Error(t, lease.Extend(t.Context()))
	assert.NotContains(t, f.owners(), lease.Owner(), "the former holder does not take the lock back")
	<-lease.Context().Done()
	require.ErrorIs(t, context.Cause(lease.Context()), quorumlock.ErrLost)
}

// forceUnlock unlocks one node after the other, as a MultiLock in Java has no forced unlock.
func (f *fleet) forceUnlock(caller *Caller) {
	f.t.Helper()
	for i := range f.servers {
		was, err := caller.ForceUnlock(f.ctx, Lock{Kind: One, Node: i, Name: name})
		require.NoError(f.t, err)
		require.True(f.t, was)
	}
}

package fleet

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// Acquisition is an Acquire that runs in a goroutine of its own.
type Acquisition struct {
	t *testing.T
	// Done is closed when the Acquire has returned. Lease and Err are its results.
	Done  chan struct{}
	Lease *quorumlock.Lease
	Err   error
}

// StartAcquire begins to acquire a lock. It returns as soon as the Acquire waits or has ended.
func StartAcquire(ctx context.Context, t *testing.T, l *quorumlock.Lock) *Acquisition {
	t.Helper()
	return Start(ctx, t, l.Acquire)
}

// Start is StartAcquire for any kind of lock.
func Start(ctx context.Context, t *testing.T, acquire func(context.Context) (*quorumlock.Lease, error)) *Acquisition {
	t.Helper()
	a := &Acquisition{t: t, Done: make(chan struct{})}
	t.Cleanup(func() { runtime.KeepAlive(a) }) // a lease that nothing refers to is released
	go func() {
		defer close(a.Done)
		a.Lease, a.Err = acquire(ctx)
	}()
	Settle()
	return a
}

// Has requires that the Acquire succeeds without any virtual time passing, and returns its lease.
func (a *Acquisition) Has() *quorumlock.Lease {
	a.t.Helper()
	Settle()
	require.False(a.t, a.Waits(), "it still waits")
	require.NoError(a.t, a.Err)
	return a.Lease
}

// Waits reports whether the Acquire still waits, once everything has settled.
func (a *Acquisition) Waits() bool {
	Settle()
	select {
	case <-a.Done:
		return false
	default:
		return true
	}
}

// LineUp lines up waiters of one client for a lock. The first of them gets the lock, and can hand it over to
// the others, which still wait.
func LineUp(t *testing.T, locks ...*quorumlock.Lock) []*Acquisition {
	t.Helper()
	before, err := locks[0].TryAcquire(t.Context())
	require.NoError(t, err)
	all := make([]*Acquisition, len(locks))
	for i, l := range locks {
		all[i] = StartAcquire(t.Context(), t, l)
	}
	require.NoError(t, before.Release(t.Context()))
	_ = all[0].Has()
	for _, a := range all[1:] {
		require.True(t, a.Waits())
	}
	return all
}

// MustAcquire acquires a lock that must be free, and returns the lease after everything has settled. It keeps a
// reference until the test ends: the garbage collector ends a lease that has none.
func MustAcquire(t *testing.T, l *quorumlock.Lock) *quorumlock.Lease {
	t.Helper()
	lease, err := l.TryAcquire(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { runtime.KeepAlive(lease) })
	Settle()
	return lease
}

// MustBeRefused requires that the lock cannot be acquired now, and returns the error.
func MustBeRefused(t *testing.T, lock *quorumlock.Lock) error {
	t.Helper()
	lease, err := lock.TryAcquire(t.Context())
	require.Nil(t, lease)
	require.Error(t, err)
	return err
}

// AcquireAndRelease acquires a lock that must be free, releases it, and returns the token of the lease.
func AcquireAndRelease(t *testing.T, lock *quorumlock.Lock) uint64 {
	t.Helper()
	lease := MustAcquire(t, lock)
	require.NoError(t, lease.Release(t.Context()))
	Settle()
	return lease.Token()
}

// Subscribe makes a client open its subscriptions, by a waiter, until the test ends. It returns when all nodes know the
// waiter, because a test may count keys next.
func Subscribe(t *testing.T, f *Fleet, client *quorumlock.Client) {
	t.Helper()
	other := MustAcquire(t, f.Client().RedLock("another"))
	ctx, cancel := context.WithCancel(t.Context())
	wait := StartAcquire(ctx, t, client.RedLock("another"))
	require.True(t, wait.Waits())
	Settle()
	t.Cleanup(func() {
		cancel()
		<-wait.Done
		_ = other.Release(context.Background())
	})
}

package hooks_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

func TestHooksReportLifeOfLease(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var mu sync.Mutex
		var events []string
		add := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, fmt.Sprintf(format, args...))
		}
		var owner atomic.Value
		client := f.Client(func(c *quorumlock.Config) {
			c.Hooks = quorumlock.Hooks{
				AttemptFailed: func(e quorumlock.AttemptFailedEvent) {
					add("attempt %d: held %t", e.Attempt, errors.Is(e.Err, quorumlock.ErrHeld))
				},
				Acquired: func(e quorumlock.AcquiredEvent) {
					owner.Store(e.Owner)
					add("acquired %v after %d attempts, %t", e.Names, e.Attempts, e.Waited >= 7*time.Millisecond)
				},
				Renewed: func(e quorumlock.RenewalEvent) {
					add("renewed for %v, ours %t", e.Remaining.Round(time.Second), e.Owner == owner.Load())
				},
				RenewalFailed: func(e quorumlock.RenewalEvent) {
					add("renewal failed, %t", errors.Is(e.Err, quorumlock.ErrNoQuorum))
				},
				Ended:    func(e quorumlock.EndedEvent) { add("ended, lost %t", errors.Is(e.Err, quorumlock.ErrLost)) },
				NodeDown: func(name string, _ error) { add("down %s", name) },
				NodeUp:   func(name string) { add("up %s", name) },
			}
		})
		f.Take("job", "other", 0, 1, 2)
		lock := client.RedLock("job").With(quorumlock.LockOptions{TTL: 9 * time.Second})
		_, err := lock.TryAcquire(t.Context())
		require.Error(t, err)
		f.Free("job", "other", 0, 1, 2)
		lease, err := lock.Acquire(t.Context())
		require.NoError(t, err)
		time.Sleep(4 * time.Second)
		f.Stop(0, 1)
		<-lease.Context().Done()
		fleet.Settle()

		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, []string{
			"attempt 1: held true",
			"acquired [job] after 1 attempts, false",
			"renewed for 9s, ours true",
		}, events[:3])
		require.Contains(t, events, "down n1")
		require.Contains(t, events, "down n2")
		require.Contains(t, events, "renewal failed, true")
		require.Equal(t, "ended, lost true", events[len(events)-1])
	})
}

func TestHooksMayCallTheClient(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var client *quorumlock.Client
		var inspected int
		inspect := func() {
			_, err := client.RedLock("job").Inspect(context.Background())
			if err == nil {
				inspected++
			}
		}
		client = f.Client(func(c *quorumlock.Config) {
			c.Hooks.Acquired = func(quorumlock.AcquiredEvent) { inspect() }
			c.Hooks.Ended = func(quorumlock.EndedEvent) { inspect() }
		})
		lease, err := client.RedLock("job").Acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
		fleet.Settle()
		require.Equal(t, 2, inspected)
	})
}

func TestBlockedHookDelaysNoLease(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		block := make(chan struct{})
		defer close(block)
		client := f.Client(func(c *quorumlock.Config) {
			c.Hooks.Ended = func(quorumlock.EndedEvent) { <-block }
			c.Hooks.Renewed = func(quorumlock.RenewalEvent) { <-block }
		})
		_, err := client.RedLock("a").With(quorumlock.LockOptions{MaxHold: time.Second}).Acquire(t.Context())
		require.NoError(t, err)
		b, err := client.RedLock("b").Acquire(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.NoError(t, b.Err(), "the lease is renewed while the hook blocks")
		f.Stop(0, 1, 2)
		<-b.Context().Done()
		f.Start(0, 1, 2)
	})
}

func TestHooksMayReleaseLeases(t *testing.T) {
	fleet.InVirtualTime(t, 1, func(t *testing.T, f *fleet.Fleet) {
		leases := make(chan *quorumlock.Lease, 1)
		returned := make(chan error, 1)
		client := f.Client(func(c *quorumlock.Config) {
			c.Hooks.Renewed = func(quorumlock.RenewalEvent) { returned <- (<-leases).Release(context.Background()) }
		})
		lease, err := client.RedLock("job").Acquire(t.Context())
		require.NoError(t, err)
		leases <- lease
		require.NoError(t, <-returned)
	})
}

// A hook that ends its goroutine, as FailNow of a test does, loses no later event, and Close does not wait for ever.
func TestHookThatEndsItsGoroutine(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		ended := make(chan struct{}, 1)
		client := f.Client(func(c *quorumlock.Config) {
			c.Hooks.Acquired = func(quorumlock.AcquiredEvent) { runtime.Goexit() }
			c.Hooks.Ended = func(quorumlock.EndedEvent) { ended <- struct{}{} }
		})
		lease := fleet.MustAcquire(t, client.RedLock("job"))
		require.NoError(t, lease.Release(t.Context()))
		fleet.Settle()
		require.Len(t, ended, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, client.Close(ctx))
	})
}

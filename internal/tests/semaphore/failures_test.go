// Package semaphore tests semaphores through the public API.
package semaphore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// acquire begins to acquire n permits.
func acquire(t *testing.T, s *quorumlock.Semaphore, n int) *fleet.Acquisition {
	t.Helper()
	return fleet.Start(t.Context(), t, func(ctx context.Context) (*quorumlock.Lease, error) { return s.Acquire(ctx, n) })
}

func TestPermitsNeedAQuorum(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		s := f.Client().Semaphore("jobs", 3)
		held := permits(t, s, 1)
		f.Stop(0, 1)
		_, err := s.TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
		_, err = s.Inspect(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
		require.ErrorIs(t, s.SetPermits(t.Context(), 2), quorumlock.ErrNoQuorum)
		<-held.Context().Done()
		require.ErrorIs(t, held.Err(), quorumlock.ErrLost)
		f.Start(0, 1)
		lease, err := s.Acquire(t.Context(), 2) // The failed SetPermits may have taken effect or not.
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
	})
}

// A frozen waiter at the head of the queue delays the others only for its grace period.
func TestFrozenPermitWaiterDelaysOthersBriefly(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		full := permits(t, f.Client().Semaphore("jobs", 2), 2)
		c, spies := f.SpiedClient()
		frozen := acquire(t, c.Semaphore("jobs", 2), 1)
		for _, s := range spies {
			s.Set(func(s *fleet.Spy) { s.Message = func(wire.Message) bool { return false } })
		}
		time.Sleep(time.Millisecond)
		second := acquire(t, f.Client().Semaphore("jobs", 2), 1)
		time.Sleep(time.Millisecond)
		third := acquire(t, f.Client().Semaphore("jobs", 2), 1)
		took := f.Elapsed(func() {
			require.NoError(t, full.Release(t.Context()))
			<-second.Done
		})
		require.Less(t, took, 10*time.Millisecond, "the second permit is free for the second waiter")
		took += f.Elapsed(func() { <-third.Done })
		require.Less(t, took, 100*time.Millisecond)
		require.NoError(t, errors.Join(second.Err, third.Err))
		require.NoError(t, second.Lease.Release(t.Context()))
		<-frozen.Done
		require.NoError(t, frozen.Err)
	})
}

// A call left a later number on one node, as its clock was ahead and the others were down. The next call outdoes it.
func TestSetPermitsOutdoesALaterNumberOnFewNodes(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		f.Stop(1, 2)
		require.ErrorIs(t, f.Client(fleet.SkewedBy(f, time.Minute)).Semaphore("jobs", 2).SetPermits(t.Context(), 3), quorumlock.ErrNoQuorum)
		f.Start(1, 2)
		s := f.Client().Semaphore("jobs", 2)
		require.NoError(t, s.SetPermits(t.Context(), 1))
		permits(t, s, 1)
		_, err := s.TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, quorumlock.ErrHeld)
	})
}

// A new size is in force once a majority of nodes knows it. Other nodes and clients learn it from them. Holders keep their
// permits when the number shrinks: Inspect lists them, and counts none of them as available.
func TestSetPermits(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		a, b := f.Client().Semaphore("jobs", 4), f.Client().Semaphore("jobs", 4)
		held := permits(t, a, 4)
		require.NoError(t, a.SetPermits(t.Context(), 2))
		require.NoError(t, held.Err(), "a smaller size ends no lease")
		status, err := b.Inspect(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, status.Permits)
		require.Equal(t, map[string][]int{held.Owner(): {0, 1, 2, 3}}, status.Holders())
		require.Zero(t, status.Available())
		require.NoError(t, held.Release(t.Context()))
		status, err = a.Inspect(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, status.Available())

		for range 20 { // New clients do not know the new size yet.
			c := f.Client().Semaphore("jobs", 4)
			one, two := permits(t, c, 1), permits(t, c, 1)
			_, err := f.Client().Semaphore("jobs", 4).TryAcquire(t.Context(), 1)
			require.ErrorIs(t, err, quorumlock.ErrHeld)
			require.NoError(t, one.Release(t.Context()))
			require.NoError(t, two.Release(t.Context()))
			fleet.Settle()
		}
		_, err = f.Client().Semaphore("jobs", 4).TryAcquire(t.Context(), 3)
		require.Error(t, err)

		full := permits(t, b, 2)
		waits := acquire(t, b, 1)
		require.True(t, waits.Waits())
		require.NoError(t, f.Client().Semaphore("jobs", 1).SetPermits(t.Context(), 8))
		<-waits.Done
		require.NoError(t, waits.Err)
		rest := permits(t, f.Client().Semaphore("jobs", 1), 5)
		require.Len(t, rest.Slots(), 5)
		_, err = a.TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, quorumlock.ErrHeld)
		require.NoError(t, full.Err())
	})
}

// A client that learns of another number than it was configured with logs it: once for each setting, and not if it has set
// the number itself.
func TestOtherNumberOfPermitsIsLogged(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var told [3]bytes.Buffer
		var clients [3]*quorumlock.Client
		for i := range clients {
			clients[i] = f.Client(func(cfg *quorumlock.Config) { cfg.Logger = slog.New(slog.NewTextHandler(&told[i], nil)) })
		}
		setter, same, other := clients[0].Semaphore("jobs", 4), clients[1].Semaphore("jobs", 2), clients[2].Semaphore("jobs", 4)
		full := func(set int) {
			require.NoError(t, setter.SetPermits(t.Context(), set))
			held := permits(t, setter, set)
			for range 3 {
				for _, s := range []*quorumlock.Semaphore{same, other} {
					_, err := s.TryAcquire(t.Context(), 1)
					require.ErrorIs(t, err, quorumlock.ErrHeld)
				}
			}
			require.NoError(t, held.Release(t.Context()))
			fleet.Settle()
		}
		full(2)
		require.Empty(t, told[0].String())
		require.Empty(t, told[1].String())
		require.Equal(t, 1, strings.Count(told[2].String(), "\n"))
		require.Contains(t, told[2].String(), `level=WARN msg="quorumlock: a semaphore was set to another number of permits`)
		require.Contains(t, told[2].String(), "semaphore=jobs set=2 configured=4")
		full(3)
		require.Empty(t, told[0].String())
		require.Contains(t, told[1].String(), "semaphore=jobs set=3 configured=2")
		require.Equal(t, 2, strings.Count(told[2].String(), "\n"), "each setting is logged once")
	})
}

// The new size is smaller than the number of held permits. Holders keep and renew their permits. A released
// permit above the new size is not granted again.
func TestShrinkBelowHeldPermits(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		s, other := f.Client().Semaphore("jobs", 4), f.Client().Semaphore("jobs", 4)
		holders := make(map[int]*quorumlock.Lease)
		for range 4 {
			lease := permits(t, s, 1)
			holders[lease.Slots()[0]] = lease
		}
		require.NoError(t, other.SetPermits(t.Context(), 2))
		time.Sleep(time.Minute)
		for _, slot := range []int{3, 2} {
			require.NoError(t, holders[slot].Err())
			require.NoError(t, holders[slot].Release(t.Context()))
			fleet.Settle()
			_, err := other.TryAcquire(t.Context(), 1)
			require.ErrorIs(t, err, quorumlock.ErrHeld, "slot %d must not be granted again", slot)
		}
		require.NoError(t, holders[0].Release(t.Context()))
		fleet.Settle()
		require.Equal(t, []int{0}, permits(t, other, 1).Slots())
		require.NoError(t, holders[1].Err())
	})
}

func TestNewSizeReachesNodeThatMissedIt(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		a := f.Client().Semaphore("jobs", 4)
		require.NoError(t, permits(t, a, 1).Release(t.Context()))
		fleet.Settle()
		f.Stop(2)
		require.NoError(t, a.SetPermits(t.Context(), 1))
		f.Start(2)
		time.Sleep(2 * time.Second)
		for range 2 { // The first acquisition finds that the third node is back, and the second tells it the new size.
			require.NoError(t, permits(t, a, 1).Release(t.Context()))
			fleet.Settle()
		}
		f.Stop(0)
		f.Nodes[1].Flush() // Only the third node knows it now.
		_, _ = f.Client().Semaphore("jobs", 4).TryAcquire(t.Context(), 1)
		time.Sleep(fleet.RecoveryTime + time.Second)
		held := permits(t, f.Client().Semaphore("jobs", 4), 1)
		require.Equal(t, []int{0}, held.Slots())
		_, err := f.Client().Semaphore("jobs", 4).TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, quorumlock.ErrHeld)
	})
}

// A minority of nodes loses its memory, and with it the new size. The majority still knows it.
func TestNewSizeSurvivesMemoryLossOfAMinority(t *testing.T) {
	fleet.ForEachLoss(t, 5, func(t *testing.T, f *fleet.Fleet, lose func(int)) {
		a := f.Client().Semaphore("jobs", 4)
		require.NoError(t, a.SetPermits(t.Context(), 1))
		lose(0)
		lose(1)
		time.Sleep(fleet.RecoveryTime)
		_, _ = a.TryAcquire(t.Context(), 4) // The nodes notice their loss here, and start to recover.
		time.Sleep(fleet.RecoveryTime + time.Second)
		for range 10 {
			held := permits(t, f.Client().Semaphore("jobs", 4), 1)
			_, err := f.Client().Semaphore("jobs", 4).TryAcquire(t.Context(), 1)
			require.ErrorIs(t, err, quorumlock.ErrHeld)
			require.NoError(t, held.Release(t.Context()))
			fleet.Settle()
		}
	})
}

// A waiter wants three permits, and the semaphore shrinks to two. The waiter fails with ErrInvalid.
func TestWaiterForTooManyPermitsIsRefused(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		s := f.Client().Semaphore("jobs", 4)
		held := permits(t, s, 2)
		waits := acquire(t, f.Client().Semaphore("jobs", 4), 3)
		require.True(t, waits.Waits())
		require.NoError(t, s.SetPermits(t.Context(), 2))
		<-waits.Done
		require.ErrorIs(t, waits.Err, quorumlock.ErrInvalid)
		_, err := s.Acquire(t.Context(), 3)
		require.ErrorIs(t, err, quorumlock.ErrInvalid)
		require.NoError(t, s.SetPermits(t.Context(), 4))
		require.NoError(t, held.Release(t.Context()))
		require.NoError(t, permits(t, f.Client().Semaphore("jobs", 2), 3).Err(), "the nodes know the current size, whatever size the client was made with")
	})
}

func TestPermitsInContext(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		s, locks := f.Client().Semaphore("jobs", 3), f.Client()
		err := s.Do(t.Context(), 2, func(ctx context.Context) error {
			slots, token, ok := s.Slots(ctx)
			require.True(t, ok)
			require.Len(t, slots, 2)
			require.NotZero(t, token)
			_, err := s.Acquire(ctx, 2)
			require.ErrorIs(t, err, quorumlock.ErrOverlap, "the caller would wait for permits that it holds itself")
			another, err := s.Acquire(ctx, 1)
			require.NoError(t, err, "permits are not nested: each Acquire takes more of them")
			require.NotContains(t, slots, another.Slots()[0])
			_, err = s.Acquire(another.Context(), 1) //nolint:contextcheck // the test needs the context of this lease
			require.ErrorIs(t, err, quorumlock.ErrOverlap)
			lock, err := locks.RedLock("jobs").TryAcquire(ctx)
			require.NoError(t, err, "a lock may have the same name as a semaphore")
			require.Nil(t, lock.Slots())
			return another.Release(ctx)
		})
		require.NoError(t, err)
		_, _, ok := s.Slots(t.Context())
		require.False(t, ok)
	})
}

// Another program raises the number while a context has all permits. Then the context can have more.
func TestPermitsInContextAfterTheirNumberGrew(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		s := f.Client().Semaphore("jobs", 2)
		lease := permits(t, s, 2)
		require.NoError(t, f.Client().Semaphore("jobs", 2).SetPermits(t.Context(), 4))
		_, err := s.Acquire(lease.Context(), 2)
		require.NoError(t, err)
	})
}

// A client forgets semaphores without permits in use. If a program keeps such a semaphore, its permits count all the same.
func TestPermitsInContextAfterManyOtherSemaphores(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client()
		s := c.Semaphore("jobs", 2)
		for i := range 300 {
			c.Semaphore(fmt.Sprint("other", i), 1)
		}
		lease := permits(t, s, 2)
		_, err := c.Semaphore("jobs", 2).Acquire(lease.Context(), 1)
		require.ErrorIs(t, err, quorumlock.ErrOverlap)
		_, _, ok := c.Semaphore("jobs", 2).Slots(lease.Context())
		require.True(t, ok)
		require.NoError(t, lease.Release(t.Context()))
	})
}

func TestSemaphoreStatus(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		s := f.Client().Semaphore("jobs", 20)
		available := func() int {
			status, err := s.Inspect(t.Context())
			require.NoError(t, err)
			return status.Available()
		}
		require.Equal(t, 20, available())
		a, b := permits(t, s, 3), permits(t, f.Client().Semaphore("jobs", 20), 1)
		require.Equal(t, 16, available())
		f.Stop(0, 4)
		require.Equal(t, 16, available())
		status, err := s.Inspect(t.Context())
		require.NoError(t, err)
		require.Equal(t, 20, status.Permits)
		require.Equal(t, map[string][]int{a.Owner(): a.Slots(), b.Owner(): b.Slots()}, status.Holders())
	})
}

func TestInvalidPermits(t *testing.T) {
	fleet.InVirtualTime(t, 1, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client()
		for _, s := range []*quorumlock.Semaphore{
			c.Semaphore("jobs", 0), c.Semaphore("jobs", -1), c.Semaphore("jobs", 1025),
			c.Semaphore("", 1), c.Semaphore("quorumlock:x", 1), c.Semaphore("jobs", 1).With(quorumlock.LockOptions{TTL: time.Hour}),
		} {
			_, err := s.Acquire(t.Context(), 1)
			require.ErrorIs(t, err, quorumlock.ErrInvalid)
			_, err = s.Inspect(t.Context())
			require.ErrorIs(t, err, quorumlock.ErrInvalid)
		}
		s := c.Semaphore("jobs", 500)
		for _, n := range []int{0, -1, quorumlock.MaxNames + 1} {
			_, err := s.TryAcquire(t.Context(), n)
			require.ErrorIs(t, err, quorumlock.ErrInvalid)
		}
		require.NoError(t, permits(t, s, quorumlock.MaxNames).Release(t.Context()))
		require.ErrorIs(t, s.SetPermits(t.Context(), 0), quorumlock.ErrInvalid)
		_, err := s.Acquire(nil, 1) //nolint:staticcheck // the test needs a nil context
		require.ErrorIs(t, err, quorumlock.ErrInvalid)
		_, err = c.Semaphore("jobs", 3).Acquire(t.Context(), 4)
		require.ErrorContains(t, err, "4 permits requested, the semaphore has 3")
	})
}

// The events of a semaphore carry its name, and not the names of its slots.
func TestSemaphoreHooksNameTheSemaphore(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var mu sync.Mutex
		var names []string
		note := func(n []string) {
			mu.Lock()
			defer mu.Unlock()
			names = append(names, n...)
		}
		c := f.Client(func(cfg *quorumlock.Config) {
			cfg.Hooks.Acquired = func(e quorumlock.AcquiredEvent) { note(e.Names) }
			cfg.Hooks.AttemptFailed = func(e quorumlock.AttemptFailedEvent) { note(e.Names) }
			cfg.Hooks.Renewed = func(e quorumlock.RenewalEvent) { note(e.Names) }
			cfg.Hooks.Ended = func(e quorumlock.EndedEvent) { note(e.Names) }
		})
		s := c.Semaphore("jobs", 1)
		lease := permits(t, s, 1)
		_, err := s.TryAcquire(t.Context(), 1)
		var held *quorumlock.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, "jobs", held.Name)
		require.Equal(t, lease.Owner(), held.Owner)
		time.Sleep(5 * time.Second)
		require.Equal(t, []string{"jobs"}, lease.Names())
		require.NoError(t, lease.Release(t.Context()))
		fleet.Settle()
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, []string{"jobs", "jobs", "jobs", "jobs"}, names)
	})
}

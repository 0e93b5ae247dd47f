// Package once tests work that is done once in a window: in virtual time, on nodes in memory.
package once_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

const window = time.Hour

func nightly(c *quorumlock.Client) *quorumlock.Once {
	return c.Once("nightly", quorumlock.OnceOptions{Window: window})
}

// succeeds is work that is done at once.
func succeeds(context.Context) error { return nil }

// neverRuns is work that must not begin.
func neverRuns(t *testing.T) func(context.Context) error {
	t.Helper()
	return func(context.Context) error {
		t.Error("the work runs again")
		return nil
	}
}

func isDone(t *testing.T, err error) *quorumlock.DoneError {
	t.Helper()
	require.ErrorIs(t, err, quorumlock.ErrDone)
	var done *quorumlock.DoneError
	require.ErrorAs(t, err, &done)
	return done
}

// The work counts as done for its window, on every client, and the error says who has done it and when.
func TestWorkIsDoneOncePerWindow(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		first := f.Client(func(cfg *quorumlock.Config) { cfg.Holder = "web-1" })
		began := f.Clock.Wall()
		require.NoError(t, nightly(first).Do(t.Context(), func(context.Context) error {
			time.Sleep(time.Minute)
			return nil
		}))
		time.Sleep(10 * time.Minute)
		done := isDone(t, nightly(f.Client()).Do(t.Context(), neverRuns(t)))
		require.Equal(t, "nightly", done.Name)
		require.Equal(t, "web-1", quorumlock.ParseOwner(done.Owner).Holder)
		require.Equal(t, began.Add(time.Minute).UnixMilli(), done.At.UnixMilli())
		require.InDelta(t, 50*time.Minute, done.Left, float64(time.Second))
		require.ErrorContains(t, done, "web-1")

		time.Sleep(done.Left + time.Second)
		require.NoError(t, nightly(f.Client()).Do(t.Context(), succeeds))
	})
}

// Work that fails, or panics, or whose process goes away, is run by the next caller.
func TestWorkThatFailsIsRunAgain(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		failure := errors.New("no paper")
		require.ErrorIs(t, nightly(f.Client()).Do(t.Context(), func(context.Context) error { return failure }), failure)
		require.PanicsWithValue(t, "out of ink", func() {
			_ = nightly(f.Client()).Do(t.Context(), func(context.Context) error { panic("out of ink") })
		})
		gone := f.Client()
		require.Error(t, nightly(gone).Do(t.Context(), func(ctx context.Context) error {
			_ = gone.Close(ctx)
			<-ctx.Done()
			return context.Cause(ctx)
		}))
		require.NoError(t, nightly(f.Client()).Do(t.Context(), succeeds))
		_ = isDone(t, nightly(f.Client()).Do(t.Context(), neverRuns(t)))
	})
}

// Callers that come while the work is done wait for its end, and one of them takes over if it fails.
func TestCallersWaitForWorkThatRuns(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		var (
			mu         sync.Mutex
			runs, told int
			callers    sync.WaitGroup
		)
		for i := range 20 {
			work := nightly(f.Client())
			callers.Go(func() {
				err := work.Do(t.Context(), func(context.Context) error {
					mu.Lock()
					defer mu.Unlock()
					if runs++; runs < 3 {
						return fmt.Errorf("failure %d", i)
					}
					return nil
				})
				mu.Lock()
				defer mu.Unlock()
				if errors.Is(err, quorumlock.ErrDone) {
					told++
				}
			})
		}
		callers.Wait()
		require.Equal(t, 3, runs)
		require.Equal(t, 17, told)
		f.RequireNoKeys()
	})
}

// A record that a majority has survives the loss of the memory of a minority, again and again, as callers give it back.
func TestRecordIsGivenBack(t *testing.T) {
	fleet.ForEachLoss(t, 3, func(t *testing.T, f *fleet.Fleet, lose func(i int)) {
		client := f.Client()
		f.Stop(2)
		require.NoError(t, nightly(client).Do(t.Context(), succeeds))
		f.Start(2)
		for _, i := range []int{0, 1, 2, 0, 1, 2} {
			lose(i)
			time.Sleep(2 * f.Limits.Recovery())
			_ = isDone(t, nightly(client).Do(t.Context(), neverRuns(t)))
		}
	})
}

// A copy of a record ends when the record does, however often copies of copies are made.
func TestCopiesDoNotMakeTheWindowLonger(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client, _ := f.DistantClient(100 * time.Millisecond)
		require.NoError(t, nightly(client).Do(t.Context(), succeeds))
		end := f.Clock.Now() + window
		for i := 0; f.Clock.Now() < end-2*f.Limits.Recovery(); i++ {
			f.Nodes[i%3].Flush()
			time.Sleep(f.Limits.Recovery() + time.Second)
			_ = isDone(t, nightly(client).Do(t.Context(), neverRuns(t)))
		}
		time.Sleep(end - f.Clock.Now() + time.Second)
		require.NoError(t, nightly(client).Do(t.Context(), succeeds))
	})
}

// The record is not confirmed in time: too few nodes answer until the lease has ended. The caller learns that the work may
// be done again, and it is.
func TestUnrecordedWork(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		err := nightly(f.Client()).Do(t.Context(), func(context.Context) error {
			f.Stop(1, 2)
			return nil
		})
		require.ErrorIs(t, err, quorumlock.ErrUnrecorded)
		require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
		require.ErrorIs(t, err, quorumlock.ErrLost)
		f.Start(1, 2)
		f.Stop(0)
		require.NoError(t, nightly(f.Client()).Do(t.Context(), succeeds))
	})
}

// A record on fewer nodes than a majority counts as soon as a caller has told of it: no later one may miss it.
func TestRecordOfAMinorityCountsOnceItIsTold(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		_ = nightly(f.Client()).Do(t.Context(), func(context.Context) error {
			f.Stop(1, 2)
			return nil
		})
		f.Start(1, 2)
		f.Stop(1)
		_ = isDone(t, nightly(f.Client()).Do(t.Context(), neverRuns(t)))
		f.Start(1)
		f.Stop(0)
		_ = isDone(t, nightly(f.Client()).Do(t.Context(), neverRuns(t)))
	})
}

// The caller's context may end when the work is done: the record is made all the same.
func TestRecordOutlastsTheContext(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, nightly(f.Client()).Do(ctx, func(context.Context) error {
			cancel()
			return nil
		}))
		_ = isDone(t, nightly(f.Client()).Do(t.Context(), neverRuns(t)))
	})
}

func TestInvalidWork(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		for _, o := range []quorumlock.OnceOptions{{}, {Window: time.Millisecond}, {Window: 2 * 365 * 24 * time.Hour}, {Window: time.Hour + 1}} {
			require.ErrorIs(t, client.Once("nightly", o).Do(t.Context(), succeeds), quorumlock.ErrInvalid, "%v", o.Window)
		}
		require.ErrorIs(t, client.Once("", quorumlock.OnceOptions{Window: window}).Do(t.Context(), succeeds), quorumlock.ErrInvalid)
		require.ErrorIs(t, nightly(client).Do(t.Context(), nil), quorumlock.ErrInvalid)
		require.ErrorIs(t, nightly(client).Do(nil, succeeds), quorumlock.ErrInvalid) //nolint:staticcheck // that is the test
		require.ErrorIs(t, new(quorumlock.Once).Do(t.Context(), succeeds), quorumlock.ErrInvalid)
		require.ErrorIs(t, nightly(client).Do(t.Context(), func(ctx context.Context) error {
			return nightly(client).Do(ctx, succeeds)
		}), quorumlock.ErrInvalid)
		f.RequireNoKeys()
	})
}

// A program takes the lock in its own way, checks under it, and records before the release.
func TestCheckAndRecord(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		once := nightly(client)
		require.NoError(t, once.Check(t.Context()))
		lease, err := client.RedLock("nightly").TryAcquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, once.Check(t.Context()))
		require.NoError(t, once.Record(t.Context(), lease))
		require.NoError(t, lease.Release(t.Context()))
		_ = isDone(t, once.Check(t.Context()))

		require.ErrorIs(t, once.Record(t.Context(), lease), quorumlock.ErrUnrecorded, "after the release")
		other := fleet.MustAcquire(t, client.RedLock("other"))
		require.ErrorIs(t, once.Record(t.Context(), other), quorumlock.ErrInvalid)
		require.ErrorIs(t, once.Record(t.Context(), nil), quorumlock.ErrInvalid)
		f.Stop(0, 1)
		require.ErrorIs(t, once.Check(t.Context()), quorumlock.ErrNoQuorum)
	})
}

// Package rwlock tests locks for readers and writers.
package rwlock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
)

// free releases leases, which must be valid.
func free(t *testing.T, leases ...*quorumlock.Lease) {
	t.Helper()
	for _, l := range leases {
		require.NoError(t, l.Release(t.Context()))
	}
}

func TestReadersShareAndWritersDoNot(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		a, b := f.Client().RWLock("job"), f.Client().RWLock("job")
		readers := []*quorumlock.Lease{fleet.MustAcquire(t, a.Read()), fleet.MustAcquire(t, a.Read()), fleet.MustAcquire(t, b.Read())}
		for _, l := range readers {
			require.NotZero(t, l.Token())
			require.Equal(t, readers[0].Token(), l.Token())
		}
		for _, rw := range []*quorumlock.RWLock{a, b} {
			_, err := rw.Write().TryAcquire(t.Context())
			var held *quorumlock.HeldError
			require.ErrorAs(t, err, &held)
			require.Equal(t, node.Readers, held.Owner)
			require.ErrorContains(t, err, `"job" is held by readers`)
		}
		free(t, readers...)
		f.RequireNoKeys()

		writer := fleet.MustAcquire(t, a.Write())
		require.Greater(t, writer.Token(), readers[0].Token())
		for _, l := range []*quorumlock.Lock{a.Read(), b.Read(), a.Write(), b.Write()} {
			require.ErrorIs(t, fleet.MustBeRefused(t, l), quorumlock.ErrHeld)
		}
		free(t, writer)
		f.RequireNoKeys()
		reader := fleet.MustAcquire(t, b.Read())
		require.Equal(t, writer.Token(), reader.Token())
		free(t, reader)
	})
}

// A plain lock of the same name excludes readers and writers like a writer.
func TestPlainLockActsAsWriter(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client()
		plain, multi, rw := c.RedLock("job"), c.MultiLock("job", "other"), c.RWLock("job")
		for _, l := range []*quorumlock.Lock{plain, multi} {
			lease := fleet.MustAcquire(t, l)
			require.ErrorIs(t, fleet.MustBeRefused(t, rw.Read()), quorumlock.ErrHeld)
			require.ErrorIs(t, fleet.MustBeRefused(t, rw.Write()), quorumlock.ErrHeld)
			free(t, lease)
			fleet.Settle()
			for _, side := range []*quorumlock.Lock{rw.Read(), rw.Write()} {
				lease := fleet.MustAcquire(t, side)
				require.ErrorIs(t, fleet.MustBeRefused(t, l), quorumlock.ErrHeld)
				free(t, lease)
				fleet.Settle()
			}
		}
		require.Zero(t, f.Keys())
	})
}

func TestNestedReadersAndWriters(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		rw := f.Client().RWLock("job")
		require.NoError(t, rw.Write().Do(t.Context(), func(ctx context.Context) error {
			token, ok := rw.Write().Token(ctx)
			require.True(t, ok)
			return rw.Read().Do(ctx, func(ctx context.Context) error {
				inner, ok := rw.Read().Token(ctx)
				require.True(t, ok)
				require.Equal(t, token, inner)
				return rw.Write().Do(ctx, func(context.Context) error { return nil })
			})
		}))
		err := rw.Read().Do(t.Context(), func(ctx context.Context) error {
			_, err := rw.Write().TryAcquire(ctx)
			require.ErrorIs(t, err, quorumlock.ErrOverlap)
			require.NoError(t, rw.Read().Do(ctx, func(context.Context) error { return nil }))
			_, err = rw.Write().Acquire(ctx)
			return err
		})
		require.ErrorIs(t, err, quorumlock.ErrOverlap)
		require.ErrorContains(t, err, "holds this lock as a reader")
		require.NotContains(t, err.Error(), "acquire all of it first", "the caller has all names already, only not as a writer")
		f.RequireNoKeys()
	})
}

// A writer waits, without polling, until the last reader releases. Readers that came after the writer wait until it
// releases.
func TestReadersAndWritersTakeTurns(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		c, spies := f.SpiedClient()
		rw, other := c.RWLock("job"), f.Client().RWLock("job")
		first, second := fleet.MustAcquire(t, other.Read()), fleet.MustAcquire(t, other.Read())
		writer := fleet.StartAcquire(t.Context(), t, rw.Write())
		require.True(t, writer.Waits())
		time.Sleep(time.Millisecond)
		var readers []*fleet.Acquisition
		for range 10 {
			readers = append(readers, fleet.StartAcquire(t.Context(), t, rw.Read()), fleet.StartAcquire(t.Context(), t, other.Read()))
			time.Sleep(time.Millisecond)
		}
		require.Error(t, fleet.MustBeRefused(t, other.Read()), "a new reader must not pass the waiting writer")
		last := fleet.StartAcquire(t.Context(), t, other.Write())
		asked := fleet.TotalAsked(spies)
		time.Sleep(500 * time.Millisecond)
		require.Equal(t, asked, fleet.TotalAsked(spies), "no waiter polls")

		free(t, first)
		require.True(t, writer.Waits())
		free(t, second)
		time.Sleep(5 * time.Millisecond)
		lease := writer.Has()
		for _, r := range readers {
			require.True(t, r.Waits())
		}
		free(t, lease)
		time.Sleep(5 * time.Millisecond)
		var leases []*quorumlock.Lease
		for _, r := range readers {
			leases = append(leases, r.Has())
			require.GreaterOrEqual(t, r.Lease.Token(), lease.Token())
		}
		require.True(t, last.Waits())
		require.Error(t, fleet.MustBeRefused(t, other.Read()))
		free(t, leases...)
		time.Sleep(5 * time.Millisecond)
		free(t, last.Has())
		f.RequireNoKeys()
	})
}

// Overlapping readers do not keep a writer out, and overlapping writers do not keep readers out.
func TestNeitherReadersNorWritersStarve(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		const crowd = 6
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var mu sync.Mutex
		longest := map[bool]time.Duration{}
		times := map[bool]int{}
		use := func(l *quorumlock.Lock, writes bool) {
			for {
				began := f.Clock.Now()
				lease, err := l.Acquire(ctx)
				if err != nil {
					return
				}
				mu.Lock()
				times[writes]++
				longest[writes] = max(longest[writes], f.Clock.Now()-began)
				mu.Unlock()
				time.Sleep(10 * time.Millisecond)
				_ = lease.Release(context.WithoutCancel(ctx))
			}
		}
		for i := range crowd {
			rw := f.Client().RWLock("job")
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 3 * time.Millisecond)
				use(rw.Read(), false)
			})
			if i < crowd/3 {
				wg.Go(func() { use(rw.Write(), true) })
			}
		}
		time.Sleep(8 * time.Second)
		cancel()
		wg.Wait()
		t.Logf("%d reads, %d writes; longest waits %v and %v", times[false], times[true], longest[false], longest[true])
		for _, writes := range []bool{false, true} {
			assert.Greater(t, times[writes], 120)
			assert.Less(t, longest[writes], time.Second)
		}
		f.RequireNoKeys()
	})
}

// A client dies while its writer waits. Readers behind it acquire once the writer's queue entries have expired.
func TestReadersPassDeadQueuedWriter(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		rw := f.Client().RWLock("job")
		first := fleet.MustAcquire(t, rw.Read())
		f.Freeze(10*time.Second, "dead", 1, false, fleet.FirstNodes(3)...)
		reader := fleet.StartAcquire(t.Context(), t, rw.Read())
		require.True(t, reader.Waits())
		took := f.Elapsed(func() { <-reader.Done })
		require.Less(t, took, 12*time.Second)
		free(t, reader.Has(), first)
	})
}

func TestReadersInHooksAndInspect(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		events := make(chan quorumlock.AcquiredEvent, 10)
		c := f.Client(func(cfg *quorumlock.Config) {
			cfg.Hooks.Acquired = func(e quorumlock.AcquiredEvent) { events <- e }
		})
		rw := c.RWLock("job")
		first, second := fleet.MustAcquire(t, rw.Read()), fleet.MustAcquire(t, rw.Read())
		require.True(t, (<-events).Reads)
		require.True(t, (<-events).Reads)
		fleet.Settle()
		status, err := rw.Write().Inspect(t.Context())
		require.NoError(t, err)
		for _, n := range status.Nodes {
			require.Len(t, n.Holders, 2)
			for _, h := range n.Holders {
				require.True(t, h.Reads)
				require.Contains(t, []string{first.Owner(), second.Owner()}, h.Owner)
			}
		}
		require.Len(t, status.Owners(), 2)
		status, err = rw.Read().ForceRelease(t.Context())
		require.NoError(t, err)
		require.Len(t, status.Nodes[0].Holders, 2)
		writer := fleet.MustAcquire(t, rw.Write())
		require.False(t, (<-events).Reads)
		time.Sleep(quorumlock.DefaultTTL)
		require.ErrorIs(t, first.Err(), quorumlock.ErrLost)
		require.ErrorIs(t, second.Err(), quorumlock.ErrLost)
		free(t, writer)
	})
}

// Node 3 granted the lock to a writer, and then lost its memory. A renewal puts a reader on node 3. Until the recovery
// ends, the writer may still count node 3, so the reader must not count it.
func TestReaderHealCountsOnlyAsReassertion(t *testing.T) {
	fleet.ForEachLoss(t, 3, func(t *testing.T, f *fleet.Fleet, lose func(int)) {
		reading, readWires := f.SpiedClient()
		writing, writeWires := f.SpiedClient()
		f.Introduce(reading, writing)
		readWires[2].Severed.Store(true)
		reader := fleet.MustAcquire(t, reading.RWLock("job").Read()) // on nodes 1 and 2
		fleet.Settle()

		// Node 3 grants the writer. The other nodes do not answer it in time.
		writeWires[0].Severed.Store(true)
		writeWires[1].Slow.Store(int64(300 * time.Millisecond))
		done := make(chan error, 1)
		go func() {
			_, err := writing.RWLock("job").Write().TryAcquire(t.Context())
			done <- err
		}()
		fleet.Settle()
		require.Equal(t, []string{"job"}, f.Nodes[2].Keys())
		lose(2)
		readWires[2].Severed.Store(false)
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, reader.Extend(t.Context()))
		fleet.Settle()
		require.Equal(t, []string{"job"}, f.Nodes[2].Keys(), "the renewal has put the reader on node 3")
		have, _ := reader.Backing()
		require.Equal(t, 2, have, "the heal on node 3 must not count")
		require.Error(t, <-done)

		time.Sleep(2 * fleet.RecoveryTime)
		require.NoError(t, reader.Err())
		have, _ = reader.Backing()
		require.Equal(t, 3, have)
		free(t, reader)
		f.RequireNoKeys()
	})
}

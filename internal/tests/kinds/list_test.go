package kinds_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
)

// list returns the locks, sorted, and the error at the end.
func list(t *testing.T, client *quorumlock.Client, pattern string) (locks []quorumlock.LockInfo, failed error) {
	t.Helper()
	for l, err := range client.Locks(t.Context(), pattern) {
		require.NoError(t, failed, "an error is the end")
		if failed = err; err == nil {
			locks = append(locks, l)
		}
	}
	slices.SortFunc(locks, func(a, b quorumlock.LockInfo) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Slot, b.Slot))
	})
	return locks, failed
}

func held(t *testing.T, s *quorumlock.Semaphore, n int) *quorumlock.Lease {
	t.Helper()
	lease, err := s.Acquire(t.Context(), n)
	require.NoError(t, err)
	return lease
}

// Each kind comes once, with its owners, whether the client has a prefix or not.
func TestLocksOfEachKind(t *testing.T) {
	for _, prefix := range []string{"", "billing:"} {
		fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
			client := f.Client(func(cfg *quorumlock.Config) { cfg.Prefix = prefix })
			f.Client() // the limits are the same
			began := client.Config().Clock.Wall()
			lock := fleet.MustAcquire(t, client.RedLock("job/a").With(quorumlock.LockOptions{Purpose: "report"}))
			multi := fleet.MustAcquire(t, client.MultiLock("m1", "m2"))
			first := fleet.MustAcquire(t, client.RWLock("prices").Read())
			second := fleet.MustAcquire(t, client.RWLock("prices").Read())
			pool := held(t, client.Semaphore("pool", 3), 2)
			require.NoError(t, client.Latch("latch").Set(t.Context(), 1))
			f.Nodes[0].Plant("other")
			time.Sleep(time.Minute)

			locks, err := list(t, client, "*")
			require.NoError(t, err)
			var said []string
			for _, l := range locks {
				said = append(said, fmt.Sprint(l.Name, " ", l.Reads, " ", l.Slot, " ", len(l.Holders)))
				for _, h := range l.Holders {
					require.True(t, h.Held)
					require.Equal(t, 5, h.Nodes)
					require.InDelta(t, quorumlock.DefaultTTL, h.TTL, float64(quorumlock.DefaultTTL)/2)
					require.Equal(t, l.Reads, h.Since.IsZero())
					if !l.Reads {
						require.WithinDuration(t, began, h.Since, time.Second)
					}
				}
			}
			require.Equal(t, []string{"job/a false -1 1", "m1 false -1 1", "m2 false -1 1", fmt.Sprintf("pool false %d 1", pool.Slots()[0]), fmt.Sprintf("pool false %d 1", pool.Slots()[1]), "prices true -1 2"}, said)
			require.Equal(t, lock.Owner(), locks[0].Holders[0].Owner)
			require.Equal(t, "report", quorumlock.ParseOwner(locks[0].Holders[0].Owner).Purpose)
			require.Equal(t, multi.Owner(), locks[2].Holders[0].Owner)
			require.Equal(t, pool.Owner(), locks[4].Holders[0].Owner)
			readers := []string{locks[5].Holders[0].Owner, locks[5].Holders[1].Owner}
			require.ElementsMatch(t, []string{first.Owner(), second.Owner()}, readers)

			for pattern, count := range map[string]int{"m*": 2, "m1": 1, "*a*": 1, "j*/*": 1, "pool": 2, "po*l": 2, "": 0, "m": 0, "*x": 0, "**": 6, "job/a*a": 0, "p*o*o*o*l": 0} {
				locks, err := list(t, client, pattern)
				require.NoError(t, err)
				require.Len(t, locks, count, pattern)
			}
			if prefix != "" {
				locks, err = list(t, f.Client(func(cfg *quorumlock.Config) { cfg.Prefix = "bill:" }), "*")
				require.NoError(t, err)
				require.Empty(t, locks, "another application's")
			}
		})
	}
}

// Many locks take several steps. A lock that a majority has comes once, whichever nodes forgot it or do not answer.
func TestLocksWhileNodesFail(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		const count = 45
		for i := range count {
			fleet.MustAcquire(t, client.RedLock(fmt.Sprint("job ", i)))
		}
		names := func(locks []quorumlock.LockInfo) (names []string) {
			for _, l := range locks {
				require.True(t, l.Holders[0].Held)
				names = append(names, l.Name)
			}
			return names
		}
		all, err := list(t, client, "*")
		require.NoError(t, err)
		require.Len(t, slices.Compact(names(all)), count)

		f.Nodes[0].Flush()
		locks, err := list(t, client, "*")
		require.NoError(t, err)
		require.Equal(t, names(all), names(locks))
		require.Equal(t, 4, locks[0].Holders[0].Nodes)

		time.Sleep(quorumlock.DefaultTTL) // the renewals have put them back
		f.Stop(0)
		f.Pause(1)
		locks, err = list(t, client, "*")
		require.Equal(t, names(all), names(locks))
		require.NotErrorIs(t, err, quorumlock.ErrNoQuorum)
		require.ErrorIs(t, err, node.ErrUnreachable)
		require.ErrorContains(t, err, "n1")
		require.ErrorIs(t, err, node.ErrTimeout)
		require.ErrorContains(t, err, "n2")

		f.Stop(2)
		locks, err = list(t, client, "*")
		require.Len(t, locks, count)
		var lacking *quorumlock.NoQuorumError
		require.ErrorAs(t, err, &lacking)
		require.Len(t, lacking.Nodes, 3)
		require.False(t, locks[0].Holders[0].Held)
		require.Equal(t, 2, locks[0].Holders[0].Nodes)
		f.Resume(1)
	})
}

// A lock that a majority has all the time is not left out because a node that was searched gets it back meanwhile.
func TestLocksWhileANodeGetsOneBack(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		f.Free("back", fleet.MustAcquire(t, client.RedLock("back")).Owner(), 0)
		f.Take("job", "x:1", 0, 1, 2)
		var names []string
		for l, err := range client.Locks(t.Context(), "*") {
			require.NoError(t, err)
			names = append(names, l.Name)
			if len(names) == 1 {
				require.Equal(t, "job", l.Name)
				time.Sleep(quorumlock.DefaultTTL / 2) // the renewal has put it back
				require.Contains(t, f.Nodes[0].Keys(), "back")
			}
		}
		require.Equal(t, []string{"job", "back"}, names)
	})
}

// Locks that end while the list goes on do not hide others.
func TestLocksWhileOthersEnd(t *testing.T) {
	fleet.InVirtualTime(t, 1, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		leases := make(map[string]*quorumlock.Lease)
		for i := range 40 {
			name := fmt.Sprint("job ", i)
			leases[name] = fleet.MustAcquire(t, client.RedLock(name))
		}
		for l, err := range client.Locks(t.Context(), "*") {
			require.NoError(t, err)
			require.NoError(t, leases[l.Name].Release(t.Context()))
			delete(leases, l.Name)
		}
		require.Empty(t, leases)
	})
}

// A lock on a minority is no held one, and a hash of another program is no lock.
func TestLocksOfSomeNodesOnly(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		f.Take("job", "x:1", 0)
		f.Take("job", "y:2", 1, 2)
		f.Take("other", "no owner of a lock", 0, 1, 2)
		locks, err := list(t, client, "*")
		require.NoError(t, err)
		require.Len(t, locks, 1)
		require.Len(t, locks[0].Holders, 2)
		require.Equal(t, []bool{true, false}, []bool{locks[0].Holders[0].Held, locks[0].Holders[1].Held})
		require.Equal(t, "y:2", locks[0].Holders[0].Owner)
	})
}

func TestLocksThatEndEarly(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		for i := range 30 {
			fleet.MustAcquire(t, client.RedLock(fmt.Sprint("job ", i)))
		}
		seen := 0
		for _, err := range client.Locks(t.Context(), "*") {
			require.NoError(t, err)
			if seen++; seen == 3 {
				break
			}
		}
		require.Equal(t, 3, seen)

		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var failed error
		for l, err := range client.Locks(ctx, "*") {
			cancel()
			if failed = err; err != nil {
				require.Empty(t, l.Holders)
			}
		}
		require.ErrorIs(t, failed, context.Canceled)

		require.NoError(t, client.Close(t.Context()))
		locks, err := list(t, client, "*")
		require.Empty(t, locks)
		require.Equal(t, quorumlock.ErrClosed, err)
		for _, err := range client.Locks(nil, "*") { //nolint:staticcheck // it is what the test is about
			require.ErrorIs(t, err, quorumlock.ErrInvalid)
		}
	})
}

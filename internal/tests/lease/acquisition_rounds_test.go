package lease_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// The client says once of each node that it is down, and not with each operation.
func TestHungMinorityDelaysNoCall(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		down := make(chan string, 100)
		client := f.Client(func(cfg *quorumlock.Config) {
			cfg.Hooks.NodeDown = func(node string, _ error) { down <- node }
		})
		f.Introduce(client)
		lock := client.RedLock("job")
		f.Pause(0, 1)
		for range 100 {
			require.Zero(t, f.Elapsed(func() {
				lease, err := lock.Acquire(t.Context())
				require.NoError(t, err)
				require.NoError(t, lease.Extend(t.Context()))
				require.NoError(t, lease.Release(t.Context()))
			}))
		}
		time.Sleep(time.Second)
		require.ElementsMatch(t, []string{"n1", "n2"}, []string{<-down, <-down})
		require.Empty(t, down)
		f.Resume(0, 1)
		time.Sleep(time.Second)
		f.RequireNoKeys()
	})
}

func TestDenialDecidesEarly(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		f.Take("job", "other", 0, 1, 2)
		client := f.Client()
		f.Introduce(client)
		f.Pause(3, 4)
		require.Zero(t, f.Elapsed(func() {
			_, err := client.RedLock("job").TryAcquire(t.Context())
			require.ErrorIs(t, err, quorumlock.ErrHeld)
		}))
		f.Resume(3, 4)
		time.Sleep(time.Second)
		require.Equal(t, 3, f.Keys(), "only the other owner's keys")
	})
}

func TestFailedAttemptIsUndone(t *testing.T) {
	for what, test := range map[string]struct {
		arrange func(*fleet.Fleet)
		err     error
		repair  func(*fleet.Fleet)
		others  int
	}{
		"three denied":                     {func(f *fleet.Fleet) { f.Take("job", "other", 0, 1, 2) }, quorumlock.ErrHeld, nil, 3},
		"votes are split":                  {func(f *fleet.Fleet) { f.Take("job", "a", 0, 1); f.Take("job", "b", 2) }, quorumlock.ErrHeld, nil, 3},
		"two denied, one down":             {func(f *fleet.Fleet) { f.Take("job", "other", 0, 1); f.Stop(2) }, quorumlock.ErrHeld, func(f *fleet.Fleet) { f.Start(2) }, 2},
		"two denied, one hangs":            {func(f *fleet.Fleet) { f.Take("job", "other", 0, 1); f.Pause(2) }, quorumlock.ErrHeld, func(f *fleet.Fleet) { f.Resume(2) }, 2},
		"three down":                       {func(f *fleet.Fleet) { f.Stop(0, 1, 2) }, quorumlock.ErrNoQuorum, func(f *fleet.Fleet) { f.Start(0, 1, 2) }, 0},
		"three hang":                       {func(f *fleet.Fleet) { f.Pause(0, 1, 2) }, quorumlock.ErrNoQuorum, func(f *fleet.Fleet) { f.Resume(0, 1, 2) }, 0},
		"three have a key of another type": {func(f *fleet.Fleet) { plant(f, 0, 1, 2) }, node.ErrWrongType, nil, 0},
	} {
		t.Run(what, func(t *testing.T) {
			fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
				test.arrange(f)
				_, err := f.Client().RedLock("job").TryAcquire(t.Context())
				require.ErrorIs(t, err, test.err)
				if test.repair != nil {
					test.repair(f)
					time.Sleep(2 * time.Second) // Wait until the hung exchange has ended and a probe follows.
				}
				fleet.Settle()
				require.Equal(t, test.others, f.Keys(), "only keys of other owners")
			})
		})
	}
}

// plant puts a key of another type at the name "job", on the given nodes.
func plant(f *fleet.Fleet, nodes ...int) {
	for _, i := range nodes {
		f.Nodes[i].Plant("job")
	}
}

func TestKeyOfAnotherTypeFailsAcquire(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		plant(f, 0, 1, 2)
		_, err := f.Client().RedLock("job").Acquire(t.Context()) // without a deadline
		var noQuorum *quorumlock.NoQuorumError
		require.ErrorAs(t, err, &noQuorum)
		require.ErrorIs(t, err, node.ErrWrongType)
		require.Equal(t, []int{3, 5}, []int{noQuorum.Need, noQuorum.Total})
		require.Len(t, noQuorum.Nodes, 3, "three nodes decide the attempt")
		f.RequireNoKeys()
	})
}

func TestMinorityOfForeignKeysIsTolerated(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		plant(f, 0, 1)
		client := f.Client()
		lease, err := client.RedLock("job").Acquire(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.NoError(t, lease.Release(t.Context()))

		_, err = client.MultiLock("job", "other").Acquire(t.Context())
		require.ErrorIs(t, err, node.ErrWrongType, "a MultiLock needs every node")
		f.RequireNoKeys()
	})
}

func TestCancelledAcquireLeavesNoKeys(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		done, cancelDone := context.WithCancel(t.Context())
		cancelDone()
		_, err := f.Client().RedLock("job").Acquire(done)
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, f.Keys(), "nothing was sent")

		// The context ends during an attempt: two nodes have granted, three hang.
		f.Pause(0, 1, 2)
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := context.DeadlineExceeded
		time.AfterFunc(10*time.Millisecond, func() { cancel(cause) })
		lock := f.Client().RedLock("job")
		took := f.Elapsed(func() { _, err = lock.Acquire(ctx) })
		require.ErrorIs(t, err, cause)
		require.Equal(t, 10*time.Millisecond, took, "Acquire returns at once")
		f.Resume(0, 1, 2)
		time.Sleep(2 * time.Second)
		f.RequireNoKeys()
	})
}

func TestMultiLockNeedsEveryNode(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		lock := f.Client().MultiLock("b", "a", "c")
		lease, err := lock.Acquire(t.Context())
		require.NoError(t, err)
		require.Equal(t, 15, f.Keys(), "three names on five nodes, as soon as Acquire returns")
		require.Equal(t, []string{"a", "b", "c"}, lease.Names())

		_, err = f.Client().MultiLock("c", "d").TryAcquire(t.Context())
		var held *quorumlock.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, "c", held.Name)
		require.NoError(t, lease.Release(t.Context()))
		f.RequireNoKeys()

		f.Stop(4)
		_, err = lock.TryAcquire(t.Context())
		var noQuorum *quorumlock.NoQuorumError
		require.ErrorAs(t, err, &noQuorum)
		require.Equal(t, "n5", noQuorum.Nodes[0].Node)
		require.ErrorIs(t, err, node.ErrUnreachable)
		f.RequireNoKeys()

		majority := lock.With(quorumlock.LockOptions{Rule: quorum.Majority()})
		lease, err = majority.Acquire(t.Context())
		require.NoError(t, err, "a majority rule does not need n5")
		require.NoError(t, lease.Release(t.Context()))
		f.RequireNoKeys()
	})
}

func TestMultiLockIsLostWithOneNode(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lease, err := f.Client().MultiLock("a").Acquire(t.Context())
		require.NoError(t, err)
		f.Stop(1)
		lived := f.Elapsed(func() { <-lease.Context().Done() })
		require.LessOrEqual(t, lived, quorumlock.DefaultTTL)
		require.ErrorIs(t, lease.Err(), quorumlock.ErrLost)
	})
}

func TestOverlappingMultiLocksDoNotDeadlock(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		done := make(chan error)
		sets := [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "a"}, {"c", "a"}}
		for _, names := range sets {
			client := f.Client()
			go func() {
				for range 20 {
					lease, err := client.MultiLock(names...).Acquire(t.Context())
					if err == nil {
						time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond)
						err = lease.Release(t.Context())
					}
					if err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
		}
		for range sets {
			require.NoError(t, <-done)
		}
		f.RequireNoKeys()
	})
}

func TestValidityCountsFromTheSend(t *testing.T) {
	// The nodes answer 9 ms after the send. The lease must count its TTL from the send, or it would
	// outlive its keys. (node-redlock #369)
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client(func(c *quorumlock.Config) {
			c.TTL, c.NodeTimeoutMin, c.NodeTimeoutMax = 30*time.Millisecond, 10*time.Millisecond, 10*time.Millisecond
		})
		f.Introduce(client)
		f.Pause(0, 1, 2)
		time.AfterFunc(9*time.Millisecond, func() { f.Resume(0, 1, 2) })
		lease, err := client.RedLock("job").With(quorumlock.LockOptions{Fixed: true}).TryAcquire(t.Context())
		require.NoError(t, err)
		require.Equal(t, 30*time.Millisecond-decision.Drift(30*time.Millisecond)-9*time.Millisecond, lease.Remaining(),
			"validity counts from the send, not from the answer")
	})
}

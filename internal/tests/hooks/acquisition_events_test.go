package hooks_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
)

// traceKey is the key of a value in the caller's context.
type traceKey struct{}

// acquisitions returns a change of the configuration: a hook that collects acquisition events. The test may read them
// after everything has settled.
func acquisitions(into *[]quorumlock.AcquisitionEvent) func(*quorumlock.Config) {
	return func(c *quorumlock.Config) {
		c.Hooks.Acquisition = func(e quorumlock.AcquisitionEvent) { *into = append(*into, e) }
	}
}

func describe(votes []quorumlock.VoteEvent) []string {
	texts := make([]string, 0, len(votes))
	for _, v := range votes {
		texts = append(texts, fmt.Sprintf("%s %v", v.Node, v.Vote))
	}
	return texts
}

func TestAcquisitionEventHasAllVotes(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var told []quorumlock.AcquisitionEvent
		var mu sync.Mutex // The hook may run while the test reads.
		client := f.Client(func(c *quorumlock.Config) {
			c.Hooks.Acquisition = func(e quorumlock.AcquisitionEvent) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, e)
			}
		})
		f.Introduce(client)
		f.Pause(2) // The third node votes after the call has returned and its lease has ended.
		ctx := context.WithValue(t.Context(), traceKey{}, "mine")
		began := f.Clock.Wall()
		lease, err := client.RedLock("job").Acquire(ctx)
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
		fleet.Settle()
		mu.Lock()
		require.Empty(t, told, "n3 has not voted yet")
		mu.Unlock()
		time.Sleep(time.Second)
		fleet.Settle()

		require.Len(t, told, 1)
		e := told[0]
		require.Equal(t, "mine", e.Context.Value(traceKey{}))
		require.Equal(t, []string{"job"}, e.Names)
		require.Equal(t, lease.Owner(), e.Owner)
		require.Equal(t, lease.Token(), e.Token)
		require.True(t, began.Equal(e.Began))
		require.Zero(t, e.Took)
		require.Zero(t, e.Asking)
		require.Equal(t, 1, e.Attempts)
		require.False(t, e.HandedOver)
		require.NoError(t, e.Err)
		require.ElementsMatch(t, []string{"n1 granted", "n2 granted", "n3 unknown"}, describe(e.Votes))
		late := e.Votes[2]
		require.Equal(t, "n3", late.Node)
		require.ErrorIs(t, late.Err, node.ErrTimeout)
		require.Equal(t, 250*time.Millisecond, late.Took)
		require.True(t, began.Add(late.Took).Equal(late.At))
		require.EqualValues(t, "acquire", late.Op)
		require.Equal(t, lease.Owner(), late.Owner)
		f.Resume(2)
	})
}

func TestAcquisitionEventOfWaiterHasItsWait(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var told []quorumlock.AcquisitionEvent
		client, other := f.Client(acquisitions(&told)), f.Client()
		held, err := other.RedLock("job").Acquire(t.Context())
		require.NoError(t, err)
		fleet.Settle() // A majority has granted the lock. The last node must grant it, too, before the next attempt.
		time.AfterFunc(3*time.Second, func() { _ = held.Release(context.Background()) })
		lease, err := client.RedLock("job").Acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
		fleet.Settle()
		require.Len(t, told, 1)
		e := told[0]
		require.Greater(t, e.Attempts, 1)
		require.GreaterOrEqual(t, e.Took, 3*time.Second)
		require.Zero(t, e.Asking, "in-memory nodes answer at once")
		require.GreaterOrEqual(t, len(e.Votes), 3*e.Attempts)
		var denied *quorumlock.HeldError
		require.ErrorAs(t, e.Votes[0].Err, &denied)
		require.Equal(t, held.Owner(), denied.Owner)
		require.Equal(t, quorumlock.VoteDenied, e.Votes[0].Vote)
	})
}

func TestAcquisitionEventOfFailure(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var told []quorumlock.AcquisitionEvent
		client := f.Client(acquisitions(&told))
		f.Take("job", "other", 0, 1, 2)
		_, tried := client.RedLock("job").TryAcquire(t.Context())
		require.ErrorIs(t, tried, quorumlock.ErrHeld)
		f.Stop(0, 1)
		_, down := client.RedLock("free").TryAcquire(t.Context())
		require.ErrorIs(t, down, quorumlock.ErrNoQuorum)
		fleet.Settle() // The event comes after the last answer.
		_, refused := client.RedLock("free").TryAcquire(t.Context())
		require.ErrorIs(t, refused, quorumlock.ErrNoQuorum)
		fleet.Settle()
		require.Len(t, told, 3)
		require.Equal(t, tried, told[0].Err)
		require.Equal(t, down, told[1].Err)
		require.Equal(t, refused, told[2].Err)
		require.Empty(t, told[0].Owner)
		require.False(t, told[0].HandedOver)
		for _, v := range told[2].Votes {
			require.True(t, v.Unsent, "a node that is down is not asked")
			require.Zero(t, v.Took)
			require.ErrorIs(t, v.Err, node.ErrDown)
		}
	})
}

// A spinning waiter collects many votes. Its event has only the last 128 of them.
func TestAcquisitionEventBoundsItsVotes(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var told []quorumlock.AcquisitionEvent
		votes := 0
		client := f.Client(acquisitions(&told), func(c *quorumlock.Config) {
			c.Hooks.Voted = func(quorumlock.VoteEvent) { votes++ }
		})
		f.Take("job", "other", 0, 1, 2)
		ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		_, err := client.RedLock("job").With(quorumlock.LockOptions{Spin: true}).Acquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		fleet.Settle()
		require.Len(t, told, 1)
		require.Len(t, told[0].Votes, 128)
		require.Equal(t, votes-128, told[0].Dropped)
		require.Equal(t, votes, 3*told[0].Attempts)
	})
}

func TestAcquisitionEventOfHandoverHasNoVotes(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var told []quorumlock.AcquisitionEvent
		var ended []bool
		client := f.Client(acquisitions(&told), func(c *quorumlock.Config) {
			c.Hooks.Ended = func(e quorumlock.EndedEvent) { ended = append(ended, e.HandedOver) }
		})
		lock := client.RedLock("job")
		const waiters = 3
		leases := make(chan *quorumlock.Lease, waiters)
		f.Take("job", "other", 0, 1, 2)
		for range waiters {
			go func() {
				lease, err := lock.Acquire(context.Background())
				if err == nil {
					leases <- lease
				}
			}()
		}
		fleet.Settle()
		f.Free("job", "other", 0, 1, 2)
		for range waiters {
			require.NoError(t, (<-leases).Release(t.Context()))
		}
		fleet.Settle()
		require.Len(t, told, waiters)
		require.Equal(t, []bool{true, true, false}, ended)
		handedOver := 0
		for _, e := range told {
			require.NoError(t, e.Err)
			require.NotZero(t, e.Token)
			if e.HandedOver {
				handedOver++
				require.Empty(t, e.Votes)
				require.Zero(t, e.Attempts)
			}
		}
		require.Equal(t, waiters-1, handedOver)
	})
}

// Close waits for outstanding votes, so no event comes after it.
func TestCloseWaitsForAcquisitionEvents(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var told []quorumlock.AcquisitionEvent
		client := f.Client(acquisitions(&told))
		f.Introduce(client)
		f.Pause(2)
		lease, err := client.RedLock("job").Acquire(t.Context())
		require.NoError(t, err)
		defer runtime.KeepAlive(lease)
		require.Error(t, client.Close(t.Context()), "n3 does not confirm the release")
		require.Len(t, told, 1)
		f.Resume(2)
	})
}

func TestVotedHookReportsRenewals(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var told []quorumlock.VoteEvent
		client := f.Client(func(c *quorumlock.Config) {
			c.Hooks.Voted = func(e quorumlock.VoteEvent) {
				if e.Op == "renew" {
					told = append(told, e)
				}
			}
		})
		lease, err := client.RedLock("job").Acquire(t.Context())
		require.NoError(t, err)
		fleet.Settle()
		f.Stop(2)
		require.NoError(t, lease.Extend(t.Context()))
		fleet.Settle()
		require.NoError(t, lease.Extend(t.Context()))
		fleet.Settle()
		f.Free("job", lease.Owner(), 1)
		f.Take("job", "other", 1)
		_ = lease.Extend(t.Context())
		fleet.Settle()
		require.ElementsMatch(t, []string{
			"n1 granted", "n2 granted", "n3 unknown",
			"n1 granted", "n2 granted", "n3 unknown",
			"n1 granted", "n2 denied", "n3 unknown",
		}, describe(told))
		for _, e := range told {
			require.Equal(t, lease.Owner(), e.Owner)
			require.Equal(t, e.Vote != quorumlock.VoteGranted, e.Err != nil)
		}
	})
}

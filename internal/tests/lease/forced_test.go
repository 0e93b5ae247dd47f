package lease_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
)

var fixed = quorumlock.LockOptions{Fixed: true}

// listens makes a client open its subscriptions, by a waiter.
func listens(t *testing.T, f *fleet.Fleet, client *quorumlock.Client) {
	t.Helper()
	other := fleet.MustAcquire(t, f.Client().RedLock("another"))
	ctx, cancel := context.WithCancel(t.Context())
	wait := fleet.StartAcquire(ctx, t, client.RedLock("another"))
	require.True(t, wait.Waits())
	t.Cleanup(func() {
		cancel()
		<-wait.Done
		_ = other.Release(context.Background())
	})
}

// ways are the kinds of leases that can be forced off, and how.
var ways = map[string]struct {
	acquire func(ctx context.Context, c *quorumlock.Client) (*quorumlock.Lease, error)
	force   func(ctx context.Context, c *quorumlock.Client, owner string) error
}{
	"a lock": {
		func(ctx context.Context, c *quorumlock.Client) (*quorumlock.Lease, error) {
			return c.RedLock("job").Acquire(ctx)
		},
		func(ctx context.Context, c *quorumlock.Client, _ string) error {
			_, err := c.RedLock("job").ForceRelease(ctx)
			return err
		},
	},
	"a Fixed lock": {
		func(ctx context.Context, c *quorumlock.Client) (*quorumlock.Lease, error) {
			return c.RedLock("job").With(fixed).Acquire(ctx)
		},
		func(ctx context.Context, c *quorumlock.Client, _ string) error {
			_, err := c.RedLock("job").ForceRelease(ctx)
			return err
		},
	},
	"several names, of one owner": {
		func(ctx context.Context, c *quorumlock.Client) (*quorumlock.Lease, error) {
			return c.MultiLock("job", "more").Acquire(ctx)
		},
		func(ctx context.Context, c *quorumlock.Client, owner string) error {
			_, err := c.MultiLock("job", "more").ReleaseOwner(ctx, owner)
			return err
		},
	},
	"one name of several": {
		func(ctx context.Context, c *quorumlock.Client) (*quorumlock.Lease, error) {
			return c.MultiLock("job", "more").Acquire(ctx)
		},
		func(ctx context.Context, c *quorumlock.Client, _ string) error {
			_, err := c.RedLock("job").ForceRelease(ctx)
			return err
		},
	},
	"a reader": {
		func(ctx context.Context, c *quorumlock.Client) (*quorumlock.Lease, error) {
			return c.RWLock("job").Read().Acquire(ctx)
		},
		func(ctx context.Context, c *quorumlock.Client, _ string) error {
			_, err := c.RWLock("job").Read().ForceRelease(ctx)
			return err
		},
	},
}

// A holder with a subscription learns of a forced release at once. Without one it learns at its next renewal, and opens
// none.
func TestForcedReleaseTellsTheHolder(t *testing.T) {
	for name, c := range ways {
		for _, subscribed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, subscribed %v", name, subscribed), func(t *testing.T) {
				fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
					client, spies := f.SpiedClient()
					if subscribed {
						listens(t, f, client)
					}
					lease, err := c.acquire(t.Context(), client)
					require.NoError(t, err)
					time.Sleep(50 * time.Millisecond)
					began := f.Clock.Now()
					require.NoError(t, c.force(t.Context(), f.Client(), lease.Owner()))
					if subscribed {
						fleet.Settle()
						require.Error(t, lease.Context().Err())
						require.Equal(t, began, f.Clock.Now(), "it knows without any time passing")
					} else {
						require.NoError(t, lease.Context().Err())
						<-lease.Context().Done()
						require.Zero(t, spies[0].Listens())
					}
					t.Logf("the holder knows after %v", f.Clock.Now()-began)
					if name != "a Fixed lock" || subscribed {
						require.Equal(t, quorumlock.LossForced, lossOf(t, lease.Err()).Cause)
					}
				})
			})
		}
	}
}

// A message is no proof: a lease without a tombstone on the nodes goes on, and a Fixed one is not extended.
func TestForcedMessageIsNoProof(t *testing.T) {
	for _, o := range []quorumlock.LockOptions{{}, fixed} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			client := f.Client()
			listens(t, f, client)
			lease := fleet.MustAcquire(t, client.RedLock("job").With(o))
			fleet.Settle()
			time.Sleep(time.Second)
			before := lease.Remaining()
			for _, nd := range f.Nodes {
				replies := make([]node.Reply, 1)
				op := node.Op{Kind: node.ForceRelease, Names: []string{"other"}, Owner: lease.Owner(), TTL: time.Second, Limits: f.Limits}
				for range 100 {
					nd.Do(t.Context(), []node.Op{op}, replies)
					require.NoError(t, replies[0].Err)
				}
			}
			fleet.Settle()
			require.NoError(t, lease.Err())
			if o.Fixed {
				require.Equal(t, before, lease.Remaining())
			}
			require.NoError(t, lease.Release(t.Context()))
		})
	}
}

// A forced release reaches the nodes one after the other, and each message comes at once. A minority changes nothing, and
// the majority ends the lease.
func TestForcedReleaseOfNodesInTurn(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		listens(t, f, client)
		lease := fleet.MustAcquire(t, client.RedLock("job"))
		fleet.Settle()
		for i, nd := range f.Nodes {
			require.Equal(t, i < 3, lease.Err() == nil, i)
			replies := make([]node.Reply, 1)
			nd.Do(t.Context(), []node.Op{{Kind: node.ForceRelease, Names: []string{"job"}, TTL: time.Minute, Limits: f.Limits}}, replies)
			require.NoError(t, replies[0].Err)
			fleet.Settle()
			if i == 0 {
				have, _ := lease.Backing()
				require.Equal(t, 5, have, "one message alone causes no renewal")
			}
		}
		require.Equal(t, quorumlock.LossForced, lossOf(t, lease.Err()).Cause)
	})
}

// Permits are taken away by their slots, and their holder is told too.
func TestForcedReleaseOfAPermitTellsTheHolder(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		listens(t, f, client)
		lease, err := client.Semaphore("pool", 2).Acquire(t.Context(), 1)
		require.NoError(t, err)
		fleet.Settle()
		slot := node.SlotName(node.PoolName("pool"), lease.Slots()[0])
		for _, nd := range f.Nodes {
			replies := make([]node.Reply, 1)
			nd.Do(t.Context(), []node.Op{{Kind: node.ForceRelease, Names: []string{slot}, TTL: time.Minute, Limits: f.Limits}}, replies)
			require.Equal(t, node.Released, replies[0].Outcome)
		}
		fleet.Settle()
		require.Equal(t, quorumlock.LossForced, lossOf(t, lease.Err()).Cause)
	})
}

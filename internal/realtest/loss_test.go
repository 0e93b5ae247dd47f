package realtest_test

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// gated blocks a client's access to a node once it is shut.
type gated struct {
	node.Node
	shut *atomic.Bool
}

func (g gated) Do(ctx context.Context, ops []node.Op, replies []node.Reply) {
	if !g.shut.Load() {
		g.Node.Do(ctx, ops, replies)
		return
	}
	for i := range ops {
		replies[i] = node.Reply{Err: &node.Error{Node: g.Name(), Op: ops[i].Kind, Reason: node.ErrUnreachable}, Unsent: true}
	}
}

// gatedClient returns a client. Setting shut cuts it off from all nodes at once.
func (c *cluster) gatedClient(changes ...func(*quorumlock.Config)) (client *quorumlock.Client, shut *atomic.Bool) {
	c.t.Helper()
	shut = new(atomic.Bool)
	nodes := make([]node.Node, 0, len(c.servers))
	for _, addr := range c.addresses() {
		nd, err := node.OpenRedis(addr)
		require.NoError(c.t, err)
		c.t.Cleanup(func() { _ = nd.Close() })
		nodes = append(nodes, gated{nd, shut})
	}
	return newClient(c.t, append(changes, func(cfg *quorumlock.Config) { cfg.Nodes = nodes })...), shut
}

func TestRealLeaseEndsBeforeItsKeys(t *testing.T) {
	for _, fixed := range []bool{true, false} {
		t.Run("fixed="+strconv.FormatBool(fixed), func(t *testing.T) {
			// The margin is the drift allowance of 22 ms. If the machine stalls for longer, the keys are
			// gone before the test sees them. So one good try of a few is enough, and a try that saw them
			// too late says nothing.
			gone := false
			for range 20 {
				kept, early := leaseEndsBeforeItsKeys(t, fixed)
				if kept {
					return
				}
				gone = gone || early
			}
			require.False(t, gone, "in no try did all keys outlive the lease")
			t.Fatal("the test never saw all keys within the drift allowance")
		})
	}
}

// endingTTL is the TTL of the leases whose end is observed.
const endingTTL = 2 * time.Second

// leaseEndsBeforeItsKeys makes all nodes hang during a hold. It reports whether they still had
// their keys at the end of the lease, and whether one was gone at a time when it had to be there.
func leaseEndsBeforeItsKeys(t *testing.T, fixed bool) (kept, early bool) {
	c := startCluster(t, 5)
	client, shut := c.gatedClient(withTTL(endingTTL))
	lease := acquire(t, client.RedLock("job").With(quorumlock.LockOptions{Fixed: fixed}))
	c.holds("job", lease.Owner())
	if fixed {
		for i := range c.servers {
			left := c.number(i, "PTTL", "job")
			require.Greater(t, time.Duration(left+1)*time.Millisecond, lease.Remaining(), "the key on node %d must outlive the lease", i)
		}
	}
	// All keys must be there until the allowance after the end of the lease is over. A renewal during the pauses may
	// reach only some nodes, so it does not count.
	due := time.Now().Add(lease.Remaining() + quorum.Drift(endingTTL))
	c.pause(0, 1, 2, 3, 4)
	// At its end the lease is released, and this must not remove the keys before the test reads them.
	// A client that renewed has found that the nodes hang, so it sends nothing until they answer.
	shut.Store(fixed)
	cause := ends(t, lease, endingTTL+soon)
	shut.Store(true)

	left, inTime := make([]int, 5), make([]bool, 5)
	var servers sync.WaitGroup
	for i, s := range c.servers {
		servers.Go(func() {
			s.Resume()
			text, _ := s.Command("PTTL", "job")
			left[i], _ = strconv.Atoi(text)
			inTime[i] = time.Now().Before(due)
		})
	}
	servers.Wait()
	require.ErrorIs(t, cause, quorumlock.ErrLost)
	var lost *quorumlock.LostError
	require.ErrorAs(t, cause, &lost)
	require.Equal(t, lease.Owner(), lost.Owner)
	require.ErrorIs(t, lease.Err(), quorumlock.ErrLost)
	require.ErrorIs(t, lease.Extend(t.Context()), quorumlock.ErrLost, "nothing revives a lost lease")
	t.Logf("the keys had %v ms left, read in time: %v; %v", left, inTime, cause)
	kept = true
	for i, ms := range left {
		if ms <= 0 {
			kept, early = false, early || inTime[i]
		}
	}
	return kept, early
}

// Compare redsync #147 and #149: a restarted node never rejoins a held lock.
func TestRealNodesDieAndComeBackEmpty(t *testing.T) {
	t.Parallel()
	const ttl = patientTTL
	c := startCluster(t, 5)
	lease := acquire(t, c.client(withMaxTTL(ttl)).RedLock("job"))
	c.holds("job", lease.Owner())

	c.kill(0, 3)
	staysValid(t, lease, 2*ttl)
	have, want := lease.Backing()
	require.Equal(t, []int{3, 5}, []int{have, want}, "two of five nodes are down")

	c.restart(0, 3)
	backedByAll(t, lease, ttl*3/2+2*soon)
	c.holds("job", lease.Owner())

	// The lease now survives the loss of two other nodes, but not the loss of three.
	c.kill(1, 2)
	staysValid(t, lease, ttl*3/2)
	c.kill(4)
	cause := ends(t, lease, ttl+soon)
	require.ErrorIs(t, cause, quorumlock.ErrLost)
	var lost *quorumlock.LostError
	require.ErrorAs(t, cause, &lost)
	named := make([]string, 0, len(lost.Nodes))
	for _, n := range lost.Nodes {
		named = append(named, n.Node)
		var nodeErr *node.Error
		require.ErrorAs(t, n.Err, &nodeErr)
		require.ErrorIs(t, n.Err, node.ErrUnreachable)
	}
	addrs := c.addresses()
	require.ElementsMatch(t, []string{addrs[1], addrs[2], addrs[4]}, named, "the cause must name exactly the nodes that failed: %v", cause)
	require.ErrorIs(t, cause, node.ErrUnreachable)
	t.Log(cause)

	c.restart(1, 2, 4)
	require.ErrorIs(t, lease.Release(t.Context()), quorumlock.ErrLost)
	c.noKeys()
}

func TestRealManyLeasesNeedNoGoroutines(t *testing.T) {
	const ttl = 6 * time.Second
	// The leases far outnumber the allowed goroutines. The renewals of ten thousand leases occupy
	// a small machine, which must then run nothing else.
	n := longer(2000, 10_000)
	c := startCluster(t, 5)
	var renewed atomic.Int64
	client := c.client(withTTL(ttl), func(cfg *quorumlock.Config) {
		cfg.Hooks.Renewed = func(quorumlock.RenewedEvent) { renewed.Add(1) }
	})
	require.NoError(t, acquire(t, client.RedLock("warm")).Release(t.Context()))
	before := runtime.NumGoroutine()

	leases, ctx := make([]*quorumlock.Lease, n), withDeadline(t)
	began := time.Now()
	inParallel(t, n, func(i int) (err error) {
		leases[i], err = client.RedLock("lock:" + strconv.Itoa(i)).Acquire(ctx)
		return err
	})
	t.Logf("%d leases acquired in %v", n, time.Since(began).Round(time.Millisecond))

	most := 0
	for held := time.Now(); time.Since(held) < ttl*3/2; {
		most = max(most, runtime.NumGoroutine())
		<-time.After(time.Millisecond)
	}
	t.Logf("%d goroutines before, at most %d while they were held; %d renewals", before, most, renewed.Load())
	require.LessOrEqual(t, most, before+32, "leases must not have goroutines of their own")
	for i, lease := range leases {
		have, _ := lease.Backing()
		require.NoError(t, lease.Err(), "lease %d is valid after one and a half TTLs", i)
		require.GreaterOrEqual(t, have, 3, "so many nodes back lease %d after one and a half TTLs", i)
	}

	began = time.Now()
	inParallel(t, n, func(i int) error { return leases[i].Release(t.Context()) })
	t.Logf("released in %v", time.Since(began).Round(time.Millisecond))
	c.noKeys()
	eventually(t, soon, func() bool { return runtime.NumGoroutine() <= before+fewGoroutines }, "about %d goroutines are left, as before", before)
}

// inParallel runs a function n times, 64 at a time.
func inParallel(t *testing.T, n int, do func(i int) error) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(64)
	for i := range n {
		group.Go(func() error { return do(i) })
	}
	require.NoError(t, group.Wait())
}

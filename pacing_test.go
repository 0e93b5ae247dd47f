package quorumlock_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
)

// laden is a node that needs its time for each operation, as a server does that shares its
// processor with others.
type laden struct {
	*node.Memory
	each atomic.Int64
	// ops and exchanges count what it was asked.
	ops, exchanges atomic.Int64
}

func (s *laden) Do(ctx context.Context, ops []node.Op, replies []node.Reply) {
	s.ops.Add(int64(len(ops)))
	s.exchanges.Add(1)
	time.Sleep(time.Duration(s.each.Load()) * time.Duration(len(ops)))
	s.Memory.Do(ctx, ops, replies)
}

// ladenClient makes a client of nodes that need so long for each operation.
func (f *fleet) ladenClient(each time.Duration, changes ...func(*quorumlock.Config)) (*quorumlock.Client, []*laden) {
	var nodes []*laden
	c := f.client(func(cfg *quorumlock.Config) {
		cfg.Nodes = nil
		for _, m := range f.nodes {
			nd := &laden{Memory: m}
			nd.each.Store(int64(each))
			nodes = append(nodes, nd)
			cfg.Nodes = append(cfg.Nodes, nd)
		}
		for _, change := range changes {
			change(cfg)
		}
	})
	return c, nodes
}

// take takes so many locks, some at a time.
func take(t *testing.T, n int, lock func(i int) *quorumlock.Lock) []*quorumlock.Lease {
	t.Helper()
	const takers = 128
	leases := make([]*quorumlock.Lease, n)
	errs := make([]error, n)
	var next atomic.Int64
	var all sync.WaitGroup
	for range takers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				leases[i], errs[i] = lock(i).Acquire(context.Background())
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	return leases
}

// lostOf is how many leases are lost, and the least that is left of one of the others.
func lostOf(leases []*quorumlock.Lease) (lost int, least time.Duration) {
	least = math.MaxInt64
	for _, l := range leases {
		if l.Err() != nil {
			lost++
		} else {
			least = min(least, l.Remaining())
		}
	}
	return lost, least
}

// A client that holds more than its nodes can renew each third of a TTL renews as fast as they
// can, the most urgent first. It loses nothing as long as they can renew all within a TTL.
func TestRenewalsAreNoFasterThanNodesTakeThem(t *testing.T) {
	const (
		held    = 20_000
		each    = 350 * time.Microsecond // so a round of all takes 7 s of a TTL of 10 s
		lasting = 40 * time.Second
	)
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		var failed atomic.Int64
		c, nodes := f.ladenClient(each, func(cfg *quorumlock.Config) {
			cfg.Hooks.RenewalFailed = func(quorumlock.RenewalFailedEvent) { failed.Add(1) }
		})
		leases := take(t, held, func(i int) *quorumlock.Lock { return c.RedLock(fmt.Sprint("l", i)) })
		for range int(lasting / time.Second) {
			time.Sleep(time.Second)
			lost, least := lostOf(leases)
			require.Zero(t, lost)
			require.Greater(t, least, time.Second)
		}
		require.Zero(t, failed.Load(), "nodes that answer, and are not asked for too much, do not fail")
		for _, nd := range nodes {
			require.Greater(t, nd.ops.Load(), 100*nd.exchanges.Load(), "what leaves together is one call")
		}
	})
}

//go:build !race

package load_test

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
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// refusing is a node that has no memory for the lock "job".
type refusing struct{ *slowNode }

func (n refusing) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	n.slowNode.Do(ctx, ops, replies)
	for i, op := range ops {
		if op.Kind == wire.Acquire && op.Names[0] == "job" {
			replies[i] = wire.Reply{Err: &node.Error{Node: n.Name(), Op: op.Kind.String(), Reason: node.ErrRejected}}
		}
	}
}

// Callers wait behind one whose attempt shows an outage, and the nodes have more calls than they can answer before the callers'
// deadlines. Those who accept no outage give up with the reason.
func TestOutageAmongMoreCallsThanNodesCanAnswer(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c, _ := slowNodesClient(f, 100*time.Microsecond, func(cfg *quorumlock.Config) {
			for i, nd := range cfg.Nodes {
				cfg.Nodes[i] = refusing{nd.(*slowNode)} //nolint:forcetypeassert // of slowNodesClient
			}
		})
		ctx, stop := context.WithCancel(t.Context())
		var crowd, behind sync.WaitGroup
		for i := range 3000 {
			crowd.Go(func() {
				for ctx.Err() == nil {
					if lease, err := c.RedLock(fmt.Sprint("other", i)).Acquire(ctx); err == nil {
						_ = lease.Release(context.WithoutCancel(ctx))
					}
				}
			})
		}
		time.Sleep(time.Second)
		job := c.RedLock("job").With(quorumlock.LockOptions{MaxOutage: -1})
		first := fleet.StartAcquire(t.Context(), t, job)
		require.True(t, first.Waits())
		errs := make([]error, 100)
		for i := range errs {
			behind.Go(func() {
				patience, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*8*time.Millisecond)
				defer cancel()
				_, errs[i] = job.Acquire(patience)
			})
		}
		behind.Wait()
		<-first.Done
		require.ErrorIs(t, first.Err, quorumlock.ErrNoQuorum)
		outages := 0
		for _, err := range errs {
			require.Error(t, err)
			if errors.Is(err, quorumlock.ErrNoQuorum) && !errors.Is(err, context.DeadlineExceeded) {
				outages++
			}
		}
		require.Positive(t, outages)
		stop()
		crowd.Wait()
	})
}

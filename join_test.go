package quorumlock

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// A lock is granted just after the loss of another lock of the joint lease. It is released, too.
func TestALockThatIsGrantedAfterTheLossOfAnother(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *Client, m []*node.Memory) {
		var first *Lease
		j := &Joined{steps: []joinStep{{
			take: func(ctx context.Context, _ bool) (_ *Lease, err error) {
				first, err = c.RedLock("a").Acquire(ctx)
				return first, err
			},
		}, {
			take: func(ctx context.Context, _ bool) (*Lease, error) {
				second, err := c.RedLock("b").Acquire(ctx)
				first.lease.grant.end(ErrHoldLimit)
				synctest.Wait()
				return second, err
			},
		}}}
		_, err := j.TryAcquire(t.Context())
		require.ErrorIs(t, err, ErrHoldLimit)
		synctest.Wait()
		require.Zero(t, keys(m...))
	})
}

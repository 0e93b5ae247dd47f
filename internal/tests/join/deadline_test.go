package join_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

// A join loses a lock just before its deadline, and is still releasing the others at the deadline. Its error is the
// deadline's, as for a single lock.
func TestJoinThatReleasesAtItsDeadlineReportsTheDeadline(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		g := fleet.Another(t, 3)
		c, d := f.Client(), g.Client()
		held := fleet.MustAcquire(t, f.Client().RedLock("c"))
		time.AfterFunc(time.Second/2, func() { g.Pause(0, 1, 2) }) // so the release of "b" takes the timeout of its nodes
		ctx, cancel := context.WithTimeout(t.Context(), 1100*time.Millisecond)
		defer cancel()
		brief := c.RedLock("a").With(quorumlock.LockOptions{MaxHold: time.Second})
		_, err := quorumlock.Join(brief, d.RedLock("b"), c.RedLock("c")).Acquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		g.Resume(0, 1, 2)
		require.NoError(t, held.Release(t.Context()))
	})
}

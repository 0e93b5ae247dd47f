package realtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// A joint lock on two sets of servers takes all names or none. This also holds after an
// interrupted wait for the last name. The loss of one set releases the other one.
func TestRealJoin(t *testing.T) {
	t.Parallel()
	c, d, deadline := startCluster(t, 3), startCluster(t, 3), withDeadline(t)
	one, two, far := c.client(), c.client(), d.client()
	all := quorumlock.Join(one.RedLock("a"), one.RWLock("b").Read(), one.Semaphore("c", 2).Acquirer(2), far.RedLock("z"))
	lease, err := all.Acquire(deadline)
	require.NoError(t, err)
	for _, other := range []quorumlock.Acquirer{two.RedLock("a"), two.RWLock("b").Write(), two.Semaphore("c", 2).Acquirer(1)} {
		_, err := quorumlock.Join(other).TryAcquire(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrHeld)
	}
	require.NoError(t, lease.Release(t.Context()))
	c.noKeys()
	d.noKeys()

	last, err := d.client().RedLock("z").Acquire(deadline)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = all.Acquire(ctx)
	require.ErrorIs(t, err, quorumlock.ErrHeld)
	c.noKeys()
	require.NoError(t, last.Release(t.Context()))

	lease, err = all.Acquire(deadline)
	require.NoError(t, err)
	d.kill(0, 1)
	in(t, lease.Context().Done(), "the loss of one lock is the end of all")
	require.ErrorIs(t, context.Cause(lease.Context()), quorumlock.ErrLost)
	require.ErrorIs(t, lease.Release(t.Context()), quorumlock.ErrLost)
	c.noKeys()
}

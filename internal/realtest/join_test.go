package realtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// A joint lock on two sets of servers acquires all names or none. This also holds if a wait for the last
// name is cancelled. The loss of the locks on one set releases those on the other.
func TestRealJoin(t *testing.T) {
	t.Parallel()
	c, d, deadline := startCluster(t, 3), startCluster(t, 3), withDeadline(t)
	one, two, far := c.client(), c.client(), d.client()
	all := quorumlock.Join(one.RedLock("a"), one.RWLock("b").Read(), one.Semaphore("c", 2).Joinable(2), far.RedLock("z"))
	lease, err := all.Acquire(deadline)
	require.NoError(t, err)
	for _, other := range []quorumlock.Joinable{two.RedLock("a"), two.RWLock("b").Write(), two.Semaphore("c", 2).Joinable(1)} {
		_, err := quorumlock.Join(other).TryAcquire(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrHeld)
	}
	require.NoError(t, lease.Release(t.Context()))
	c.noKeys()
	d.noKeys()

	last, err := d.client().RedLock("z").Acquire(deadline)
	require.NoError(t, err)
	patience := 150 * time.Millisecond
	eventually(t, atMost, func() bool { // On a busy machine, a deadline may pass before the first answer.
		patience *= 2
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err = all.Acquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		return errors.Is(err, quorumlock.ErrHeld)
	}, "the waiter learns that the last name is held")
	c.noKeys()
	require.NoError(t, last.Release(t.Context()))

	lease, err = all.Acquire(deadline)
	require.NoError(t, err)
	d.kill(0, 1)
	in(t, lease.Context().Done(), "the joint lease must end with the loss of one lock")
	require.ErrorIs(t, context.Cause(lease.Context()), quorumlock.ErrLost)
	require.ErrorIs(t, lease.Release(t.Context()), quorumlock.ErrLost)
	c.noKeys()
}

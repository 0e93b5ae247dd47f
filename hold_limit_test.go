package quorumlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// A lease ends at its MaxHold by local time, even if the tick that ends it is late.
func TestTheHoldLimitEndsALeaseOnTime(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *Client, m []*node.Memory) {
		var ended []error
		c.cfg.Hooks.Ended = func(e EndedEvent) { ended = append(ended, e.Err) }
		lock := c.RedLock("job").With(LockOptions{MaxHold: time.Second})
		lease, err := lock.TryAcquire(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		asleep(c, true)
		time.Sleep(time.Second - 1)
		require.NoError(t, lease.Err())
		have, _ := lease.Backing()
		require.Equal(t, 3, have)

		time.Sleep(time.Nanosecond)
		require.Equal(t, ErrHoldLimit, lease.Err())
		require.Equal(t, ErrHoldLimit, context.Cause(lease.Context()), "of a context that is asked for now, too")
		require.Zero(t, lease.Remaining())
		have, _ = lease.Backing()
		require.Zero(t, have)
		require.ErrorIs(t, lease.Extend(t.Context()), ErrHoldLimit)
		require.False(t, lease.lease.retainHandle(), "nothing nests")

		time.Sleep(2 * DefaultTTL)
		require.Equal(t, ErrHoldLimit, lease.Err(), "the reason stays, though the TTL is over too by now")
		require.Equal(t, ErrHoldLimit, lease.Release(t.Context()))
		require.Zero(t, keys(m...))
		asleep(c, false)
		synctest.Wait()
		require.Equal(t, []error{ErrHoldLimit}, ended)
	})
}

func TestATickThatIsLateTellsTheHoldLimit(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *Client, _ []*node.Memory) {
		lease, err := c.RedLock("job").With(LockOptions{MaxHold: time.Second}).TryAcquire(t.Context())
		require.NoError(t, err)
		ctx := lease.Context()
		synctest.Wait()
		asleep(c, true)
		time.Sleep(2 * DefaultTTL)
		asleep(c, false)
		c.scheduler.run()
		require.Equal(t, ErrHoldLimit, context.Cause(ctx))
	})
}

// The TTL of a Fixed lease may expire before its MaxHold.
func TestALeaseThatRunsOutBeforeItsHoldLimit(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *Client, _ []*node.Memory) {
		lease, err := c.RedLock("job").With(LockOptions{MaxHold: time.Minute, Fixed: true}).TryAcquire(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		asleep(c, true)
		time.Sleep(2 * time.Minute)
		require.ErrorIs(t, lease.Err(), ErrLost)
		require.ErrorIs(t, context.Cause(lease.Context()), ErrLost)
		asleep(c, false)
	})
}

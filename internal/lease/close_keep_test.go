package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A lease is released while Close ends the leases one after the other. Its first release does not say that it was
// released before.
func TestReleaseOfALeaseToKeepDuringClose(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *client) {
		s := c.majority("job")
		s.TTL, s.MinHold, s.HandOver = time.Second, 8*time.Second, false
		l := c.acquire(t, s)
		left := c.engine.scheduler.stop() // the first half of Engine.Close
		err := release(l)
		for _, g := range left { // the second half
			g.end(ErrClosed)
		}
		require.NotErrorIs(t, err, ErrReleased)
		require.ErrorIs(t, err, ErrClosed)
	})
}

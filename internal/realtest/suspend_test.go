//go:build unix

package realtest_test

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// This is the holder of Kleppmann's article. It stops in the middle of its work and resumes long
// after another client has taken the lock. It must then know of the loss.
func TestRealSuspendedHolder(t *testing.T) {
	t.Parallel()
	const ttl = patientTTL
	c := startCluster(t, 5)
	holder := c.spawn("hold", childTTL+"="+ttl.String())
	holder.line(t, "held")
	_, err := fmt.Fprintln(holder.in, "how is it?")
	require.NoError(t, err)
	require.Equal(t, "valid", holder.line(t, "lease"))

	require.NoError(t, holder.cmd.Process.Signal(syscall.SIGSTOP))
	next := acquire(t, c.client().RedLock("job"))
	_, err = fmt.Fprintln(holder.in, "how is it?")
	require.NoError(t, err)
	require.NoError(t, holder.cmd.Process.Signal(syscall.SIGCONT))
	require.Contains(t, holder.line(t, "lease"), "lost", "a holder that wakes after its time knows that at once")

	staysValid(t, next, ttl)
	c.holds("job", next.Owner()) // neither a late renewal nor the undo touched it
	require.NoError(t, next.Release(t.Context()))
	holder.kill()
	c.noKeys()
}

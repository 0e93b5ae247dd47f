//go:build unix

package realtest_test

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// This is the case of Kleppmann's article: a holder is suspended during its work, and another client acquires the
// lock. When the former holder resumes, it must know at once that it has lost the lock.
func TestRealSuspendedHolderKnowsItsLoss(t *testing.T) {
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
	require.Contains(t, holder.line(t, "lease"), "lost", "the former holder must know its loss when it resumes")

	staysValid(t, next, ttl)
	c.holds("job", next.Owner()) // Neither a late renewal nor the undo affected the new holder.
	require.NoError(t, next.Release(t.Context()))
	holder.kill()
	c.noKeys()
}

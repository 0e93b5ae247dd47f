package realtest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/rights"
	"github.com/quorumlock/quorumlock/node"
)

// TestRealPrefixWithRights: a user who may use the names of one application takes its locks, semaphores and latches,
// waits for them, and takes none of another application.
func TestRealPrefixWithRights(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	var addresses []string
	for i, s := range c.servers {
		c.command(i, strings.Fields(rights.SetUser("billing", "secret", "billing:*"))...)
		addresses = append(addresses, "redis://billing:secret@"+s.Addr())
	}
	as := func(prefix string) *quorumlock.Client {
		return c.client(func(cfg *quorumlock.Config) { cfg.Addresses, cfg.Prefix = addresses, prefix })
	}
	one, two := as("billing:"), as("billing:")
	lease := acquire(t, one.RedLock("invoices"))
	next := make(chan error, 1)
	go func() {
		lease, err := two.RedLock("invoices").Acquire(t.Context())
		if err == nil {
			err = lease.Release(t.Context())
		}
		next <- err
	}()
	require.NoError(t, lease.Release(t.Context()))
	require.NoError(t, <-next)
	permit, err := one.Semaphore("ports", 2).Acquire(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, permit.Release(t.Context()))
	require.NoError(t, one.Latch("done").Set(t.Context(), 1))
	require.NoError(t, two.Latch("done").CountDown(t.Context(), "x"))
	require.NoError(t, one.Latch("done").Await(t.Context()))

	_, err = as("shipping:").RedLock("invoices").Acquire(t.Context())
	require.ErrorIs(t, err, node.ErrAuth)
	_, err = as("").RedLock("invoices").Acquire(t.Context())
	require.ErrorIs(t, err, node.ErrAuth)
}

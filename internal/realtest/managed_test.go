package realtest_test

import (
	"crypto/tls"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/rights"
	"github.com/quorumlock/quorumlock/node"
)

// TestRealTokensRotate uses servers as ElastiCache permits them: no CONFIG, TLS only, and a user whose password is a
// token. The token changes again and again, and the servers close all connections of the user each time, all at once.
// No lease ends, and waiters are woken.
func TestRealTokensRotate(t *testing.T) {
	t.Parallel()
	var forbidden []string
	for name := range strings.FieldsSeq("BGREWRITEAOF BGSAVE CONFIG DEBUG MIGRATE REPLICAOF SAVE SLAVEOF SHUTDOWN SYNC") {
		forbidden = append(forbidden, "--rename-command", name, "")
	}
	c := startCluster(t, 3, redisproc.WithTLS(), redisproc.WithArgs(forbidden...))
	var token atomic.Value
	// The token before stays valid, as it does in practice: a connection may just be using it.
	before := "none"
	rotate := func(next string) {
		for i := range c.servers {
			c.command(i, append(strings.Fields(rights.SetUser("locker", next, "job:*")), "resetpass", ">"+next, ">"+before)...)
		}
		token.Store(next)
		for i := range c.servers {
			c.command(i, "CLIENT", "KILL", "USER", "locker")
		}
		before = next
	}
	rotate("token-0")
	nodes := func(cfg *quorumlock.Config) {
		cfg.Addresses = nil
		for _, s := range c.servers {
			n, err := node.New(node.Options{
				Addresses:   []string{s.TLSAddr()},
				TLS:         &tls.Config{RootCAs: s.CertPool(), MinVersion: tls.VersionTLS12},
				Credentials: func() (username, password string, err error) { return "locker", token.Load().(string), nil },
			})
			require.NoError(t, err)
			t.Cleanup(func() { _ = n.Close() })
			cfg.Nodes = append(cfg.Nodes, n)
		}
	}
	one, two := newClient(t, nodes), newClient(t, nodes)
	kept := acquire(t, one.RedLock("job:kept"))
	for i := range 10 {
		lease := acquire(t, one.RedLock("job:handed on"))
		next := make(chan error, 1)
		go func() {
			lease, err := two.RedLock("job:handed on").Acquire(t.Context())
			if err == nil {
				err = lease.Release(t.Context())
			}
			next <- err
		}()
		rotate(fmt.Sprint("token-", i+1))
		// A connection that was closed while it was made counts as a failure of its node, for a moment.
		require.Eventually(t, func() bool { return lease.Extend(t.Context()) == nil }, 20*time.Second, time.Millisecond)
		require.NoError(t, lease.Release(t.Context()))
		require.NoError(t, <-next)
		require.NoError(t, kept.Err())
	}
	require.NoError(t, kept.Release(t.Context()))
}

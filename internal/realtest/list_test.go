package realtest_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/rights"
	"github.com/quorumlock/quorumlock/node"
)

// TestRealLocksAreListed searches servers with many keys of others, as a user with no more than the rights that it needs. Keys
// that it may not read, and hashes that are no locks, do not disturb it. A server that ends meanwhile is named.
func TestRealLocksAreListed(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	for i := range c.servers {
		c.command(i, "EVAL", `for i = 1, 3000 do redis.call('HSET', 'job:session ' .. i, 'user', i, 'more', 1) redis.call('HSET', 'secret' .. i, 'a:1', 1) end`, "0")
		c.command(i, "HSET", "job:setting", "no owner", "1")
		c.command(i, "SET", "job:text", "1")
		c.command(i, strings.Fields(rights.SetUser("locker", "secret", "job:*"))...)
	}
	as := func(cfg *quorumlock.Config) {
		cfg.Addresses = nil
		for _, address := range c.addresses() {
			u, err := url.Parse("redis://" + strings.TrimPrefix(address, "redis://"))
			require.NoError(t, err)
			u.User = url.UserPassword("locker", "secret")
			cfg.Addresses = append(cfg.Addresses, u.String())
		}
	}
	client := newClient(t, as)
	list := func() (locks []quorumlock.LockInfo, failed error) {
		for l, err := range client.Locks(t.Context(), "job:*") {
			require.NoError(t, failed)
			if failed = err; err == nil {
				locks = append(locks, l)
			}
		}
		return locks, failed
	}
	require.NoError(t, client.Ready(t.Context()))
	locks, err := list()
	require.Empty(t, locks)
	require.ErrorIs(t, err, node.ErrAuth)
	require.ErrorIs(t, err, quorumlock.ErrNoQuorum)

	for i := range c.servers {
		c.command(i, "ACL", "SETUSER", "locker", "+scan", "+hlen")
	}
	leases := make(map[string]*quorumlock.Lease)
	for i := range 300 {
		name := fmt.Sprint("job:", i)
		leases[name] = acquire(t, client.RedLock(name))
	}
	complete := func() {
		t.Helper()
		var names []string
		for _, l := range locks {
			require.Contains(t, leases, l.Name)
			require.True(t, l.Holders[0].Held)
			require.Equal(t, leases[l.Name].Owner(), l.Holders[0].Owner)
			names = append(names, l.Name)
		}
		slices.Sort(names)
		require.Len(t, slices.Compact(names), len(leases))
	}
	locks, err = list()
	require.NoError(t, err)
	complete()

	c.kill(1)
	locks, err = list()
	require.ErrorIs(t, err, node.ErrUnreachable)
	require.NotErrorIs(t, err, quorumlock.ErrNoQuorum)
	complete()
	require.NoError(t, client.Ready(t.Context()))
	c.kill(2)
	require.ErrorIs(t, client.Ready(t.Context()), node.ErrUnreachable)
	locks, err = list()
	require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
	require.Len(t, locks, len(leases))
}

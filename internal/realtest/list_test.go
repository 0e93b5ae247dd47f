package realtest_test

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
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

// A node that does not let the user in has failed. That is no refusal of a name, about which each half would be asked.
func TestRealLocksBesideANodeWithAnotherPassword(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	client := c.client(undisturbed, func(cfg *quorumlock.Config) {
		cfg.Addresses[2] = "redis://nobody:wrong@" + cfg.Addresses[2]
	})
	leases := make(map[string]*quorumlock.Lease)
	for i := range 100 {
		name := fmt.Sprint("job:", i)
		leases[name] = acquire(t, client.RedLock(name))
	}
	before := c.calls(0)
	var failed error
	for l, err := range client.Locks(t.Context(), "*") {
		if failed = err; err == nil {
			require.Equal(t, leases[l.Name].Owner(), l.Holders[0].Owner)
		}
	}
	require.ErrorIs(t, failed, node.ErrAuth)
	require.NotErrorIs(t, failed, quorumlock.ErrNoQuorum)
	require.Less(t, c.calls(0)-before, len(leases))
}

// A server restarts while its keys are read. Its cursors mean nothing any more, so the list must not end as if it had all.
func TestRealLocksWhileTheServerRestarts(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	c.command(0, "EVAL", `for i = 1, 6000 do redis.call('HSET', 'job:' .. i, 'a:1', 1) redis.call('PEXPIRE', 'job:' .. i, 600000) end`, "0")
	var failed error
	seen := 0
	for _, err := range c.client(undisturbed).Locks(t.Context(), "*") {
		failed = err
		if seen++; seen == 1 {
			c.restart(0)
		}
	}
	require.Greater(t, seen, 1)
	require.Less(t, seen, 6000)
	require.ErrorIs(t, failed, node.ErrRejected)
	require.ErrorIs(t, failed, quorumlock.ErrNoQuorum)
}

// A reply must stay below the bound that guards clients against servers gone wild, or the connection and with it the renewals
// of all leases would end. So a server lists fewer names at once, and refuses to list one name of too many readers.
func TestRealLocksOfManyReaders(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	client := c.client(undisturbed)
	plant := func(name string, readers int) {
		c.command(0, "EVAL", `
			local name, now = KEYS[1], redis.call('TIME')[1] * 1000
			for i = 1, ARGV[1] do
				redis.call('ZADD', 'quorumlock:readers:{' .. name .. '}', now + 600000, 'a client whose id is of some length:' .. i)
			end
			redis.call('HSET', name, 'quorumlock:readers', 1)
			redis.call('PEXPIRE', name, 600000)`, "1", name, strconv.Itoa(readers))
	}
	lease := acquire(t, client.RedLock("job"))
	for _, prefix := range []string{"c", "config of a service, to be read by all of its instances"} {
		names := make(map[string]bool)
		for i := range 200 {
			name := fmt.Sprint(prefix, ":", i)
			names[name] = true
			plant(name, 200)
		}
		for l, err := range client.Locks(t.Context(), prefix+":*") {
			require.NoError(t, err)
			require.Len(t, l.Holders, 200)
			require.True(t, names[l.Name])
			delete(names, l.Name)
		}
		require.Empty(t, names)
	}

	var status *quorumlock.Status
	var err error
	for readers, fit := 10_000, true; readers <= 50_000; readers += 5_000 {
		plant("crowd", readers)
		status, err = client.RWLock("crowd").Write().Inspect(t.Context())
		if fit = fit && err == nil; fit {
			require.Len(t, status.Nodes[0].Holders, readers)
			continue
		}
		require.ErrorContains(t, err, "more holders than fit a reply")
		require.ErrorIs(t, err, node.ErrRejected)
		require.Empty(t, status.Nodes[0].Holders)
	}
	require.Error(t, err)
	status, err = client.RWLock("crowd").Write().ForceRelease(t.Context())
	require.NoError(t, err)
	require.Len(t, status.Nodes[0].Holders, 7_999, "the reply names the first of them")
	require.Zero(t, c.number(0, "EXISTS", "crowd", "quorumlock:readers:{crowd}"))
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release(t.Context()))
}

package node

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// watching makes a node that looks at the memory policy with every exchange, if it looks at all.
func watching(t *testing.T, server *redisproc.Server, allow bool) *redisNode {
	t.Helper()
	opt := Options{Addresses: []string{server.Addr()}, AllowEviction: allow}
	opt.Timeout, opt.ConnectTimeout = 30*time.Second, 30*time.Second
	n, err := newRedis(opt)
	require.NoError(t, err)
	t.Cleanup(func() { _ = n.Close() })
	n.link.evictions.every = 0
	return n
}

// looks runs an operation and returns how many INFO the server ran for it, apart from those in scripts.
func looks(t *testing.T, server *redisproc.Server, n *redisNode) (count int, err error) {
	t.Helper()
	_, e := server.Command("CONFIG", "RESETSTAT")
	require.NoError(t, e)
	replies := make([]wire.Reply, 1)
	n.Do(context.Background(), []wire.Op{{Kind: wire.Release, Names: []string{"a"}, Owner: "o"}}, replies)
	stats, e := server.Command("INFO", "commandstats")
	require.NoError(t, e)
	if calls := infoField(stats, "cmdstat_info"); calls != "" {
		_, e = fmt.Sscanf(calls, "calls=%d", &count)
		require.NoError(t, e)
	}
	return count, replies[0].Err
}

// A limit that appears while the node is connected is found with the next look. The next call then connects again, and
// is refused. The exchange with the look in it has its answers.
func TestLimitThatAppearsIsFound(t *testing.T) {
	server := redisproc.Start(t, redisproc.WithArgs("--maxmemory-policy", "volatile-lru"))
	n := watching(t, server, false)
	require.NoError(t, n.Probe(context.Background()))
	_, err := looks(t, server, n)
	require.NoError(t, err)

	server.Config("maxmemory", "100mb")
	_, err = looks(t, server, n)
	require.NoError(t, err, "the look goes behind the operations")
	assert.False(t, n.Connected())
	_, err = looks(t, server, n)
	require.ErrorIs(t, err, ErrMisconfigured)
	require.ErrorContains(t, err, "maxmemory is 104857600 bytes")

	server.Config("maxmemory", "0")
	_, err = looks(t, server, n)
	require.NoError(t, err)
}

// If evictions are allowed, the look only notes them, and then ends.
func TestLimitThatAppearsIsNoted(t *testing.T) {
	server := redisproc.Start(t, redisproc.WithArgs("--maxmemory-policy", "volatile-lru"))
	n := watching(t, server, true)
	require.NoError(t, n.Probe(context.Background()))
	assert.Empty(t, n.Eviction())
	server.Config("maxmemory", "100mb")
	count, err := looks(t, server, n)
	require.NoError(t, err)
	assert.Equal(t, 1, count)
	assert.True(t, n.Connected())
	assert.Contains(t, n.Eviction(), "maxmemory is 104857600 bytes")
	count, err = looks(t, server, n)
	require.NoError(t, err)
	assert.Zero(t, count)
}

// Only a server that could evict locks is asked again, and not with every exchange.
func TestLooksAreRare(t *testing.T) {
	server := redisproc.Start(t)
	n := watching(t, server, false)
	require.NoError(t, n.Probe(context.Background()))
	count, err := looks(t, server, n)
	require.NoError(t, err)
	assert.Zero(t, count, "noeviction")

	server.Config("maxmemory-policy", "volatile-lru")
	n = watching(t, server, false)
	n.link.evictions.every = lookAgain
	require.NoError(t, n.Probe(context.Background()))
	count, err = looks(t, server, n)
	require.NoError(t, err)
	assert.Zero(t, count, "the handshake has just looked")
	n.link.evictions.asked = n.link.evictions.asked.Add(-lookAgain)
	for _, want := range []int{1, 0} {
		count, err = looks(t, server, n)
		require.NoError(t, err)
		assert.Equal(t, want, count)
	}
}

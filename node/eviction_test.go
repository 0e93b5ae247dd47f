package node_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// evicting starts a server that may evict locks.
func evicting(t *testing.T, policy string) *redisproc.Server {
	t.Helper()
	server := start(t, redisproc.WithArgs("--maxmemory-policy", policy))
	server.Config("maxmemory", "100mb")
	return server
}

// The error names the policy, the limit, and each of the three ways out.
func TestEvictingServerIsRefused(t *testing.T) {
	server := evicting(t, "volatile-lru")
	n := open(t, server.Addr())
	r := do(n, acquire("o1", "a"))[0]
	assert.True(t, r.Unsent)
	for _, err := range []error{r.Err, n.Probe(context.Background())} {
		require.ErrorIs(t, err, node.ErrMisconfigured)
		var nodeErr *node.Error
		require.ErrorAs(t, err, &nodeErr)
		assert.True(t, nodeErr.Permanent())
		for _, part := range []string{
			"maxmemory-policy is volatile-lru", "maxmemory is 104857600 bytes",
			"set maxmemory-policy to noeviction", "maxmemory to 0", "AllowEviction",
		} {
			require.ErrorContains(t, err, part)
		}
	}
	assert.Empty(t, held(server))
}

// allowing makes a node that may be on a server that evicts keys.
func allowing(t *testing.T, server *redisproc.Server) serverNode {
	t.Helper()
	n, err := node.New(node.Options{Addresses: []string{server.Addr()}, ConnectTimeout: patience, Timeout: patience, AllowEviction: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = n.Close() })
	return n.(serverNode)
}

func TestAllowEviction(t *testing.T) {
	server := evicting(t, "volatile-lru")
	n := allowing(t, server)
	assert.Empty(t, n.Eviction(), "the node has not connected")
	want(t, wire.Granted, n, acquire("o1", "a"))
	assert.Equal(t, "maxmemory-policy is volatile-lru and maxmemory is 104857600 bytes", n.Eviction())
	want(t, wire.Released, n, release("o1", "a"))

	server.Config("maxmemory-policy", "noeviction")
	command(t, server, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	want(t, wire.Granted, n, acquire("o2", "a"))
	assert.Empty(t, n.Eviction(), "after the reconnect")
}

// AllowEviction allows nothing else.
func TestAllowEvictionOfAReplica(t *testing.T) {
	master := start(t)
	replica := evicting(t, "volatile-lru")
	host, port, err := net.SplitHostPort(master.Addr())
	require.NoError(t, err)
	command(t, replica, "REPLICAOF", host, port)
	fails(t, node.ErrRejected, allowing(t, replica), acquire("o1", "a"))
}

// An evicted lock is free for the next owner, and the node cannot know: this is what AllowEviction gives up. The token
// of the next owner is larger, since a policy for keys with a TTL does not evict the fences.
func TestEvictedLockIsForgotten(t *testing.T) {
	server := start(t, redisproc.WithArgs("--maxmemory-policy", "volatile-random"))
	n := allowing(t, server)
	first := with(now()+uint64(limits.MaxClockSkew.Microseconds()/2), acquire("o1", "a"))
	want(t, wire.Granted, n, first)
	require.Equal(t, []string{"a"}, held(server))

	server.Config("maxmemory", "1")
	_, _ = server.Command("SET", "filler", "x") // it is refused, after everything that can be evicted has gone
	server.Config("maxmemory", "0")
	require.Empty(t, held(server), "the server has evicted the lock")
	require.Equal(t, "1", command(t, server, "EXISTS", wire.MarkerKey("")), "the marker has no TTL")

	second := want(t, wire.Granted, n, acquire("o2", "a"))
	assert.Equal(t, first.Token, second.Token, "the second owner needs a larger token")
	want(t, wire.Denied, n, renew("o1", "a")) // the first holder learns of its loss
}

// A node does not notice that the fences alone are lost: it takes a token below one that it has granted. A lock that is
// held keeps its owner. See A5 in docs/guarantees.md.
func TestLossOfTheFencesAloneIsNotNoticed(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	token := now()
	want(t, wire.Granted, n, with(token, acquire("o1", "a")))
	want(t, wire.Released, n, release("o1", "a"))
	want(t, wire.Granted, n, with(token, acquire("o2", "b")))

	command(t, server, "DEL", "quorumlock:fences")
	earlier := with(token-uint64(time.Second.Microseconds()), acquire("o3", "a"))
	assert.Zero(t, want(t, wire.Granted, n, earlier).Token, "no larger token is known")
	want(t, wire.Denied, n, acquire("o4", "b"))
}

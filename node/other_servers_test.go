package node_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/inbox"
	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/rights"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// unfit requires that the node refuses its server for good, before it runs anything there.
func unfit(t *testing.T, server *redisproc.Server, parts ...string) {
	t.Helper()
	n := open(t, server.Addr())
	for range 2 {
		r := do(n, acquire("o1", "a"))[0]
		require.ErrorIs(t, r.Err, node.ErrMisconfigured)
		assert.True(t, r.Unsent)
		err := n.Probe(context.Background())
		var nodeErr *node.Error
		require.ErrorAs(t, err, &nodeErr)
		assert.True(t, nodeErr.Permanent())
		for _, part := range parts {
			require.ErrorContains(t, err, part)
		}
	}
	assert.Empty(t, server.Keys())
}

// Before 6.2.7, scripts ignore min-replicas-to-write: behind Sentinel, a master that is cut off would go on.
func TestOldServerIsRefused(t *testing.T) {
	server := redisproc.Start(t, redisproc.WithProgram(redisproc.Fetched(t, redisproc.TooOld)))
	unfit(t, server, "Redis 6.2.5", "6.2.7")
}

// A server of a cluster has only some of the slots, or none, and they move.
func TestClusterIsRefused(t *testing.T) {
	cluster := redisproc.WithArgs("--cluster-enabled", "yes")
	unfit(t, redisproc.Start(t, cluster), "give the address a tag")
	onNewest(t, func(t *testing.T, program redisproc.Option) {
		unfit(t, redisproc.Start(t, program, cluster), "give the address a tag")
	})
}

// onNewest runs a test on the newest Redis and on the newest Valkey.
func onNewest(t *testing.T, test func(t *testing.T, program redisproc.Option)) {
	t.Helper()
	for _, server := range []string{redisproc.NewestRedis, redisproc.NewestValkey} {
		t.Run(server, func(t *testing.T) { test(t, redisproc.WithProgram(redisproc.Fetched(t, server))) })
	}
}

// Each version has its own words for a right that is missing within a script.
func TestMissingRightOnNewestServers(t *testing.T) {
	onNewest(t, func(t *testing.T, program redisproc.Option) {
		server := start(t, program)
		for without, also := range map[string]string{"+hset": "", "~lock:*": "", "~quorumlock:*": "~quorumlock:node"} {
			n := asUser(t, server, strings.Replace(minimalACL, without, also, 1))
			err := failure(t, node.ErrAuth, n, acquire("o1", "lock:a"))
			assert.True(t, err.Permanent(), "without %s", without)
		}
	})
}

// A command that the server does not know, within a script, stays unknown.
func TestMissingCommandOnNewestServers(t *testing.T) {
	onNewest(t, func(t *testing.T, program redisproc.Option) {
		server := start(t, program, redisproc.WithArgs("--rename-command", "PEXPIRE", ""))
		err := failure(t, node.ErrMisconfigured, open(t, server.Addr()), acquire("o1", "a"))
		assert.True(t, err.Permanent())
	})
}

// Redis from 7.2 on does not answer a wrong password if a reply waits in its buffer.
func TestWrongPasswordOnNewestServers(t *testing.T) {
	onNewest(t, func(t *testing.T, program redisproc.Option) {
		server := redisproc.Start(t, program, redisproc.WithPassword("secret"))
		for _, address := range []string{"redis://:wr0ng@" + server.Addr(), "redis://:wr0ng@" + server.Addr() + "?protocol=2"} {
			n := open(t, address)
			fails(t, node.ErrAuth, n, acquire("o1", "a"))
			_, err := inbox.Listen(t.Context(), n, "c", false, func(wire.Message) {})
			require.ErrorIs(t, err, node.ErrAuth)
		}
	})
}

// With this setting, a server before 7.0 runs no script that asks for the time and writes.
func TestOldReplicationOfScriptsIsRefused(t *testing.T) {
	server := redisproc.Start(t, redisproc.WithProgram(redisproc.Fetched(t, redisproc.Oldest)),
		redisproc.WithArgs("--lua-replicate-commands", "no"))
	err := failure(t, node.ErrMisconfigured, open(t, server.Addr()), acquire("o1", "a"))
	assert.True(t, err.Permanent())
}

// The error of a user without INFO names that command. A right that the user lacks hides the identity from this user only, so
// AllowUnseenLosses does not help.
func TestDeniedInfoIsNamed(t *testing.T) {
	server := start(t)
	n := asUser(t, server, strings.Replace(minimalACL, "+info", "", 1))
	for _, n := range []serverNode{n, accepting(t, "redis://u:secret@"+server.Addr())} {
		require.ErrorContains(t, failure(t, node.ErrAuth, n, acquire("o1", "lock:a")), "'info'")
	}
}

// Another database than 0 needs one right more.
func TestRightsForAnotherDatabase(t *testing.T) {
	server := start(t)
	address := "redis://locker:secret@" + server.Addr() + "/3"
	_, err := server.Command(strings.Fields(rights.SetUser("locker", "secret", "lock:*"))...)
	require.NoError(t, err)
	fails(t, node.ErrAuth, open(t, address), acquire("o1", "lock:a"))
	command(t, server, append([]string{"ACL", "SETUSER", "locker"}, rights.Database().Rules...)...)
	for i, r := range everything(open(t, address)) {
		require.NoError(t, r.Err, "operation %d", i)
	}
}

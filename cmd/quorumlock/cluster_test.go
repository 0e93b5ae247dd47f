//go:build unix

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// A command holds its lock through a failover of the shard and a move of the slot. No other command runs meanwhile.
func TestRunOnACluster(t *testing.T) {
	t.Parallel()
	c := redisproc.StartCluster(t, redisproc.WithPatience())
	addresses := c.Addresses()
	nodes := "redis://" + addresses[0] + "?addr=" + strings.Join(addresses[1:], "&addr=") + "&tag=ql"
	// The TTL is longer than a failover that a busy machine breaks off: it holds up writes for 10 s.
	with := func(command string, args ...string) []string {
		return append([]string{command, "--nodes", nodes, "--max-ttl", "30s", "--max-clock-skew", "2s"}, args...)
	}
	marker := wire.MarkerKey("ql")
	r := call(t, with("init")...)
	require.Zero(t, r.code, r.stderr)
	assert.Contains(t, r.stdout, "{ql}@")

	run := func(text string, flags ...string) []string {
		return append(with("run", append(flags, "--key", "k", "--ttl", "30s", "--node-timeout", "1s")...), "--", "sh", "-c", text)
	}
	p := begin(t, run("echo ready; read x; echo done")...)
	require.Equal(t, "ready", p.line())
	moved := func(owner *redisproc.Server) {
		t.Helper()
		require.Eventually(t, func() bool {
			identity, err := owner.Command("HGET", marker, "identity")
			return err == nil && identity == owner.ReplicationID()
		}, patience, 5*time.Millisecond, "the holder renews at the new owner")
		r := call(t, run("echo ran", "--wait", "0s")...)
		assert.NotZero(t, r.code)
		assert.Empty(t, r.stdout)
	}
	moved(c.Failover(marker))
	c.AwaitHealthy()
	other := c.OtherMaster(marker)
	c.Move(marker, other, nil)
	moved(other)

	r = call(t, with("status", "k")...)
	assert.Contains(t, r.stdout, "k")
	assert.NotContains(t, r.stdout, "{ql}:k", "names are shown as they are given")
	c.Owner(marker).Config("cluster-node-timeout", "2000")
	r = call(t, with("doctor")...)
	assert.NotContains(t, r.stdout, "cluster-enabled no")
	assert.NotContains(t, r.stdout, "cluster-node-timeout", "2 s are not too long for this MaxClockSkew")
	r = call(t, "doctor", "--nodes", nodes, "--max-ttl", "30s", "--max-clock-skew", "1s")
	assert.Contains(t, r.stdout, "cluster-node-timeout is 2s, and MaxClockSkew is 1s")

	p.reply()
	assert.Equal(t, "done", p.line())
	assert.Zero(t, p.exit(), p.stderr.String())
}

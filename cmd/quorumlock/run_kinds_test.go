//go:build unix

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
)

// TestRunUnderPermits: at most P commands run at once, each with permits of its own.
func TestRunUnderPermits(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3)
	servers.open(t)
	flags := []string{"run", "--nodes", servers.nodes(), "--key", "k", "--of", "3"}
	running := append(flags, "--permits", "2", "--", "sh", "-c", `echo "$QUORUMLOCK_PERMITS"; read x`)
	p := begin(t, running...)
	permits := strings.Fields(p.line())
	require.Len(t, permits, 2)

	r := call(t, append(flags, "--wait", "0s", "--", "sh", "-c", `echo "$QUORUMLOCK_PERMITS"`)...)
	require.Zero(t, r.code, r.stderr)
	assert.NotContains(t, permits, strings.TrimSpace(r.stdout))
	r = call(t, append(flags, "--wait", "0s", "--permits", "2", "--", "true")...)
	assert.Equal(t, exitHeld, r.code, r.stderr)
	r = call(t, "status", "k", "--nodes", servers.nodes())
	assert.Contains(t, r.stdout, "semaphore \"k\": 2 permits held")
	p.reply()
	assert.Zero(t, p.exit(), p.stderr.String())
}

// TestRunAsReader: readers run at once, and exclude writers.
func TestRunAsReader(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3)
	servers.open(t)
	p := begin(t, "run", "--nodes", servers.nodes(), "--key", "k", "--read", "--", "sh", "-c", "echo reads; read x")
	require.Equal(t, "reads", p.line())
	r := call(t, "run", "--nodes", servers.nodes(), "--key", "k", "--read", "--wait", "0s", "--", "echo", "too")
	assert.Zero(t, r.code, r.stderr)
	assert.Equal(t, "too\n", r.stdout)
	r = call(t, "run", "--nodes", servers.nodes(), "--key", "k", "--wait", "0s", "--", "echo", "too")
	assert.Equal(t, exitHeld, r.code, r.stderr)
	p.reply()
	assert.Zero(t, p.exit(), p.stderr.String())
}

// TestRunMajorityOfSeveralKeys: several keys need a majority only, and are taken all or none. The command is stopped in
// time when they are about to be lost.
func TestRunMajorityOfSeveralKeys(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3)
	servers.open(t, quick)
	flags := append([]string{"run", "--nodes", servers.nodes(), "--majority", "--key", "j", "--key", "k"}, quickly...)
	servers[2].Kill()
	p := begin(t, append(flags, "--", "sh", "-c", `echo "$QUORUMLOCK_TOKEN"; echo "$QUORUMLOCK_OWNER"; while :; do sleep 0.05; done`)...)
	assert.Regexp(t, `^\d{16}$`, p.line())
	owner := p.line()
	for _, key := range []string{"j", "k"} {
		r := call(t, append([]string{"run", "--nodes", servers.nodes(), "--key", key, "--wait", "0s"}, append(quickly, "--", "true")...)...)
		assert.Equal(t, exitHeld, r.code, r.stderr)
	}
	for _, s := range servers[:2] {
		assert.Equal(t, []string{"j", "k"}, lockKeys(s), owner)
	}
	servers[1].Kill()
	assert.Equal(t, exitLost, p.exit(), p.stderr.String())
	assert.Contains(t, p.stderr.String(), fmt.Sprintf("the lease of %q cannot be kept", []string{"j", "k"}))
}

// TestKindsWithTheRightsOfPrograms: a user with the rights of programs may look at everything of its names, and take it
// from a holder.
func TestKindsWithTheRightsOfPrograms(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3)
	servers.open(t)
	lease, err := servers.client(t).Semaphore("job:s", 2).Acquire(t.Context(), 2)
	require.NoError(t, err)
	requireKey(t, servers, node.SlotName(node.PoolName("job:s"), 0))
	requireKey(t, servers, node.SlotName(node.PoolName("job:s"), 1))
	latch := servers.client(t).Latch("job:s")
	require.NoError(t, latch.Set(t.Context(), 2))
	require.NoError(t, latch.CountDown(t.Context(), "one"))
	nodes := servers.as(t)

	servers[0].Kill()
	r := call(t, "status", "job:s", "--nodes", nodes)
	require.Zero(t, r.code, r.stderr)
	assert.Contains(t, r.stdout, "  unreachable: dial", "a node that does not answer is shown, though no lock is held")
	assert.Contains(t, r.stdout, "semaphore \"job:s\": 2 permits held")
	assert.Contains(t, r.stdout, "latch \"job:s\": 1 of 2 have counted down\n")
	r = call(t, "release", "--force", "job:s", "--permit", "1", "--nodes", nodes)
	require.Zero(t, r.code, r.stderr)
	assert.Contains(t, r.stdout, "permits 0 and 1 of the semaphore \"job:s\": taken from "+quorumlock.DescribeOwner(lease.Owner())+" on 2 of 3 nodes\n")
	assert.Contains(t, r.stdout, servers[0].Addr()+": not removed: unreachable")
	ended(t, lease)

	servers[1].Kill()
	r = call(t, "release", "--force", "job:s", "--permit", "1", "--nodes", nodes)
	assert.NotZero(t, r.code)
	r = call(t, "status", "job:s", "--nodes", nodes)
	assert.Equal(t, exitNoQuorum, r.code)
}

//go:build unix

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/cmd/internal/exit"
	"github.com/quorumlock/quorumlock/cmd/internal/report"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// status returns what status prints about names.
func (f fleet) status(t *testing.T, code int, names string, leases ...*quorumlock.Lease) string {
	t.Helper()
	r := f.call(t, "status "+names)
	require.Equal(t, code, r.code, r.stderr)
	require.Empty(t, r.stderr)
	return f.plainly(r.stdout, leases...)
}

func fields(object map[string]any) []string { return slices.Collect(maps.Keys(object)) }

func TestStatus(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	lease := servers.hold(t)
	for i, s := range servers[:3] {
		_, err := s.Command("HSET", "j<>", fmt.Sprint("somebody", i), "1")
		require.NoError(t, err)
	}
	servers[:1].command(t, "HSET", "nearly-free", "somebody", "1")

	assert.Equal(t, `NODE HOLDER LARGEST TOKEN TTL LEFT LATENCY NOTE
n1 A TOKEN T T -
n2 A TOKEN T T -
n3 A TOKEN T T -
n4 A TOKEN T T -
n5 A TOKEN T T -
"k" is held by A on 5 of 5 nodes (3 needed), for T so far

NODE HOLDER LARGEST TOKEN TTL LEFT LATENCY NOTE
n1 somebody0 - never expires T -
n2 somebody1 - never expires T -
n3 somebody2 - never expires T -
n4 - - - T -
n5 - - - T -
"j<>" is taken on 3 of 5 nodes, but no owner has the 3 needed; an acquire or a release may be in flight: ask again; `+
		`on 3 nodes it never expires: not written by quorumlock

NODE HOLDER LARGEST TOKEN TTL LEFT LATENCY NOTE
n1 somebody - never expires T -
n2 - - - T -
n3 - - - T -
n4 - - - T -
n5 - - - T -
"nearly-free" is free: 5 of 5 nodes answered (3 needed); it is taken on 1 node only, which is too few to hold it; `+
		`on 1 node it never expires: not written by quorumlock
`, servers.status(t, exit.OK, "k j<> nearly-free", lease))

	servers[0].Kill()
	servers[1].Pause()
	said := servers.status(t, exit.OK, "k", lease)
	assert.Contains(t, said, `"k" is held by A on 3 of 5 nodes (3 needed)`)
	assert.Contains(t, said, "n1 - - - - unreachable")
	assert.Contains(t, said, "n2 - - - - timeout")

	servers[2].Kill()
	said = servers.status(t, exit.NoQuorum, "k", lease)
	assert.Contains(t, said, `"k": no quorum: 2 of 5 nodes answered (3 needed)`)
	assert.Contains(t, said, "\nn4 A ", "known facts are shown in any case")
}

func TestStatusOfNodesThatRecover(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3)
	for _, flags := range []string{"", " --node-timeout 1m"} {
		said := servers.status(t, exit.OK, "k"+flags)
		assert.Equal(t, 3, strings.Count(said, " recovers for T from the first attempt at a lock on\n"), said)
		assert.Contains(t, said, `"k" cannot be acquired now, as 3 of 3 nodes recover (2 needed): enough give new locks T after the first attempt at a lock`)
	}

	// The holder does not renew, so a lost lock is not healed.
	servers.open(t)
	servers[1:].command(t, "HSET", "k", "somebody", "1")
	servers[:1].command(t, "FLUSHALL")
	r := servers.call(t, "run --key k --wait 0s echo")
	assert.Equal(t, exit.Held, r.code, r.stderr)
	said := servers.status(t, exit.OK, "k")
	assert.Contains(t, said, `"k" is held by somebody on 2 of 3 nodes (2 needed); on 2 nodes it never expires: not written by quorumlock; no new locks from 1 node until recovered`)
	assert.Contains(t, said, "\nn1 - - - T recovers for another T\n")

	servers[1:2].command(t, "FLUSHALL")
	r = servers.call(t, "release --force k")
	assert.Zero(t, r.code, r.stderr)
	said = servers.plainly(r.stdout + r.stderr)
	assert.Contains(t, said, "n1: nothing there; the node recovers for another T\nn2: nothing there; the node recovers for T from the first attempt at a lock on\n")
	assert.Contains(t, said, `and others can have "k" in T, when enough nodes have recovered`)
}

// TestOddKeys: a key of another type is not blamed on nodes, and no TTL ends it. The text of a server cannot control the
// terminal.
func TestOddKeys(t *testing.T) {
	t.Parallel()
	servers := openFleet(t, 3)
	servers[:2].command(t, "SET", "str", "x")
	said := servers.status(t, exit.OK, "str")
	assert.Contains(t, said, `"str" cannot be locked: on 2 of 3 nodes a key of another type has this name; give the lock another name, or delete the key`)
	assert.Equal(t, 2, strings.Count(said, " a key of another type has this name\n"), said)
	r := servers.call(t, "release --force str")
	assert.Equal(t, exit.NoQuorum, r.code)
	assert.Contains(t, servers.plainly(r.stdout), "n1: not removed: a key of another type has this name\n")
	assert.NotContains(t, r.stdout, "not held")
	assert.Equal(t, `quorumlock: nothing was done about a key of another type, which is no lock, at "str" on 2 of 3 nodes: `+report.AnotherName+"\n", r.stderr)
	servers[:2].requireLocks(t, "str")

	servers.command(t, "HSET", "k", "\x1b[2Jx\ny", "1")
	for _, line := range []string{"status k", "run --key k --wait 0s echo", "release --force k"} {
		r := servers.call(t, line)
		assert.NotContains(t, r.stdout+r.stderr, "\x1b")
		assert.NotContains(t, r.stdout+r.stderr, "\ny")
		assert.Contains(t, r.stdout+r.stderr, ` "\x1b[2Jx\ny"`)
	}
}

// TestKindsWithTheRightsOfPrograms: a user with the rights of programs may look at everything of its names, and take it
// from a holder.
func TestKindsWithTheRightsOfPrograms(t *testing.T) {
	t.Parallel()
	servers := openFleet(t, 3)
	lease, err := servers.client(t).Semaphore("job:s", 2).Acquire(t.Context(), 2)
	servers.held(t, lease, err, wire.SlotName(wire.PoolName("job:s"), 0))
	servers.requireKey(t, wire.SlotName(wire.PoolName("job:s"), 1))
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
	r = call(t, "release", "--force", "job:s", "--owner", idOf(lease), "--nodes", nodes)
	require.Zero(t, r.code, r.stderr)
	assert.Contains(t, servers.plainly(r.stdout, lease), "permits 0 and 1 of the semaphore \"job:s\": taken from A on 2 of 3 nodes\n")
	assert.Contains(t, servers.plainly(r.stdout), "n1: not removed: unreachable")
	ended(t, lease)

	servers[1].Kill()
	assert.NotZero(t, call(t, "release", "--force", "job:s", "--owner", idOf(lease), "--nodes", nodes).code)
	assert.Equal(t, exit.NoQuorum, call(t, "status", "job:s", "--nodes", nodes).code)
}

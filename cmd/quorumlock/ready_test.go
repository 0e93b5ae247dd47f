package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestReady: enough nodes must give locks to programs with these limits.
func TestReady(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3)
	ready := func(flags ...string) result {
		return call(t, append([]string{"ready", "--nodes", servers.nodes(), "--max-ttl", "500ms", "--max-clock-skew", "100ms"}, flags...)...)
	}
	r := ready()
	assert.Equal(t, exitNoQuorum, r.code)
	assert.Equal(t, 3, strings.Count(r.stdout, ": recovering for another "), r.stdout)
	assert.Equal(t, "quorumlock: not ready: 0 of 3 nodes give locks (2 needed)\n", r.stderr)
	began := time.Now()
	r = ready("--multi", "--wait", patience.String())
	require.Zero(t, r.code, r.stderr)
	assert.Equal(t, "3 of 3 nodes give locks (3 needed)\n", r.stdout, "the question began the recovery")
	assert.Less(t, time.Since(began), patience)

	servers[0].Kill()
	r = ready()
	assert.Zero(t, r.code, r.stderr)
	assert.Contains(t, r.stdout, servers[0].Addr()+": failed: unreachable")
	assert.Contains(t, r.stdout, "2 of 3 nodes give locks (2 needed)\n")
	assert.Equal(t, exitNoQuorum, ready("--multi").code)
	servers[1].Kill()
	assert.Equal(t, exitNoQuorum, ready("--wait", "300ms").code)
	servers[1].Restart()
	assert.Zero(t, ready("--wait", patience.String()).code, "enough nodes have recovered")

	r = call(t, "ready", "--nodes", servers.nodes())
	assert.Equal(t, exitNoQuorum, r.code)
	assert.Contains(t, r.stdout, servers[2].Addr()+": open already, set up for --max-ttl 500ms and --max-clock-skew 100ms\n")
}

// TestLatchFromTheShell: a latch is set, counted down and awaited by separate commands.
func TestLatchFromTheShell(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3)
	servers.open(t)
	latch := func(args ...string) result {
		// Nodes are not late only because the machine is busy.
		return call(t, append(append([]string{"latch"}, args...), "--nodes", servers.nodes(), "--node-timeout", "1s")...)
	}
	r := latch("count", "l")
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.stderr, `latch not set: "l"`)
	require.Zero(t, latch("set", "l", "2").code)
	require.Zero(t, latch("set", "l", "2").code, "a latch may be set twice to one number")
	r = latch("set", "l", "3")
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.stderr, `latch "l" is set to 2`)

	done := make(chan result, 1)
	go func() { done <- callWith(t.Context(), "latch", "await", "l", "--nodes", servers.nodes()) }()
	for range 2 {
		require.Zero(t, latch("down", "l", "one").code, "an id counts once")
	}
	assert.Equal(t, "1\n", latch("count", "l").stdout)
	r = latch("await", "l", "--wait", "0s")
	assert.Equal(t, exitHeld, r.code)
	assert.Contains(t, r.stderr, "the latch is not done: 1 id left to count down")
	r = latch("await", "l", "--wait", "50ms")
	assert.Contains(t, []int{exitHeld, exitNoQuorum}, r.code, "50 ms may be too short for an answer")
	select {
	case r := <-done:
		require.Fail(t, "the latch is not done", "%+v", r)
	default:
	}
	require.Zero(t, latch("down", "l", "two").code)
	select {
	case r := <-done:
		assert.Zero(t, r.code, r.stderr)
	case <-time.After(patience):
		require.Fail(t, "the waiting command was not woken")
	}
	require.Zero(t, latch("await", "l", "--wait", "0s").code)
	require.Zero(t, latch("delete", "l").code)
	assert.Equal(t, exitFailure, latch("await", "l").code)
}

// TestCompletionOfNames: the nodes know the names of held locks and semaphores.
func TestCompletionOfNames(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3)
	servers.open(t)
	servers.permit(t)
	servers.reader(t)
	for _, args := range [][]string{{"status", "--nodes", servers.nodes(), ""}, {"run", "--nodes", servers.nodes(), "--key", ""}} {
		r := call(t, append([]string{"__complete"}, args...)...)
		assert.Equal(t, "r\ns\n:4\n", r.stdout, args)
	}
	r := call(t, "__complete", "release", "--nodes", servers.nodes(), "r", "")
	assert.Equal(t, "s\n:4\n", r.stdout, "no name twice")
}

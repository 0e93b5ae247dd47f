//go:build unix

package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/cmd/internal/exit"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// init runs init on these servers, and compares all that it prints.
func (f fleet) init(t *testing.T, code int, flags, stdout, stderr string) {
	t.Helper()
	r := f.call(t, "init "+flags)
	require.Equal(t, code, r.code, r.stderr)
	assert.Equal(t, stdout, f.plainly(r.stdout))
	assert.Equal(t, stderr, f.plainly(r.stderr))
}

// each is a line for each of three servers.
func each(said string) string {
	return fmt.Sprintf("n1: %[1]s\nn2: %[1]s\nn3: %[1]s\n", said)
}

// requireGives checks whether the servers grant a lock now.
func (f fleet) requireGives(t *testing.T, code int) {
	t.Helper()
	r := f.call(t, "run --key k --wait 0s echo ran")
	require.Equal(t, code, r.code, r.stderr)
}

func TestInit(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3)
	servers.requireGives(t, exit.NoQuorum)
	servers[2].Kill()
	r := servers.call(t, "init")
	assert.Equal(t, exit.NoQuorum, r.code)
	assert.Contains(t, servers.plainly(r.stdout), "n1: recovering for another T\nn2: recovering for another T\nn3: failed: unreachable: ")
	assert.Equal(t, "quorumlock: nothing was opened, as nodes failed: fix that, and repeat the command; or wait: nodes that recover open by themselves\n", servers.plainly(r.stderr))
	servers.requireGives(t, exit.NoQuorum)

	servers[2].Restart()
	servers.init(t, exit.OK, "", each("opened")+"all 3 nodes are open\n", "")
	servers.requireGives(t, exit.OK)
	servers.init(t, exit.OK, "", each("open already")+"all 3 nodes are open\n", "")
	servers.requireGives(t, exit.OK)

	servers[1].Restart()
	servers.init(t, exit.NoQuorum, "", "n1: open already\nn2: recovering for another T\nn3: open already\n",
		"quorumlock: nothing was opened, as not all nodes are new: those that recover may have forgotten locks that are still held. Wait: all nodes open by themselves in T\n")
	servers.requireGives(t, exit.OK)

	// It waits for a hanging server, but no longer than its timeout.
	servers[0].Pause()
	began := time.Now()
	r = servers.call(t, "init --node-timeout 1500ms")
	assert.GreaterOrEqual(t, time.Since(began), 1500*time.Millisecond)
	assert.Equal(t, exit.NoQuorum, r.code)
	assert.Contains(t, servers.plainly(r.stdout), "n1: failed: timeout")
}

// TestInitIsOvertaken tests only the messages, because changes during init are hard to cause.
func TestInitIsOvertaken(t *testing.T) {
	state := func(name string, s admin.State, err error) admin.NodeReport {
		return admin.NodeReport{Node: name, State: s, Err: err}
	}
	nodes := []admin.NodeReport{
		state("a", admin.Opened, nil),
		state("b", admin.Failed, admin.ErrChanged),
		state("c", admin.Failed, &node.Error{Node: "c", Op: wire.Open.String(), Reason: node.ErrRejected, Err: errors.New("\x1b[2J")}),
	}
	for k, want := range []string{"opened", "failed: the node lost its memory, or another client opened it, in the meantime", `failed: rejected: \x1b[2J`} {
		assert.Equal(t, want, became(nodes[k]))
	}
}

// TestReady: enough nodes must give locks.
func TestReady(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3)
	ready := func(code int, flags string) string {
		t.Helper()
		r := servers.call(t, "ready --max-ttl 500ms --max-clock-skew 100ms "+flags)
		require.Equal(t, code, r.code, r.stderr)
		return servers.plainly(r.stdout + r.stderr)
	}
	assert.Equal(t, each("recovering for another T")+"quorumlock: not ready: 0 of 3 nodes give locks (2 needed)\n", ready(exit.NoQuorum, ""))
	assert.Equal(t, "3 of 3 nodes give locks (3 needed)\n", ready(exit.OK, "--multi --wait 20s"), "the question began the recovery")

	servers[0].Kill()
	said := ready(exit.OK, "")
	assert.Contains(t, said, "n1: failed: unreachable")
	assert.Contains(t, said, "2 of 3 nodes give locks (2 needed)\n")
	ready(exit.NoQuorum, "--multi")
	servers[1].Kill()
	ready(exit.NoQuorum, "--wait 300ms")
	servers[1].Restart()
	ready(exit.OK, "--wait 20s") // enough nodes have recovered

	r := servers.call(t, "ready --recovery 30s")
	assert.Equal(t, exit.NoQuorum, r.code)
	assert.Contains(t, servers.plainly(r.stdout), "n3: recovering for another T", "a program that recovers for longer must wait")
}

// TestLatchFromTheShell: a latch is set, counted down and awaited by separate commands.
func TestLatchFromTheShell(t *testing.T) {
	t.Parallel()
	servers := openFleet(t, 3)
	latch := func(code int, line string) string {
		t.Helper()
		// Nodes are not late only because the machine is busy.
		r := call(t, append([]string{"latch"}, strings.Fields(line+" --node-timeout 1s --nodes "+servers.nodes())...)...)
		require.Equal(t, code, r.code, r.stderr)
		return r.stdout + r.stderr
	}
	assert.Contains(t, latch(exit.Failure, "count l"), `latch not set: "l"`)
	latch(exit.OK, "set l 2")
	latch(exit.OK, "set l 2") // it may be set twice to one number
	assert.Contains(t, latch(exit.Failure, "set l 3"), `latch "l" is set to 2`)

	done := make(chan result, 1)
	go func() { done <- callWith(t.Context(), "latch", "await", "l", "--nodes", servers.nodes()) }()
	latch(exit.OK, "down l one")
	latch(exit.OK, "down l one") // an id counts once
	assert.Equal(t, "1\n", latch(exit.OK, "count l"))
	assert.Contains(t, latch(exit.Held, "await l --wait 0s"), "the latch is not done: 1 id left to count down")
	select {
	case r := <-done:
		require.Fail(t, "the latch is not done", "%+v", r)
	default:
	}
	latch(exit.OK, "down l two")
	select {
	case r := <-done:
		assert.Zero(t, r.code, r.stderr)
	case <-time.After(patience):
		require.Fail(t, "the waiting command was not woken")
	}
	latch(exit.OK, "await l --wait 0s")
	latch(exit.OK, "delete l")
	latch(exit.Failure, "await l")
}

// TestLatchDeadlineBeforeAnyAnswer: only an await ends since the latch is not done. The other commands had no answer of
// enough nodes.
func TestLatchDeadlineBeforeAnyAnswer(t *testing.T) {
	for args, code := range map[string]int{
		"set l 3": exit.NoQuorum, "down l one": exit.NoQuorum, "count l": exit.NoQuorum, "delete l": exit.NoQuorum, "await l": exit.Held,
	} {
		r := call(t, strings.Fields("latch "+args+" --wait 1ns --embedded 3")...)
		assert.Equal(t, code, r.code, "%s: %s", args, r.stderr)
		assert.Contains(t, r.stderr, "--wait 1ns")
		assert.Equal(t, args == "await l", strings.Contains(r.stderr, "not done"), "%s: %s", args, r.stderr)
	}
}

//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/cmd/internal/exit"
)

// waitForLog waits until a process has logged something.
func waitForLog(t *testing.T, p *process, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(p.stderr.String(), text) }, patience, 5*time.Millisecond)
}

// TestWaiting: the user is told once why the command waits. A signal ends the waiting, and leaves nothing behind.
func TestWaiting(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	lease := servers.hold(t)
	p := begin(t, servers.on("echo ran")...)
	waitForLog(t, p, "quorumlock: waiting: held by "+quorumlock.DescribeOwner(lease.Owner())+" for another ")
	for sig, code := range map[syscall.Signal]int{
		syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129, syscall.SIGQUIT: 131,
	} {
		p := begin(t, servers.on("echo ran", "-v")...)
		waitForLog(t, p, "attempt failed")
		p.signal(syscall.SIGUSR1) // means something to the command only
		p.signal(sig)
		assert.Equal(t, code, p.exit())
		assert.Contains(t, p.stderr.String(), fmt.Sprintf("%v while waiting for the lock", sig))
	}
	for _, s := range servers {
		holder, err := s.Command("HKEYS", "k")
		require.NoError(t, err)
		assert.Equal(t, lease.Owner(), holder)
	}
	require.NoError(t, lease.Release(t.Context()))
	assert.Equal(t, "ran", p.line())
	assert.Zero(t, p.exit())
	assert.Equal(t, 1, strings.Count(p.stderr.String(), "\n"), "the user is told once: %s", p.stderr.String())
	servers.requireLocks(t) // the first holder was told when a majority had confirmed

	for _, s := range servers[:3] {
		s.Kill()
	}
	p = begin(t, servers.on("echo ran")...)
	waitForLog(t, p, "quorumlock: waiting: no quorum: ")
	p.signal(syscall.SIGTERM)
	assert.Equal(t, 143, p.exit())
}

// TestRunWaitsThroughARecovery: these servers are not open.
func TestRunWaitsThroughARecovery(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3)
	began := time.Now()
	p := begin(t, servers.on("echo ran", quickly...)...)
	assert.Equal(t, "ran", p.line())
	assert.GreaterOrEqual(t, time.Since(began), quick.Recovery())
	assert.Zero(t, p.exit())
	text := p.stderr.String()
	assert.Regexp(t, `(?m)^quorumlock: waiting: no quorum: .*127\.0\.0\.1:\d+: acquire: recovering: for another [\d.]+m?s`, text)
	assert.Equal(t, 1, strings.Count(text, "\nquorumlock: a node that is new, or has restarted, may have forgotten locks that are still held"), text)

	// Two reasons to wait, one after the other.
	servers.command(t, "HSET", "k", "somebody", "1")
	p = begin(t, servers.on("echo ran", quickly...)...)
	waitForLog(t, p, "quorumlock: waiting: held by somebody, without expiry\n")
	servers.command(t, "FLUSHALL")
	waitForLog(t, p, ": acquire: recovering: for another ")
	assert.Equal(t, "ran", p.line())
	assert.Zero(t, p.exit())
	assert.Equal(t, 1, strings.Count(p.stderr.String(), "waiting: held by"), p.stderr.String())
}

func TestRunDoesNotWaitForARecovery(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3)
	for _, wait := range []string{"0s", "500ms"} {
		r := call(t, servers.on("echo ran", "--wait", wait)...)
		assert.Equal(t, exit.NoQuorum, r.code)
		assert.Empty(t, r.stdout)
		assert.Contains(t, r.stderr, ": acquire: recovering: for another ")
		assert.Equal(t, 1, strings.Count(r.stderr, "'quorumlock init'"), "the user is told once: %s", r.stderr)
	}
}

// TestSignalBesideTheLeaseFreesTheLock: a lease that comes together with a signal runs no command, so --min-hold must not
// keep others from doing the job.
func TestSignalBesideTheLeaseFreesTheLock(t *testing.T) {
	cfg := quorumlock.Config{Nodes: memoryNodes(3)}
	_, err := admin.Init(t.Context(), cfg)
	require.NoError(t, err)
	client, err := quorumlock.New(cfg)
	require.NoError(t, err)
	defer client.Close(t.Context())
	f := runFlags{keys: []string{"k"}, minHold: 5 * time.Second}
	h := &holder{app: &app{stderr: &output{w: io.Discard}}, flags: f, locks: f.locks(client)}
	got := h.take(t.Context())
	require.NoError(t, got.err)
	var ended os.Signal = syscall.SIGTERM
	_, err = h.settle(t.Context(), got, ended)
	assert.Equal(t, 143, exit.Code(err))
	next, err := h.locks.TryAcquire(t.Context())
	require.NoError(t, err)
	next.Leases()[0].WaiveMinHold()
	require.NoError(t, next.Release(t.Context()))
}

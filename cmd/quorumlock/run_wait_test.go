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
)

func TestRunWaitsForTheLock(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	lease := servers.hold(t)
	p := begin(t, servers.on("echo ran", "-v")...)
	waitForLog(t, p, "no lock yet")
	require.NoError(t, lease.Release(t.Context()))
	assert.Equal(t, "ran", p.line())
	assert.Zero(t, p.exit())
	requireCleanSoon(t, servers) // the first holder was told when a majority had confirmed
}

func TestSignalsEndTheWaiting(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	lease := servers.hold(t)
	requireEverywhere(t, servers)
	for sig, code := range map[syscall.Signal]int{
		syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129, syscall.SIGQUIT: 131,
	} {
		p := begin(t, servers.on("echo ran", "-v")...)
		waitForLog(t, p, "no lock yet")
		p.signal(syscall.SIGUSR1) // means something to the command only
		p.signal(sig)
		assert.Equal(t, code, p.exit())
		assert.Contains(t, p.stderr.String(), fmt.Sprintf("%v while waiting for the lock", sig))
	}
	for _, s := range servers {
		holder, err := s.Command("HKEYS", "k")
		require.NoError(t, err)
		assert.Equal(t, lease.Owner(), holder, "the waiters that gave up left nothing behind")
	}
	require.NoError(t, lease.Release(t.Context()))
	requireCleanSoon(t, servers)
}

// waitForLog waits until a process has logged something.
func waitForLog(t *testing.T, p *process, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(p.stderr.String(), text) }, patience, 5*time.Millisecond)
}

func TestWaitingIsTold(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	lease := servers.hold(t)
	p := begin(t, servers.on("echo ran")...)
	waitForLog(t, p, "quorumlock: waiting: held by "+quorumlock.DescribeOwner(lease.Owner())+" for another ")
	require.NoError(t, lease.Release(t.Context()))
	assert.Equal(t, "ran", p.line())
	assert.Zero(t, p.exit())
	assert.Equal(t, 1, strings.Count(p.stderr.String(), "\n"), "the user is told once: %s", p.stderr.String())

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
}

// TestWaitingForAHolderAndThenForARecovery: two reasons to wait, one after the other.
func TestWaitingForAHolderAndThenForARecovery(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3)
	servers.open(t, quick)
	for _, s := range servers {
		_, err := s.Command("HSET", "k", "somebody", "1")
		require.NoError(t, err)
	}
	p := begin(t, servers.on("echo ran", quickly...)...)
	waitForLog(t, p, "quorumlock: waiting: held by somebody, without expiry\n")
	for _, s := range servers {
		_, err := s.Command("FLUSHALL")
		require.NoError(t, err)
	}
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
		assert.Equal(t, exitNoQuorum, r.code)
		assert.Empty(t, r.stdout)
		assert.Contains(t, r.stderr, ": acquire: recovering: for another ")
		assert.Equal(t, 1, strings.Count(r.stderr, "'quorumlock init'"), "the user is told once: %s", r.stderr)
	}
}

func TestRunRefusesToWaitForItself(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	self, err := os.Executable()
	require.NoError(t, err)
	run := func(key string) string { return self + " run --nodes " + servers.nodes() + " --key " + key }
	for name, inner := range map[string]string{
		"at once":      run("k") + " -- echo ran",
		"in between":   run("j") + " -- " + run("k") + " -- echo ran",
		"with a bound": run("k") + " --wait 1m -- echo ran",
	} {
		p := begin(t, servers.on(inner+"; echo $?")...)
		assert.Equal(t, "125", p.line(), name)
		assert.Zero(t, p.exit())
		assert.Contains(t, p.stderr.String(), "the quorumlock command that started this one: each would wait for the other")
		assert.NotContains(t, p.stderr.String(), "waiting:")
	}
	p := begin(t, servers.on(run("k")+" --wait 0s -- echo ran; echo $?")...)
	assert.Equal(t, "120", p.line(), "a single try waits for nothing")
	assert.Zero(t, p.exit())
	p = begin(t, servers.on(run("j")+" -- echo ran")...)
	assert.Equal(t, "ran", p.line(), "another lock is no matter")
	assert.Zero(t, p.exit())
}

func TestNodesThatComeBackEndTheWaiting(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 5)
	servers.open(t, quick)
	for _, s := range servers[:3] {
		s.Kill()
	}
	p := begin(t, servers.on("echo ran", append(quickly, "-v")...)...)
	waitForLog(t, p, "no quorum")
	for _, s := range servers[:3] {
		s.Restart()
	}
	assert.Equal(t, "ran", p.line())
	assert.Zero(t, p.exit())
	servers.requireClean(t)
}

// TestRunRefusesToWaitForItsSharedHold: a denial names neither readers nor all holders of permits.
func TestRunRefusesToWaitForItsSharedHold(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	for name, c := range map[string]struct {
		outer []string
		inner string // flags
		says  string
	}{
		"a writer below a reader":     {[]string{"--read"}, "", "125"},
		"too many permits":            {[]string{"--of", "3", "--permits", "2"}, "--of 3 --permits 2", "125"},
		"as many permits as are left": {[]string{"--of", "3", "--permits", "2"}, "--of 3 --permits 1", "ran"},
		"a reader below a reader":     {[]string{"--read"}, "--read", "ran"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := newFleet(t, 3)
			servers.open(t)
			inner := self + " run --nodes " + servers.nodes() + " --key k " + c.inner + " -- echo ran"
			p := begin(t, servers.on(inner+" || echo $?", c.outer...)...)
			assert.Equal(t, c.says, p.line(), "without an answer both wait for ever")
			assert.Zero(t, p.exit())
			if c.says == "125" {
				assert.Contains(t, p.stderr.String(), "the quorumlock command that started this one: each would wait for the other")
			}
		})
	}
}

// TestRunRefusesToWaitBehindAWriter: the writer waits for the outer reader, and the inner reader would wait for the writer.
func TestRunRefusesToWaitBehindAWriter(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3)
	servers.open(t)
	self, err := os.Executable()
	require.NoError(t, err)
	inner := self + " run --nodes " + servers.nodes() + " --key k --read -- echo ran"
	p := begin(t, servers.on("echo reads; read x; "+inner+" || echo $?", "--read")...)
	require.Equal(t, "reads", p.line())
	writer := servers.client(t)
	written := make(chan struct{})
	go func() {
		defer close(written)
		if lease, err := writer.RWLock("k").Write().Acquire(t.Context()); err == nil {
			_ = lease.Release(t.Context())
		}
	}()
	requireKey(t, servers, "quorumlock:queue:{k}")
	p.reply()
	assert.Equal(t, "125", p.line())
	assert.Zero(t, p.exit())
	<-written
}

// TestSignalBesideTheLeaseFreesTheLock: a lease that comes together with a signal runs no command, so --min-hold must not
// keep others from doing the job.
func TestSignalBesideTheLeaseFreesTheLock(t *testing.T) {
	cfg := quorumlock.Config{Nodes: memoryNodes("n", 3)}
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
	assert.Equal(t, 143, exitCode(err))
	next, err := h.locks.TryAcquire(t.Context())
	require.NoError(t, err)
	next.Leases()[0].WaiveMinHold()
	require.NoError(t, next.Release(t.Context()))
}

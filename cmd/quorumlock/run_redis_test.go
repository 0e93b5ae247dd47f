//go:build unix

package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/redisproc"
)

// on is a run of a shell script under the lock "k" on these servers.
func (f fleet) on(text string, flags ...string) []string {
	args := append([]string{"run", "--nodes", f.nodes(), "--key", "k"}, flags...)
	return append(args, "--", "sh", "-c", text)
}

func TestRunOnServers(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	p := begin(t, servers.on("echo $QUORUMLOCK_OWNER; read x; exit 6")...)
	owner := p.line()
	for _, s := range servers {
		require.Eventually(t, func() bool {
			holder, err := s.Command("HKEYS", "k")
			return err == nil && holder == owner
		}, patience, time.Millisecond, "every node has it, the slower ones a little later")
	}
	p.reply()
	assert.Equal(t, 6, p.exit())
	servers.requireClean(t)
	assert.Empty(t, p.stderr.String())
}

func TestRunMultiOnServers(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	p := begin(t, servers.on("echo ready; read x", "--key", "j", "--multi")...)
	assert.Equal(t, "ready", p.line())
	for _, s := range servers {
		assert.Equal(t, []string{"j", "k"}, lockKeys(s))
	}
	p.reply()
	assert.Zero(t, p.exit())
	servers.requireClean(t)

	servers[4].Kill()
	r := call(t, servers.on("true", "--multi", "--wait", "0s")...)
	assert.Equal(t, exitNoQuorum, r.code, "all nodes are needed")
	assert.Contains(t, r.stderr, servers[4].Addr())
	servers.requireClean(t)
}

// The wrong way round, a lock that needs all nodes would be none: with one node held by
// another, it must be refused as held.
func TestRunMultiHeldOnOneNode(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	_, err := servers[2].Command("HSET", "k", "somebody", "1")
	require.NoError(t, err)
	r := call(t, servers.on("true", "--multi", "--wait", "0s")...)
	assert.Equal(t, exitHeld, r.code)
	assert.Contains(t, r.stderr, "held by somebody, without expiry")
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3, redisproc.WithPassword("s,cret"))
	nodes := strings.Join([]string{
		"redis://:s%2Ccret@" + servers[0].Addr(),
		"unix://:s%2Ccret@" + servers[1].Socket(),
		(&url.URL{Scheme: "redis", User: url.UserPassword("default", "s,cret"), Host: servers[2].Addr()}).String(),
	}, ",")
	nodes = strings.Replace(nodes, "s,cret", "s%2Ccret", 1)
	require.Zero(t, call(t, "init", "--nodes", nodes).code)
	p := begin(t, "run", "--nodes", nodes, "--key", "k", "--", "sh", "-c", "echo ready; read x")
	assert.Equal(t, "ready", p.line())
	requireEverywhere(t, servers)
	p.reply()
	assert.Zero(t, p.exit())
	assert.NotContains(t, p.stderr.String(), "cret")
}

func TestWrongPassword(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3, redisproc.WithPassword("secret"))
	r := call(t, servers.on("true")...)
	assert.Equal(t, exitNoQuorum, r.code, "waiting for ever would not help")
	assert.Contains(t, r.stderr, "access denied")
}

func TestRunHeldByAnother(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	lease := servers.hold(t)

	for _, wait := range []string{"0s", "300ms"} {
		r := call(t, servers.on("echo ran", "--wait", wait)...)
		assert.Equal(t, exitHeld, r.code)
		assert.Contains(t, r.stderr, "held by "+quorumlock.DescribeOwner(lease.Owner()))
		assert.Empty(t, r.stdout)
	}

	// Two nodes less leave it held, and not a matter of the nodes.
	servers[1].Kill()
	servers[3].Pause()
	for _, wait := range []string{"0s", "1500ms"} {
		r := call(t, servers.on("echo ran", "--wait", wait)...)
		assert.Equal(t, exitHeld, r.code, r.stderr)
		assert.Contains(t, r.stderr, "held by "+quorumlock.DescribeOwner(lease.Owner()))
		assert.Empty(t, r.stdout)
	}
}

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
		assert.Equal(t, lease.Owner(), holder, "those who gave up left nothing behind")
	}
	require.NoError(t, lease.Release(t.Context()))
	requireCleanSoon(t, servers)
}

// waitForLog waits until a process has logged something.
func waitForLog(t *testing.T, p *process, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(p.stderr.String(), text) }, patience, 5*time.Millisecond)
}

func TestRunSurvivesTheLossOfTwoNodes(t *testing.T) {
	t.Parallel()
	t.Run("before the hold", func(t *testing.T) {
		t.Parallel()
		servers := startFleet(t)
		servers[0].Pause()
		servers[1].Kill()
		p := begin(t, servers.on("echo ready; read x", "--ttl", "2s")...)
		assert.Equal(t, "ready", p.line())
		holdFor(t, servers[2], 2)
		p.reply()
		assert.Zero(t, p.exit())
		servers[0].Resume()
		requireCleanSoon(t, servers)
	})
	t.Run("during the hold", func(t *testing.T) {
		t.Parallel()
		servers := startFleet(t)
		p := begin(t, servers.on("echo ready; read x", "--ttl", "2s")...)
		assert.Equal(t, "ready", p.line())
		servers[0].Pause()
		servers[1].Kill()
		holdFor(t, servers[2], 5) // more than a TTL: it does not live on what was there
		p.reply()
		assert.Zero(t, p.exit())
		servers[0].Resume()
		requireCleanSoon(t, servers)
	})
	t.Run("that come back", func(t *testing.T) {
		t.Parallel()
		servers := startFleet(t)
		p := begin(t, servers.on("echo ready; read x", "--ttl", "2s")...)
		assert.Equal(t, "ready", p.line())
		servers[0].Pause()
		servers[1].Kill()
		holdFor(t, servers[2], 2)
		servers[0].Resume()
		servers[1].Restart()
		holdFor(t, servers[0], 1)
		holdFor(t, servers[1], 1)
		p.reply()
		assert.Zero(t, p.exit())
		servers.requireClean(t)
	})
}

// holdFor waits until a server was asked so often to renew.
func holdFor(t *testing.T, s *redisproc.Server, renewals int) {
	t.Helper()
	ttl := func() (ms int) {
		text, err := s.Command("PTTL", "k")
		require.NoError(t, err)
		_, err = fmt.Sscan(text, &ms)
		require.NoError(t, err)
		return ms
	}
	last := ttl()
	require.Eventually(t, func() bool {
		now := ttl()
		if now > last {
			renewals--
		}
		last = now
		return renewals <= 0
	}, patience, 5*time.Millisecond)
}

// requireCleanSoon is for servers that did not answer when the lock was released, or
// were not waited for.
func requireCleanSoon(t *testing.T, servers fleet) {
	t.Helper()
	for _, s := range servers {
		if s.PID() != 0 {
			require.Eventually(t, func() bool { return len(lockKeys(s)) == 0 }, patience, 5*time.Millisecond)
		}
	}
}

func TestLossStopsTheCommand(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	// The shell has a child, and both would go on for ever.
	p := begin(t, servers.on(`trap "" TERM; sh -c 'echo $$; while :; do sleep 0.05; done' & wait`, "--ttl", "2s", "--kill-after", "300ms")...)
	child := p.line()
	lastKey := servers[2]
	for _, s := range servers[:2] {
		s.Kill()
	}
	lastKey.Pause() // hangs, but keeps its key until the TTL is over
	assert.Equal(t, exitLost, p.exit())
	lastKey.Resume()
	requireGone(t, child)
	text := p.stderr.String()
	assert.Regexp(t, `(?m)^quorumlock: the lease of "k" cannot be kept, and ends in [\d.]+m?s: no quorum: 2 of 5 nodes agreed, 3 needed`, text)
	requireHumanLines(t, text)
	assert.Contains(t, text, "SIGTERM now, SIGKILL in")
	assert.Contains(t, text, "the command has ended: signal: killed")
	requireCleanSoon(t, servers)
}

// The command is dead before the keys can be another's.
func TestLossStopsTheCommandInTime(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	alive := filepath.Join(t.TempDir(), "alive")
	p := begin(t, servers.on(`trap "" TERM; echo ready; while :; do : > "`+alive+`"; sleep 0.01; done`, "--ttl", "3s")...)
	assert.Equal(t, "ready", p.line())
	for _, s := range servers[:3] {
		s.Kill()
	}
	// The keys of the others stay until the TTL is over from their last renewal: those
	// are released when the command is dead. Two dead nodes had their last renewal
	// before this instant.
	keysGone := time.Now().Add(3 * time.Second)
	assert.Equal(t, exitLost, p.exit())
	info, err := os.Stat(alive)
	require.NoError(t, err)
	assert.True(t, info.ModTime().Before(keysGone), "it worked on until %v", info.ModTime().Sub(keysGone))
	servers.requireClean(t)
}

func TestForcedReleaseStopsTheCommand(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	p := begin(t, servers.on(`trap 'echo told; exit 3' TERM; echo ready; while :; do sleep 0.02; done`, "--ttl", "1s")...)
	assert.Equal(t, "ready", p.line())
	r := call(t, "release", "--force", "k", "--nodes", servers.nodes())
	assert.Zero(t, r.code, r.stderr)
	assert.Equal(t, "told", p.line())
	assert.Equal(t, exitLost, p.exit())
	text := p.stderr.String()
	assert.Contains(t, text, `quorumlock: lease of "k" lost: it was released by force`)
	requireHumanLines(t, text)
}

// requireHumanLines checks that a loss is told in sentences, and its reason once.
func requireHumanLines(t *testing.T, text string) {
	t.Helper()
	assert.NotContains(t, text, "level=")
	assert.LessOrEqual(t, strings.Count(text, "nodes agreed"), 1, text)
	assert.LessOrEqual(t, strings.Count(text, "it was released by force"), 1, text)
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
	assert.Equal(t, 1, strings.Count(p.stderr.String(), "\n"), "it is told once: %s", p.stderr.String())

	for _, s := range servers[:3] {
		s.Kill()
	}
	p = begin(t, servers.on("echo ran")...)
	waitForLog(t, p, "quorumlock: waiting: no quorum: ")
	p.signal(syscall.SIGTERM)
	assert.Equal(t, 143, p.exit())
}

func TestRunTellsTheToken(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	last := ""
	for range 2 {
		p := begin(t, servers.on("echo $QUORUMLOCK_TOKEN; read x")...)
		token := p.line()
		assert.Regexp(t, `^\d{16}$`, token)
		assert.Greater(t, token, last, "as text too, as long as they have one length")
		last = token
		for _, s := range servers {
			require.Eventually(t, func() bool {
				fence, err := s.Command("GET", "quorumlock:fence:{k}")
				return err == nil && fence == token
			}, patience, time.Millisecond, "every node has it, the slower ones a little later")
		}
		p.reply()
		assert.Zero(t, p.exit())
	}
}

// Nobody has opened these servers.
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

// Two reasons for waiting, one after the other.
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

func TestNoWaitingForARecovery(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3)
	for _, wait := range []string{"0s", "500ms"} {
		r := call(t, servers.on("echo ran", "--wait", wait)...)
		assert.Equal(t, exitNoQuorum, r.code)
		assert.Empty(t, r.stdout)
		assert.Contains(t, r.stderr, ": acquire: recovering: for another ")
		assert.Equal(t, 1, strings.Count(r.stderr, "'quorumlock init'"), "it is told once: %s", r.stderr)
	}
}

// A node that has lost its memory takes the lock back while it is held.
func TestRunHealsANode(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	p := begin(t, servers.on("echo ready; read x", "--ttl", "2s", "-v")...)
	assert.Equal(t, "ready", p.line())
	servers[0].Restart()
	holdFor(t, servers[0], 1)
	p.reply()
	assert.Zero(t, p.exit())
	servers.requireClean(t)
	assert.Equal(t, 1, strings.Count(p.stderr.String(), "node is new or has lost its memory"), p.stderr.String())
}

func TestRunLogsWhatBacksTheLease(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 5)
	servers.open(t, quick)
	p := begin(t, servers.on("echo ready; read x", append(quickly, "-v")...)...)
	assert.Equal(t, "ready", p.line())
	servers[0].Kill()
	waitForLog(t, p, `msg="lease backing changed" have=4 want=5 need=3`)
	servers[0].Restart()
	waitForLog(t, p, `msg="lease backing changed" have=5 want=5 need=3`)
	p.reply()
	assert.Zero(t, p.exit())
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
		assert.Contains(t, p.stderr.String(), "the quorumlock that this one runs under: it would wait for itself for ever")
		assert.NotContains(t, p.stderr.String(), "waiting:")
	}
	p := begin(t, servers.on(run("k")+" --wait 0s -- echo ran; echo $?")...)
	assert.Equal(t, "120", p.line(), "a single try waits for nothing")
	assert.Zero(t, p.exit())
	p = begin(t, servers.on(run("j")+" -- echo ran")...)
	assert.Equal(t, "ran", p.line(), "another lock is no matter")
	assert.Zero(t, p.exit())
}

func TestNoNodesNoLock(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	for _, s := range servers {
		s.Kill()
	}
	for _, wait := range []string{"0s", "1s"} {
		r := call(t, servers.on("echo ran", "--wait", wait)...)
		assert.Equal(t, exitNoQuorum, r.code)
		assert.Contains(t, r.stderr, "no quorum")
		assert.Empty(t, r.stdout)
	}
}

func TestHangingNodesNoLock(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	for _, s := range servers {
		s.Pause()
	}
	for _, wait := range []string{"50ms", "1s"} {
		r := call(t, servers.on("echo ran", "--wait", wait)...)
		assert.Equal(t, exitNoQuorum, r.code, r.stderr)
		assert.Empty(t, r.stdout)
	}
	for _, s := range servers {
		s.Resume()
	}
	requireCleanSoon(t, servers) // what they find in their buffers now runs out, or is undone
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

// When quorumlock itself is killed, the lock frees itself within its TTL, and on Linux
// the command is told.
func TestKilledQuorumlock(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	servers := startFleet(t)
	p := begin(t, servers.on(`trap 'echo told; exit 0' TERM; echo ready; while :; do sleep 0.02; done`, "--ttl", ttl.String())...)
	assert.Equal(t, "ready", p.line())
	killed := time.Now()
	require.NoError(t, p.cmd.Process.Kill())
	assert.Equal(t, -1, p.exit())
	assert.Equal(t, "told", p.line())

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	lease, err := servers.client(t).RedLock("k").Acquire(ctx)
	require.NoError(t, err)
	assert.Less(t, time.Since(killed), ttl+time.Second, "a little more than the TTL: who waits asks a few times a second")
	require.NoError(t, lease.Release(ctx))
	requireCleanSoon(t, servers) // a majority has confirmed the release, and the client lives on
}

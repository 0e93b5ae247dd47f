//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/node"
)

// lasting are flags for a short lease that survives on a busy machine.
var lasting = []string{"--ttl", "3s", "--node-timeout", "1s"}

func TestRunSurvivesTheLossOfTwoNodes(t *testing.T) {
	t.Parallel()
	t.Run("before the hold", func(t *testing.T) {
		t.Parallel()
		servers := startFleet(t)
		servers[0].Pause()
		servers[1].Kill()
		p := servers.holding(t, lasting...)
		holdFor(t, servers[2], 2)
		p.reply()
		assert.Zero(t, p.exit())
		servers[0].Resume()
		requireCleanSoon(t, servers)
	})
	t.Run("during the hold", func(t *testing.T) {
		t.Parallel()
		servers := startFleet(t)
		p := servers.holding(t, lasting...)
		servers[0].Pause()
		servers[1].Kill()
		holdFor(t, servers[2], 4) // more than a TTL: the lease does not live on old claims
		p.reply()
		assert.Zero(t, p.exit())
		servers[0].Resume()
		requireCleanSoon(t, servers)
	})
	t.Run("that come back", func(t *testing.T) {
		t.Parallel()
		servers := startFleet(t)
		p := servers.holding(t, lasting...)
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

func TestRunTellsThatTheLockWasDeleted(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	p := servers.holding(t)
	for _, s := range servers {
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			removed, err := s.Command("DEL", "k")
			assert.NoError(c, err)
			assert.Equal(c, "1", removed)
		}, 10*time.Second, 10*time.Millisecond, "a node must have granted the lock")
	}
	p.reply()
	assert.Zero(t, p.exit(), "the command's own status")
	assert.Contains(t, p.stderr.String(), lostBefore)
}

// holdFor waits until a server has received the given number of renewals.
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

// requireCleanSoon is requireClean for servers that did not answer when the lock was released, or that the release
// did not wait for.
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
	// The shell has a child, and both would run forever.
	p := begin(t, servers.on(`trap "" TERM; sh -c 'echo $$; while :; do sleep 0.05; done' & wait`, append(slices.Clone(lasting), "--kill-after", "300ms")...)...)
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
	assert.Regexp(t, `(?m)^quorumlock: the lease of "k" cannot be kept, and ends in [\d.]+m?s: no quorum: [0-2] of 5 nodes agreed, 3 needed`, text)
	requireHumanLines(t, text)
	assert.Contains(t, text, "SIGTERM now, SIGKILL in")
	assert.Contains(t, text, "the command has ended: signal: killed")
	requireCleanSoon(t, servers)
}

// TestLossStopsTheCommandInTime: the command is dead before another client can acquire the keys.
func TestLossStopsTheCommandInTime(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	alive := filepath.Join(t.TempDir(), "alive")
	// SIGKILL comes before the keys are gone by the drift allowance, which is 1% of the TTL. With a long TTL it
	// also covers that a busy machine runs quorumlock late.
	const ttl = 10 * time.Second
	p := begin(t, servers.on(`trap "" TERM; echo ready; while :; do : > "`+alive+`"; sleep 0.01; done`, "--ttl", ttl.String())...)
	assert.Equal(t, "ready", p.line())
	for _, s := range servers[:3] {
		s.Kill()
	}
	// The keys of the other nodes remain until a TTL after their last renewal: they are released when the command is
	// dead. Two dead nodes had their last renewal before this instant.
	keysGone := time.Now().Add(ttl)
	assert.Equal(t, exitLost, p.exit())
	info, err := os.Stat(alive)
	require.NoError(t, err)
	assert.True(t, info.ModTime().Before(keysGone), "the command worked for %v after the keys were gone", info.ModTime().Sub(keysGone))
	servers.requireClean(t)
}

func TestForcedReleaseStopsTheCommand(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 5)
	// The TTL leaves the command 5 s to say that it was told.
	servers.open(t, node.Limits{MaxTTL: 15 * time.Second, MaxClockSkew: time.Second})
	limits := []string{"--max-ttl", "15s", "--max-clock-skew", "1s"}
	p := begin(t, servers.on(`trap 'echo told; exit 3' TERM; echo ready; while :; do sleep 0.02; done`, append(limits, "--ttl", "15s", "--node-timeout", "1s")...)...)
	assert.Equal(t, "ready", p.line())
	r := call(t, append([]string{"release", "--force", "k", "--nodes", servers.nodes()}, limits...)...)
	assert.Zero(t, r.code, r.stderr)
	assert.Equal(t, "told", p.line())
	assert.Equal(t, exitLost, p.exit())
	text := p.stderr.String()
	assert.Contains(t, text, `quorumlock: lease of "k" lost: it was released by force`)
	requireHumanLines(t, text)
}

// TestRunHealsANode: a node that has lost its memory gets the held lock back.
func TestRunHealsANode(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	p := servers.holding(t, append(slices.Clone(lasting), "-v")...)
	servers[0].Restart()
	holdFor(t, servers[0], 1)
	p.reply()
	assert.Zero(t, p.exit())
	servers.requireClean(t)
	assert.Equal(t, 1, strings.Count(p.stderr.String(), "node recovers: it may have forgotten locks"), p.stderr.String())
}

func TestRunWithoutReachableNodes(t *testing.T) {
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

func TestRunFailsWhenAllNodesHang(t *testing.T) {
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
	requireCleanSoon(t, servers) // commands in their buffers run now, and expire or are undone
}

// TestKilledQuorumlock: when quorumlock itself is killed, the lock expires within its TTL, and on Linux the command
// gets a signal.
func TestKilledQuorumlock(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	servers := startFleet(t)
	p := begin(t, servers.on(`trap 'echo told; exit 0' TERM; echo ready; while :; do sleep 0.02; done`, "--ttl", ttl.String())...)
	assert.Equal(t, "ready", p.line())
	require.NoError(t, p.cmd.Process.Kill())
	assert.Equal(t, -1, p.exit())
	assert.Equal(t, "told", p.line())

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	lease, err := servers.client(t).RedLock("k").Acquire(ctx)
	require.NoError(t, err)
	require.NoError(t, lease.Release(ctx))
	requireCleanSoon(t, servers) // a majority has confirmed the release, and the client lives on
}

// TestRunSaysThatItDidNotRun: a lease that ends because quorumlock itself was stopped is not blamed on the nodes.
func TestRunSaysThatItDidNotRun(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3)
	servers.open(t, node.Limits{MaxTTL: 6 * time.Second, MaxClockSkew: 100 * time.Millisecond}) // A busy machine does not end the lease.
	p := begin(t, append([]string{"run", "--nodes", servers.nodes(), "--key", "k", "--max-ttl", "6s", "--max-clock-skew", "100ms", "--node-timeout", "2s"},
		"--", "sh", "-c", "echo ready; exec sleep 60")...)
	require.Equal(t, "ready", p.line())
	p.signal(syscall.SIGSTOP)
	for _, s := range servers {
		require.Eventually(t, func() bool { return len(lockKeys(s)) == 0 }, patience, 10*time.Millisecond, "the lock expires")
	}
	p.signal(syscall.SIGCONT)
	assert.Equal(t, exitLost, p.exit(), p.stderr.String())
	assert.Regexp(t, `"k".*\nquorumlock: this process did not run for \d+\.\d s: it was stopped or starved, or the machine was asleep\n`, p.stderr.String())
}

// TestOldPausesExplainNothing: a pause explains only a loss within a TTL after it.
func TestOldPausesExplainNothing(t *testing.T) {
	now := clock.System().Now()
	p := pulse{last: now, gap: 3 * time.Second, ended: now - 10*time.Second}
	assert.Empty(t, p.pause(5*time.Second))
	assert.Contains(t, p.pause(time.Hour), "did not run for 3.0 s")
	p = pulse{last: now - time.Hour}
	assert.Contains(t, p.pause(5*time.Second), "did not run for 3600.")
	assert.Empty(t, (&pulse{last: clock.System().Now()}).pause(time.Hour))
}

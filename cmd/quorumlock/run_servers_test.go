//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/cmd/internal/exit"
	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/node"
)

// lasting are flags for a short lease that survives on a busy machine.
var lasting = []string{"--ttl", "3s", "--node-timeout", "1s"}

// holding starts a command that holds the lock until reply is called.
func (f fleet) holding(t *testing.T, flags ...string) *process {
	t.Helper()
	p := begin(t, f.on("echo ready; read x", flags...)...)
	assert.Equal(t, "ready", p.line())
	return p
}

// TestRunOnServers: the command knows the owner and the token that the nodes have.
func TestRunOnServers(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	last := ""
	for range 2 {
		p := begin(t, servers.on("echo $QUORUMLOCK_OWNER; echo $QUORUMLOCK_TOKEN; read x; exit 6")...)
		owner, token := p.line(), p.line()
		assert.Regexp(t, `^\d{16}$`, token)
		assert.Greater(t, token, last, "as text too, as long as they have one length")
		last = token
		for _, s := range servers {
			require.Eventually(t, func() bool {
				holder, err := s.Command("HGETALL", "k")
				return err == nil && strings.Join(strings.Fields(holder), " ") == owner+" "+token
			}, patience, time.Millisecond, "every node has it, the slower ones a little later")
		}
		p.reply()
		assert.Equal(t, 6, p.exit())
		servers.requireLocks(t)
		assert.Empty(t, p.stderr.String())
	}
}

// TestRunOnce: a command that has succeeded on one machine does not run on another one within the window, also not on one
// that has waited for the lock. One that has failed does.
func TestRunOnce(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	r := servers.call(t, "run --key k --once 10m --node-timeout 1s false")
	require.Equal(t, 1, r.code, r.stderr)

	first := servers.holding(t, "--once", "10m")
	second := begin(t, servers.on("echo again", "--once", "10m")...)
	waitForLog(t, second, "quorumlock: waiting: held by ")
	first.reply()
	assert.Equal(t, exit.OK, first.exit())
	assert.Equal(t, exit.OK, second.exit())
	assert.Contains(t, second.stderr.String(), `"k" was done by `)
	r = servers.call(t, "run --key k --once 10m --node-timeout 1s echo again")
	assert.Equal(t, exit.OK, r.code)
	assert.Empty(t, r.stdout)
	assert.Contains(t, r.stderr, `"k" was done by `)
	servers.requireLocks(t)

	r = servers.call(t, "run --key slow --once 10m --node-timeout 1s sleep 2")
	require.Equal(t, exit.OK, r.code, r.stderr)
	r = servers.call(t, "run --key slow --once 10m --node-timeout 1s echo again")
	assert.Regexp(t, `stays done for \dm([0-4]|5[0-8])`, r.stderr, "the next run by schedule is not left out because this one took a while")

	r = servers.call(t, "run --key k --read --once 10m true")
	assert.Equal(t, exit.Failure, r.code)
	assert.Contains(t, r.stderr, "--once is for one key")
}

// TestRunOnEvictingServers: run uses servers that may evict locks only if it is told to, and then the log says so.
func TestRunOnEvictingServers(t *testing.T) {
	t.Parallel()
	servers := openFleet(t, 3)
	evicting(servers)
	r := servers.call(t, "run --key k --node-timeout 1s --verbose true")
	assert.NotZero(t, r.code)
	assert.Contains(t, r.stderr, "--allow-eviction")
	r = servers.call(t, "run --key k --node-timeout 1s --verbose --allow-eviction true")
	assert.Zero(t, r.code, r.stderr)
	assert.Equal(t, 2, strings.Count(r.stderr, "may evict locks"), r.stderr)
}

// TestRunOnServersThatCannotTell: run, init and doctor use servers without INFO only if they are told to, and say so.
func TestRunOnServersThatCannotTell(t *testing.T) {
	t.Parallel()
	servers := fleet(redisproc.StartN(t, 3, redisproc.WithArgs("--rename-command", "INFO", "", "--rename-command", "CLIENT", "")))
	for _, command := range []string{"init --node-timeout 5s", "run --key k --node-timeout 1s --verbose true"} {
		r := servers.call(t, command)
		assert.NotZero(t, r.code)
		assert.Contains(t, r.stdout+r.stderr, "--allow-unseen-losses")
	}
	r := servers.call(t, "init --allow-unseen-losses --node-timeout 5s")
	require.Zero(t, r.code, r.stderr)
	r = servers.call(t, "run --key k --node-timeout 1s --verbose --allow-unseen-losses true")
	assert.Zero(t, r.code, r.stderr)
	assert.Equal(t, 3, strings.Count(r.stderr, "cannot tell that it has lost its memory"), r.stderr)
	r = servers.call(t, "doctor --key k --allow-unseen-losses "+patiently)
	assert.Equal(t, exit.Warnings, r.code, r.stdout)
	assert.Contains(t, r.stdout, "Use these locks only to save work")
}

// TestRunMulti: all nodes are needed. Acquired in another order, a lock of all nodes would exclude no one: with one node
// held by another client, it must be refused as held.
func TestRunMulti(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	p := servers.holding(t, "--key", "j", "--multi")
	servers.requireLocks(t, "j", "k")
	p.reply()
	assert.Zero(t, p.exit())
	servers.requireLocks(t)

	servers[2:3].command(t, "HSET", "k", "somebody", "1")
	r := call(t, servers.on("true", "--multi", "--wait", "0s")...)
	assert.Equal(t, exit.Held, r.code)
	assert.Contains(t, r.stderr, "held by somebody, without expiry")
	servers[2:3].command(t, "DEL", "k")

	servers[4].Kill()
	r = call(t, servers.on("true", "--multi", "--wait", "0s")...)
	assert.Equal(t, exit.NoQuorum, r.code)
	assert.Contains(t, r.stderr, servers[4].Addr())
	servers.requireLocks(t)
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3, redisproc.WithPassword("s,cret"))
	r := call(t, servers.on("true")...)
	assert.Equal(t, exit.NoQuorum, r.code, "waiting for ever would not help")
	assert.Contains(t, r.stderr, "access denied")

	nodes := fmt.Sprintf("redis://:s%%2Ccret@%s,unix://:s%%2Ccret@%s,redis://default:s%%2Ccret@%s", servers[0].Addr(), servers[1].Socket(), servers[2].Addr())
	require.Zero(t, call(t, "init", "--nodes", nodes).code)
	p := begin(t, "run", "--nodes", nodes, "--key", "k", "--", "sh", "-c", "echo ready; read x")
	assert.Equal(t, "ready", p.line())
	servers.requireLocks(t, "k")
	p.reply()
	assert.Zero(t, p.exit())
	assert.NotContains(t, p.stderr.String(), "cret")
}

// TestRunUnderPermits: at most P commands run at once, each with permits of its own. Readers run at once, and exclude
// writers.
func TestRunUnderPermits(t *testing.T) {
	t.Parallel()
	servers := openFleet(t, 3)
	flags := []string{"run", "--nodes", servers.nodes(), "--key", "k", "--of", "3"}
	p := begin(t, append(flags, "--permits", "2", "--", "sh", "-c", `echo "$QUORUMLOCK_PERMITS"; read x`)...)
	permits := strings.Fields(p.line())
	require.Len(t, permits, 2)
	r := call(t, append(flags, "--wait", "0s", "--", "sh", "-c", `echo "$QUORUMLOCK_PERMITS"`)...)
	require.Zero(t, r.code, r.stderr)
	assert.NotContains(t, permits, strings.TrimSpace(r.stdout))
	r = call(t, append(flags, "--wait", "0s", "--permits", "2", "--", "true")...)
	assert.Equal(t, exit.Held, r.code, r.stderr)
	p.reply()
	assert.Zero(t, p.exit(), p.stderr.String())

	p = begin(t, "run", "--nodes", servers.nodes(), "--key", "r", "--read", "--", "sh", "-c", "echo reads; read x")
	require.Equal(t, "reads", p.line())
	r = servers.call(t, "run --key r --read --wait 0s echo too")
	assert.Equal(t, "too\n", r.stdout, r.stderr)
	assert.Equal(t, exit.Held, servers.call(t, "run --key r --wait 0s echo too").code)
	p.reply()
	assert.Zero(t, p.exit(), p.stderr.String())
}

// TestRunMajorityOfSeveralKeys: several keys need a majority only, and are taken all or none. The command is stopped in
// time when they are about to be lost.
func TestRunMajorityOfSeveralKeys(t *testing.T) {
	t.Parallel()
	servers := openFleet(t, 3, quick)
	flags := append([]string{"run", "--nodes", servers.nodes(), "--majority", "--key", "j", "--key", "k"}, quickly...)
	servers[2].Kill()
	p := begin(t, append(flags, "--", "sh", "-c", `echo "$QUORUMLOCK_TOKEN"; while :; do sleep 0.05; done`)...)
	assert.Regexp(t, `^\d{16}$`, p.line())
	for _, key := range []string{"j", "k"} {
		r := call(t, append([]string{"run", "--nodes", servers.nodes(), "--key", key, "--wait", "0s"}, append(quickly, "--", "true")...)...)
		assert.Equal(t, exit.Held, r.code, r.stderr)
	}
	servers.requireLocks(t, "j", "k")
	servers[1].Kill()
	assert.Equal(t, exit.Lost, p.exit(), p.stderr.String())
	assert.Contains(t, p.stderr.String(), fmt.Sprintf("the lease of %q cannot be kept", []string{"j", "k"}))
}

func TestRunHeldByAnother(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	lease := servers.hold(t)
	isHeld := func(wait time.Duration) {
		t.Helper()
		r := servers.runWithin(t, wait)
		assert.Equal(t, exit.Held, r.code, r.stderr)
		assert.Contains(t, r.stderr, "held by "+quorumlock.DescribeOwner(lease.Owner()))
		assert.Empty(t, r.stdout)
	}
	isHeld(0)
	isHeld(300 * time.Millisecond)
	// With two nodes less, the lock is still held; the message must not blame the nodes.
	servers[1].Kill()
	servers[3].Pause()
	isHeld(0)
	isHeld(1500 * time.Millisecond)
}

// runWithin runs a command with this wait for the lock. On a busy machine, the nodes may not answer in so short a time.
// Then it waits longer.
func (f fleet) runWithin(t *testing.T, wait time.Duration) result {
	t.Helper()
	for {
		r := call(t, f.on("echo ran", "--wait", wait.String())...)
		if wait == 0 || wait > 20*time.Second || !strings.Contains(r.stderr, "had not answered when the call ended") {
			return r
		}
		t.Logf("the machine was too busy to answer within %v: %s", wait, r.stderr)
		wait *= 2
	}
}

func TestRunWithoutAnswers(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	fails := func(wait string) {
		t.Helper()
		r := call(t, servers.on("echo ran", "--wait", wait)...)
		assert.Equal(t, exit.NoQuorum, r.code, r.stderr)
		assert.Empty(t, r.stdout)
	}
	for _, s := range servers {
		s.Pause()
	}
	fails("50ms")
	fails("1s")
	for _, s := range servers {
		s.Resume()
	}
	servers.requireLocks(t) // commands in their buffers run now, and expire or are undone
	for _, s := range servers {
		s.Kill()
	}
	fails("0s")
	for _, most := range []string{"-1s", "300ms"} {
		r := call(t, servers.on("echo ran", "--max-outage", most)...) // without --wait it would never end
		assert.Equal(t, exit.NoQuorum, r.code, r.stderr)
		assert.Empty(t, r.stdout)
	}
	fails("1s")
}

// TestRunMinHold: the nodes keep the lock, and the process ends. A command that cannot start frees it at once: the job
// never ran, so another machine may run it.
func TestRunMinHold(t *testing.T) {
	t.Parallel()
	const hold = 3 * time.Second
	servers := startFleet(t)
	began := time.Now()
	r := call(t, servers.on("true", "--min-hold", hold.String())...)
	assert.Zero(t, r.code)
	assert.Empty(t, r.stderr)
	r = call(t, servers.on("true")...)
	assert.Zero(t, r.code)
	assert.GreaterOrEqual(t, time.Since(began), hold, "the first command has ended long ago, and its process too")
	servers.requireLocks(t)

	noFormat := filepath.Join(t.TempDir(), "noformat")
	require.NoError(t, os.WriteFile(noFormat, []byte("\x00\x01"), 0o700))
	for _, kind := range []string{"--key a", "--key b --key c --majority", "--key d --of 1", "--key e --read"} {
		r := servers.call(t, "run --node-timeout 1s --min-hold 9s "+kind, noFormat)
		assert.Equal(t, exit.NotRunning, r.code)
		assert.Contains(t, r.stderr, "exec format error")
		servers.requireLocks(t)
		if !strings.Contains(kind, "--read") {
			r = servers.call(t, "run --node-timeout 1s --wait 0s "+kind, "true")
			assert.Zero(t, r.code, r.stderr)
		}
	}
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
	assert.Equal(t, exit.Lost, p.exit())
	lastKey.Resume()
	requireGone(t, child)
	text := p.stderr.String()
	assert.Regexp(t, `(?m)^quorumlock: the lease of "k" cannot be kept, and ends in [\d.]+m?s: no quorum: [0-2] of 5 nodes agreed, 3 needed`, text)
	requireHumanLines(t, text)
	assert.Contains(t, text, "SIGTERM now, SIGKILL in")
	assert.Contains(t, text, "the command has ended: signal: killed")
	servers.requireLocks(t)
}

// TestLossStopsTheCommandWhoeverReadsStderr: the reader of stderr has gone, or reads no more. Neither is a reason to leave a
// command at work without the lock.
func TestLossStopsTheCommandWhoeverReadsStderr(t *testing.T) {
	t.Parallel()
	for _, full := range []bool{false, true} {
		servers := startFleet(t)
		reader, stderr, err := os.Pipe()
		require.NoError(t, err)
		for full && err == nil {
			require.NoError(t, stderr.SetWriteDeadline(time.Now().Add(10*time.Millisecond)))
			_, err = stderr.Write([]byte("x"))
		}
		cmd := selfCommand(t, servers.on(`trap "" TERM; echo $$; while :; do sleep 0.05; done`, append(slices.Clone(lasting), "--kill-after", "300ms")...)...)
		cmd.Stderr = stderr
		p := beginCommand(t, cmd)
		command := p.line()
		require.NoError(t, stderr.Close())
		if !full {
			require.NoError(t, reader.Close())
		}
		for _, s := range servers[:3] {
			s.Kill()
		}
		requireGone(t, command)
		if full {
			said, err := io.ReadAll(reader)
			require.NoError(t, err)
			assert.Contains(t, string(said), "the command has ended: signal: killed")
			require.NoError(t, reader.Close())
		}
		assert.Equal(t, exit.Lost, p.exit())
	}
}

// TestRunOnceUnrecorded: nodes that are out of memory refuse the record of a success, and renew the lease. That ends after a
// TTL, or with a signal.
func TestRunOnceUnrecorded(t *testing.T) {
	t.Parallel()
	for ttl, signalled := range map[string]bool{"3s": false, "1m": true} {
		servers := openFleet(t, 3, node.Limits{MaxTTL: time.Minute})
		p := servers.holding(t, "--once", "10m", "--ttl", ttl, "--max-ttl", "1m", "--node-timeout", "1s")
		servers.command(t, "CONFIG", "SET", "maxmemory", "1")
		p.reply()
		if signalled {
			require.Eventually(t, func() bool {
				stats, err := servers[0].Command("INFO", "errorstats")
				return err == nil && strings.Contains(stats, "errorstat_OOM")
			}, patience, time.Millisecond, "the record is refused")
			p.signal(syscall.SIGTERM)
		}
		assert.Equal(t, exit.NoQuorum, p.exit())
		assert.Contains(t, p.stderr.String(), "done, but not recorded")
		servers.requireLocks(t)
	}
}

// requireHumanLines checks that a loss is reported in sentences, and its reason once.
func requireHumanLines(t *testing.T, text string) {
	t.Helper()
	assert.NotContains(t, text, "level=")
	assert.LessOrEqual(t, strings.Count(text, "nodes agreed"), 1, text)
	assert.LessOrEqual(t, strings.Count(text, "it was released by force"), 1, text)
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
	assert.Equal(t, exit.Lost, p.exit())
	info, err := os.Stat(alive)
	require.NoError(t, err)
	assert.True(t, info.ModTime().Before(keysGone), "the command worked for %v after the keys were gone", info.ModTime().Sub(keysGone))
	servers.requireLocks(t)
}

func TestForcedReleaseStopsTheCommand(t *testing.T) {
	t.Parallel()
	// The TTL leaves the command 5 s to say that it was told.
	servers := openFleet(t, 5, node.Limits{MaxTTL: 15 * time.Second, MaxClockSkew: time.Second})
	p := begin(t, servers.on(`trap 'echo told; exit 3' TERM; echo ready; while :; do sleep 0.02; done`,
		strings.Fields("--max-ttl 15s --max-clock-skew 1s --ttl 15s --node-timeout 1s")...)...)
	assert.Equal(t, "ready", p.line())
	servers.release(t, exit.OK, "k --max-ttl 15s --max-clock-skew 1s")
	assert.Equal(t, "told", p.line())
	assert.Equal(t, exit.Lost, p.exit())
	text := p.stderr.String()
	assert.Contains(t, text, `quorumlock: lease of "k" lost: it was released by force`)
	requireHumanLines(t, text)
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
	servers.requireLocks(t) // a majority has confirmed the release, and the client lives on
}

// TestRunSaysThatItDidNotRun: a lease that ends because quorumlock itself was stopped is not blamed on the nodes.
func TestRunSaysThatItDidNotRun(t *testing.T) {
	t.Parallel()
	servers := openFleet(t, 3, node.Limits{MaxTTL: 6 * time.Second, MaxClockSkew: 100 * time.Millisecond}) // A busy machine does not end the lease.
	p := begin(t, servers.on("echo ready; exec sleep 60", strings.Fields("--max-ttl 6s --max-clock-skew 100ms --node-timeout 2s")...)...)
	require.Equal(t, "ready", p.line())
	p.signal(syscall.SIGSTOP)
	servers.requireLocks(t) // the lock expires
	p.signal(syscall.SIGCONT)
	assert.Equal(t, exit.Lost, p.exit(), p.stderr.String())
	assert.Regexp(t, `"k".*; this process did not run for \d\S*s or more: it was stopped or starved, or the machine was asleep`, p.stderr.String())
}

//go:build unix

package main

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/redisproc"
)

// on returns the arguments to run a shell script under the lock "k" on these servers.
func (f fleet) on(text string, flags ...string) []string {
	args := []string{"run", "--nodes", f.nodes(), "--key", "k"}
	if !slices.ContainsFunc(flags, func(flag string) bool { return flag == "--ttl" || flag == "--max-ttl" }) {
		args = append(args, "--node-timeout", "1s") // nodes are not late only because the machine is busy
	}
	args = append(args, flags...)
	return append(args, "--", "sh", "-c", text)
}

// holding starts a command that holds the lock until reply is called.
func (f fleet) holding(t *testing.T, flags ...string) *process {
	t.Helper()
	p := begin(t, f.on("echo ready; read x", flags...)...)
	assert.Equal(t, "ready", p.line())
	return p
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

// TestRunOnEvictingServers: run uses servers that may evict locks only if it is told to, and then the log says so.
func TestRunOnEvictingServers(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3)
	servers.open(t)
	evicting(servers)
	flags := []string{"run", "--nodes", servers.nodes(), "--key", "k", "--node-timeout", "1s", "--verbose"}
	r := call(t, append(flags, "--", "true")...)
	assert.NotZero(t, r.code)
	assert.Contains(t, r.stderr, "--allow-eviction")
	r = call(t, append(flags, "--allow-eviction", "--", "true")...)
	assert.Zero(t, r.code, r.stderr)
	assert.Equal(t, 2, strings.Count(r.stderr, "may evict locks"), r.stderr)

	r = call(t, "run", "--embedded", "1", "--allow-eviction", "--key", "k", "--", "true")
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.stderr, "--allow-eviction has no effect here")
}

func TestRunMultiOnServers(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	p := servers.holding(t, "--key", "j", "--multi")
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

// Acquired in another order, a lock of all nodes would exclude no one: with one node held by another client, it must
// be refused as held.
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

	for _, wait := range []time.Duration{0, 300 * time.Millisecond} {
		r := servers.runWithin(t, wait)
		assert.Equal(t, exitHeld, r.code, r.stderr)
		assert.Contains(t, r.stderr, "held by "+quorumlock.DescribeOwner(lease.Owner()))
		assert.Empty(t, r.stdout)
	}

	// With two nodes less, the lock is still held; the message must not blame the nodes.
	servers[1].Kill()
	servers[3].Pause()
	for _, wait := range []time.Duration{0, 1500 * time.Millisecond} {
		r := servers.runWithin(t, wait)
		assert.Equal(t, exitHeld, r.code, r.stderr)
		assert.Contains(t, r.stderr, "held by "+quorumlock.DescribeOwner(lease.Owner()))
		assert.Empty(t, r.stdout)
	}
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

// requireHumanLines checks that a loss is reported in sentences, and its reason once.
func requireHumanLines(t *testing.T, text string) {
	t.Helper()
	assert.NotContains(t, text, "level=")
	assert.LessOrEqual(t, strings.Count(text, "nodes agreed"), 1, text)
	assert.LessOrEqual(t, strings.Count(text, "it was released by force"), 1, text)
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
				held, err := s.Command("HVALS", "k")
				return err == nil && held == token
			}, patience, time.Millisecond, "every node has it, the slower ones a little later")
		}
		p.reply()
		assert.Zero(t, p.exit())
	}
}

func TestRunLogsWhatBacksTheLease(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 5)
	servers.open(t, quick)
	p := servers.holding(t, append(quickly, "-v")...)
	servers[0].Kill()
	waitForLog(t, p, `have=4 want=5 need=3`)
	servers[0].Restart()
	waitForLog(t, p, `have=5 want=5 need=3`)
	p.reply()
	assert.Zero(t, p.exit())
}

func TestRunMinHoldOnServers(t *testing.T) {
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
	servers.requireClean(t)
}

// TestRunMinHoldOfACommandThatCannotStart: the job never ran, so another machine may run it at once.
func TestRunMinHoldOfACommandThatCannotStart(t *testing.T) {
	t.Parallel()
	noFormat := filepath.Join(t.TempDir(), "noformat")
	require.NoError(t, os.WriteFile(noFormat, []byte("\x00\x01"), 0o700))
	for name, kind := range map[string][]string{
		"a lock":       {"--key", "k"},
		"several keys": {"--key", "k", "--key", "l", "--majority"},
		"permits":      {"--key", "k", "--of", "1"},
		"a reader":     {"--key", "k", "--read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := startFleet(t)
			flags := append([]string{"run", "--nodes", servers.nodes(), "--node-timeout", "1s", "--min-hold", "9s"}, kind...)
			r := call(t, append(flags, "--", noFormat)...)
			assert.Equal(t, exitNotRunning, r.code)
			assert.Contains(t, r.stderr, "exec format error")
			servers.requireClean(t)
			if name != "a reader" {
				r = call(t, append([]string{"run", "--nodes", servers.nodes(), "--node-timeout", "1s", "--wait", "0s"}, append(kind, "--", "true")...)...)
				assert.Zero(t, r.code, r.stderr)
			}
		})
	}
}

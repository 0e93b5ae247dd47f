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
	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/node"
)

// init runs init on these servers.
func (f fleet) init(t *testing.T, flags ...string) result {
	t.Helper()
	return call(t, append([]string{"init", "--nodes", f.nodes()}, flags...)...)
}

// requireGives checks whether the servers grant a lock now.
func (f fleet) requireGives(t *testing.T, code int) {
	t.Helper()
	r := call(t, "run", "--nodes", f.nodes(), "--key", "k", "--wait", "0s", "--", "echo", "ran")
	require.Equal(t, code, r.code, r.stderr)
}

// lines returns a line of text for each server.
func (f fleet) lines(said ...string) string {
	var b strings.Builder
	for i, s := range f {
		fmt.Fprintf(&b, "%s: %s\n", s.Addr(), said[min(i, len(said)-1)])
	}
	return b.String()
}

func TestInit(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3)
	servers.requireGives(t, exitNoQuorum)

	r := servers.init(t)
	assert.Zero(t, r.code)
	assert.Equal(t, servers.lines("opened")+"all 3 nodes are open\n", r.stdout)
	servers.requireGives(t, exitOK)

	r = servers.init(t)
	assert.Zero(t, r.code)
	assert.Equal(t, servers.lines("open already")+"all 3 nodes are open\n", r.stdout)
	assert.Empty(t, r.stderr)
	servers.requireGives(t, exitOK)
}

func TestInitDoesNotHurryANodeThatRestarted(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	servers[1].Restart()
	r := servers.init(t)
	assert.Equal(t, exitNoQuorum, r.code)
	assert.Equal(t, 4, strings.Count(r.stdout, ": open already\n"))
	assert.Regexp(t, servers[1].Addr()+`: recovering for another \d+(\.\d)?s\n`, r.stdout)
	assert.Regexp(t, `^quorumlock: nothing was opened, as not all nodes are new: `+servers[1].Addr()+
		` may have forgotten locks that are still held\. Wait: all nodes open by themselves in \d+(\.\d)?s\n$`, r.stderr)
	servers.requireGives(t, exitOK)
}

// TestInitDoesNotHurryNodesThatAllRestarted: data on their disks shows that the nodes were in use, even if none is
// open any more.
func TestInitDoesNotHurryNodesThatAllRestarted(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3, redisproc.WithAOF())
	servers.open(t)
	for _, s := range servers {
		s.Restart()
	}
	r := servers.init(t)
	assert.Equal(t, exitNoQuorum, r.code)
	assert.Equal(t, 3, strings.Count(r.stdout, ": recovering for another "))
	assert.Contains(t, r.stderr, "not all nodes are new: all nodes recover, as they restarted, failed over, got their first replica, or had their limits changed. Wait: ")
	servers.requireGives(t, exitNoQuorum)
}

func TestInitNeedsAllNodes(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3)
	servers[2].Kill()
	r := servers.init(t)
	assert.Equal(t, exitNoQuorum, r.code)
	assert.Equal(t, 2, strings.Count(r.stdout, ": recovering for another "))
	assert.Contains(t, r.stdout, servers[2].Addr()+": failed: unreachable: ")
	assert.Regexp(t, `^quorumlock: nothing was opened, as `+servers[2].Addr()+
		` failed: fix that, and repeat the command; or wait: the others open by themselves in \d+(\.\d)?s\n$`, r.stderr)
	servers.requireGives(t, exitNoQuorum)

	servers[2].Restart()
	assert.Zero(t, servers.init(t).code)
	servers.requireGives(t, exitOK)
}

// TestInitWaitsForANode: init waits for a hanging server, but no longer than its timeout.
func TestInitWaitsForANode(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3)
	servers[0].Pause()
	began := time.Now()
	r := servers.init(t, "--node-timeout", "1500ms")
	assert.GreaterOrEqual(t, time.Since(began), 1500*time.Millisecond)
	assert.Equal(t, exitNoQuorum, r.code)
	assert.Contains(t, r.stdout, servers[0].Addr()+": failed: timeout")
}

func TestInitNoticesTwoAddressesOfOneServer(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 2)
	twice := "unix://" + servers[0].Socket()
	r := call(t, "init", "--nodes", servers.nodes()+","+twice)
	assert.Equal(t, exitNoQuorum, r.code)
	assert.Contains(t, r.stdout, ": failed: another node is the same server: it is "+servers[0].Addr()+" by another address")
	assert.Contains(t, r.stderr, servers[0].Socket()+" failed: fix that")
	for _, s := range servers {
		until, err := s.Command("HGET", "quorumlock:node", "until")
		require.NoError(t, err)
		assert.NotEqual(t, "0", until, "the node was not opened")
	}
}

func TestInitWithOtherLimits(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3)
	servers.open(t, quick)
	r := servers.init(t)
	assert.Equal(t, exitFailure, r.code)
	assert.Equal(t, servers.lines("open already, set up for --max-ttl 2s and --max-clock-skew 100ms"), r.stdout)
	assert.Equal(t, "quorumlock: nothing was opened, as the limits of all nodes are not --max-ttl 10s and --max-clock-skew 1s: "+
		"use the same limits for init and all programs, or change the limits of the nodes with --change-limits, after all programs that use them have stopped\n", r.stderr)

	// A run reports it at once, too: waiting would not help.
	r = call(t, servers.on("echo ran")...)
	assert.Equal(t, exitNoQuorum, r.code)
	assert.Contains(t, r.stderr, "settings differ: --max-ttl 2s and --max-clock-skew 100ms, not 10s and 1s")
	assert.Contains(t, r.stderr, "\nquorumlock: all programs that use the same nodes need the same --max-ttl and --max-clock-skew; ")
	assert.NotContains(t, r.stderr, "MaxTTL")

	assert.Zero(t, servers.init(t, quickly...).code)
}

func TestChangeLimits(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3)
	servers.open(t, quick)
	other := []string{"--max-ttl", "1s", "--max-clock-skew", "100ms"}

	servers[2].Kill()
	r := servers.init(t, append(other, "--change-limits")...)
	assert.Equal(t, exitNoQuorum, r.code)
	assert.Contains(t, r.stdout, servers[2].Addr()+": failed: unreachable: ")
	assert.Equal(t, "quorumlock: "+servers[2].Addr()+" failed: fix that, and repeat the command before any program starts\n", r.stderr)

	servers[2].Restart()
	r = servers.init(t, append(other, "--change-limits")...)
	assert.Zero(t, r.code, r.stderr)
	assert.Contains(t, r.stdout, servers[2].Addr()+": recovering for another ")
	assert.Regexp(t, `\nall 3 nodes are set up for --max-ttl 1s and --max-clock-skew 100ms, and all give locks in [\d.]+m?s\n$`, r.stdout)

	r = call(t, servers.on("echo ran", quickly...)...)
	assert.Equal(t, exitNoQuorum, r.code)
	assert.Contains(t, r.stderr, "settings differ")
	r = call(t, servers.on("echo ran", other...)...)
	assert.Zero(t, r.code, r.stderr)

	r = servers.init(t, append(other, "--change-limits")...)
	assert.Zero(t, r.code)
	assert.Contains(t, r.stdout, "all 3 nodes are set up for --max-ttl 1s and --max-clock-skew 100ms")
}

// TestInitDoesNotHurryAChangeOfLimits: nodes whose limits were changed were in use.
func TestInitDoesNotHurryAChangeOfLimits(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3)
	servers.open(t)
	assert.Zero(t, servers.init(t, "--max-ttl", "20s", "--change-limits").code)
	r := servers.init(t, "--max-ttl", "20s")
	assert.Equal(t, exitNoQuorum, r.code)
	assert.Contains(t, r.stderr, "Wait: all nodes open by themselves in ")
}

// TestInitIsOvertaken tests only the messages, because changes during init are hard to cause.
func TestInitIsOvertaken(t *testing.T) {
	limits := node.Limits{MaxTTL: 10 * time.Second, MaxClockSkew: time.Second}
	state := func(name string, s admin.State, err error) admin.NodeReport {
		return admin.NodeReport{Node: name, State: s, Limits: limits, Err: err}
	}
	i := &initialiser{limits: limits, report: &admin.Report{Nodes: []admin.NodeReport{
		state("a", admin.Opened, nil),
		state("b", admin.Failed, admin.ErrChanged),
		state("c", admin.Failed, &node.Error{Node: "c", Op: node.Open, Reason: node.ErrRejected, Err: errors.New("\x1b[2J")}),
	}}}
	assert.Equal(t, "opened", i.became(i.report.Nodes[0]))
	assert.Equal(t, "failed: the node lost its memory, or another client set it up, in the meantime", i.became(i.report.Nodes[1]))
	assert.Equal(t, `failed: rejected: \x1b[2J`, i.became(i.report.Nodes[2]))
	assert.EqualError(t, i.failed(), "b and c failed while the others were opened: repeat the command to see their state")
}

func TestSpans(t *testing.T) {
	for d, text := range map[time.Duration]string{
		1:                                "1ms",
		999 * time.Millisecond:           "999ms",
		time.Second:                      "1s",
		time.Second + 1:                  "1.1s",
		10*time.Second + 950000001:       "11s",
		9*time.Second + 123456789:        "9.2s",
		90*time.Second - time.Nanosecond: "1m30s",
	} {
		assert.Equal(t, text, span(d), d)
	}
}

func TestEnumerated(t *testing.T) {
	assert.Empty(t, enumerated(nil))
	assert.Equal(t, "a", enumerated([]string{"a"}))
	assert.Equal(t, "a and b", enumerated([]string{"a", "b"}))
	assert.Equal(t, "a, b and c", enumerated([]string{"a", "b", "c"}))
}

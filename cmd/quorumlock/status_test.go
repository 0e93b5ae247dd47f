package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/watch"
	"github.com/quorumlock/quorumlock/node"
)

// jsonStatus runs status --json, and checks the names that scripts rely on.
func jsonStatus(t *testing.T, servers fleet, wantCode int, keys ...string) []map[string]any {
	t.Helper()
	r := call(t, append([]string{"status", "--json", "--nodes", servers.nodes()}, keys...)...)
	require.Equal(t, wantCode, r.code, r.stderr)
	require.Empty(t, r.stderr)
	var report struct {
		Locks []map[string]any `json:"locks"`
	}
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &report))
	require.Len(t, report.Locks, len(keys))
	for i, lock := range report.Locks {
		assert.ElementsMatch(t, []string{
			"key", "state", "owner", "need", "answered", "nodes",
			"since", "held_ms", "held_at_least", "waiters", "readers", "semaphore", "latch",
		}, fields(lock))
		assert.Equal(t, keys[i], lock["key"])
		nodes := lock["nodes"].([]any)
		require.Len(t, nodes, len(servers))
		for j, n := range nodes {
			assert.ElementsMatch(t, []string{"node", "owner", "token", "ttl_ms", "recovering_ms", "latency_ms", "error"}, fields(n.(map[string]any)))
			assert.Equal(t, servers[j].Addr(), n.(map[string]any)["node"])
		}
	}
	return report.Locks
}

func fields(object map[string]any) (names []string) {
	for name := range object {
		names = append(names, name)
	}
	return names
}

func TestStatus(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	lease := servers.hold(t)
	requireEverywhere(t, servers)
	for i, s := range servers[:3] {
		_, err := s.Command("HSET", "j<>", fmt.Sprint("somebody", i), "1")
		require.NoError(t, err)
	}
	_, err := servers[0].Command("HSET", "nearly free", "somebody", "1")
	require.NoError(t, err)

	locks := jsonStatus(t, servers, exitOK, "k", "j<>", "nearly free", "free")
	assert.Equal(t, "held", locks[0]["state"])
	assert.Equal(t, lease.Owner(), locks[0]["owner"])
	assert.EqualValues(t, 3, locks[0]["need"])
	assert.EqualValues(t, 5, locks[0]["answered"])
	first := locks[0]["nodes"].([]any)[0].(map[string]any)
	assert.Equal(t, lease.Owner(), first["owner"])
	assert.InDelta(t, lease.Token(), first["token"], 0)
	assert.InDelta(t, 8000, first["ttl_ms"], 2500)
	assert.Zero(t, first["recovering_ms"])
	assert.Positive(t, first["latency_ms"])
	assert.Empty(t, first["error"])

	assert.Equal(t, "partial", locks[1]["state"])
	assert.Empty(t, locks[1]["owner"])
	assert.EqualValues(t, -1, locks[1]["nodes"].([]any)[0].(map[string]any)["ttl_ms"])
	assert.Equal(t, "free", locks[2]["state"])
	assert.Equal(t, "free", locks[3]["state"])

	r := call(t, "status", "k", "j<>", "nearly free", "free", "--nodes", servers.nodes())
	assert.Zero(t, r.code)
	lines := strings.Split(r.stdout, "\n")
	assert.Regexp(t, `^NODE +HOLDER +LARGEST TOKEN +TTL LEFT +LATENCY +NOTE$`, lines[0])
	assert.Regexp(t, `^127\.0\.0\.1:\d+ +\S+:\d+ \(\S+/\d+\) +\d{16} +\d+(\.\d+)?s +\S+s +-$`, lines[1])
	assert.Contains(t, r.stdout, fmt.Sprintf(`"k" is held by %s on 5 of 5 nodes (3 needed)`, quorumlock.DescribeOwner(lease.Owner())))
	assert.Contains(t, r.stdout, `"j<>" is taken on 3 of 5 nodes, but no owner has the 3 needed; an acquire or a release may be`)
	assert.Contains(t, r.stdout, "ask again; on 3 nodes it never expires: not written by quorumlock\n")
	assert.Contains(t, r.stdout, `"nearly free" is free: 5 of 5 nodes answered (3 needed); it is taken on 1 node only, which is too few to hold it; on 1 node it never expires`)
	assert.Regexp(t, `\n\S+ +somebody +- +never expires +\S+s +-\n`, r.stdout)
	assert.Contains(t, r.stdout, `"free" is free: 5 of 5 nodes answered (3 needed)`)
}

// requireEverywhere waits until all servers have the key: a lock is held before the slowest server has answered.
func requireEverywhere(t *testing.T, servers fleet) {
	t.Helper()
	for _, s := range servers {
		require.Eventually(t, func() bool { return assert.ObjectsAreEqual([]string{"k"}, lockKeys(s)) }, patience, time.Millisecond)
	}
}

func TestStatusWithNodesDown(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	lease := servers.hold(t)
	requireEverywhere(t, servers)

	servers[0].Kill()
	servers[1].Pause()
	locks := jsonStatus(t, servers, exitOK, "k")
	assert.Equal(t, "held", locks[0]["state"])
	assert.Equal(t, lease.Owner(), locks[0]["owner"])
	assert.EqualValues(t, 3, locks[0]["answered"])
	nodes := locks[0]["nodes"].([]any)
	assert.Contains(t, nodes[0].(map[string]any)["error"], "unreachable")
	assert.Contains(t, nodes[1].(map[string]any)["error"], "timeout")

	servers[2].Kill()
	locks = jsonStatus(t, servers, exitNoQuorum, "k", "free")
	assert.Equal(t, "no_quorum", locks[0]["state"])
	assert.Empty(t, locks[0]["owner"])
	assert.EqualValues(t, 2, locks[0]["answered"])
	r := call(t, "status", "k", "--nodes", servers.nodes())
	assert.Equal(t, exitNoQuorum, r.code)
	assert.Contains(t, r.stdout, `"k": no quorum: 2 of 5 nodes answered (3 needed)`)
	assert.Contains(t, r.stdout, quorumlock.DescribeOwner(lease.Owner()), "known facts are shown in any case")
	assert.Empty(t, r.stderr)
}

func TestStatusOfNodesThatRecover(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3)
	locks := jsonStatus(t, servers, exitOK, "k")
	assert.Equal(t, "recovering", locks[0]["state"])
	assert.EqualValues(t, 11000, locks[0]["nodes"].([]any)[0].(map[string]any)["recovering_ms"])
	for _, flags := range [][]string{nil, {"--node-timeout", "1m"}} {
		r := call(t, append([]string{"status", "k", "--nodes", servers.nodes()}, flags...)...)
		assert.Zero(t, r.code)
		assert.Equal(t, 3, strings.Count(r.stdout, "  recovers for 11s from the first attempt at a lock on\n"), r.stdout)
		assert.Contains(t, r.stdout, `"k" cannot be acquired now, as 3 of 3 nodes recover (2 needed): enough give new locks 11s after the first attempt at a lock`)
	}

	// The holder does not renew, so a lost lock is not healed.
	servers.open(t)
	for _, s := range servers[1:] {
		_, err := s.Command("HSET", "k", "somebody", "1")
		require.NoError(t, err)
	}
	_, err := servers[0].Command("FLUSHALL")
	require.NoError(t, err)
	r := call(t, "run", "--nodes", servers.nodes(), "--key", "k", "--wait", "0s", "echo")
	assert.Equal(t, exitHeld, r.code, r.stderr)
	r = call(t, "status", "k", "--nodes", servers.nodes())
	assert.Contains(t, r.stdout, `"k" is held by somebody on 2 of 3 nodes (2 needed); on 2 nodes it never expires: not written by quorumlock; no new locks from 1 node until recovered`)
	assert.Regexp(t, `(?m)^`+servers[0].Addr()+` +- +- +- +\S+s +recovers for another \d+(\.\d)?s$`, r.stdout)

	_, err = servers[1].Command("FLUSHALL")
	require.NoError(t, err)
	r = call(t, "release", "--force", "k", "--nodes", servers.nodes())
	assert.Zero(t, r.code, r.stderr)
	assert.Regexp(t, servers[0].Addr()+`: nothing there; the node recovers for another \d+(\.\d)?s\n`, r.stdout)
	assert.Contains(t, r.stdout, servers[1].Addr()+": nothing there; the node recovers for 11s from the first attempt at a lock on\n")
	assert.Regexp(t, `and others can have "k" in \d+(\.\d)?s, when enough nodes have recovered\n$`, r.stderr)
}

func TestStatesOfALock(t *testing.T) {
	failed := &node.Error{Node: "n", Op: node.Inspect, Reason: node.ErrUnreachable}
	for _, c := range []struct {
		holders string // of each node; "-" for none, "r" if it recovers too, "x" for no answer
		state   string
	}{
		{"-----", stateFree},
		{"---xx", stateFree},
		{"---ab", stateFree},
		{"--xxx", stateNoQuorum},
		{"aaaaa", stateHeld},
		{"aaaxx", stateHeld},
		{"aaabb", stateHeld},
		{"aaxxx", stateNoQuorum},
		{"aaxx-", statePartial},
		{"aabb-", statePartial},
		{"aa--x", statePartial},
		{"sss--", stateWrongType},
		{"sssxx", stateWrongType},
		{"ssaaa", stateHeld},
		{"ss---", stateFree},
		{"ss--x", statePartial},
		{"sxxx-", stateNoQuorum},
		{"r----", stateFree},
		{"rr---", stateFree},
		{"rrr--", stateRecovering},
		{"rrrrr", stateRecovering},
		{"rr--a", stateRecovering},
		{"rrraa", stateRecovering},
		{"rr-xx", stateRecovering},
		{"rraaa", stateHeld},
		{"rraax", statePartial},
		{"rrxxx", stateNoQuorum},
	} {
		s := &watch.Facts{}
		for _, h := range c.holders {
			n := watch.Node{Name: "n", Locks: make(map[string]watch.Lock)}
			switch h {
			case '-':
			case 'x':
				n.Err = failed
			case 'r':
				n.Recovering = time.Second
			case 's':
				n.Locks["k"] = watch.Lock{Err: &node.Error{Node: "n", Op: node.Inspect, Reason: node.ErrWrongType}}
			default:
				n.Locks["k"] = held("k", string(h), time.Second, 0)
			}
			s.Nodes = append(s.Nodes, n)
		}
		r := nameReport{lockReport: newLockReport("k", s)}
		assert.Equal(t, c.state, r.State, c.holders)
		assert.Equal(t, c.state == stateHeld, r.Owner != "", c.holders)
		assert.NotEmpty(t, r.summary())
		assert.Equal(t, strings.Contains(c.holders, "r"), strings.Contains(r.summary(), "new locks"), r.summary())
		assert.Equal(t, strings.Contains(c.holders, "s"), strings.Contains(r.summary(), anotherName), r.summary())
	}
}

// TestKeyOfAnotherType: a key of another type is not blamed on nodes, and no TTL ends it.
func TestKeyOfAnotherType(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3)
	servers.open(t)
	for _, s := range servers[:2] {
		_, err := s.Command("SET", "str", "x")
		require.NoError(t, err)
	}
	locks := jsonStatus(t, servers, exitOK, "str")
	assert.Equal(t, "wrong_type", locks[0]["state"])
	assert.EqualValues(t, 3, locks[0]["answered"])

	r := call(t, "status", "str", "--nodes", servers.nodes())
	assert.Zero(t, r.code)
	assert.Contains(t, r.stdout, `"str" cannot be locked: on 2 of 3 nodes a key of another type has this name; give the lock another name, or delete the key`)
	assert.Equal(t, 2, strings.Count(r.stdout, "  a key of another type has this name\n"), r.stdout)

	r = call(t, "release", "--force", "str", "--nodes", servers.nodes())
	assert.Equal(t, exitNoQuorum, r.code)
	assert.Contains(t, r.stdout, servers[0].Addr()+": not removed: a key of another type has this name\n")
	assert.NotContains(t, r.stdout, "not held")
	assert.Equal(t, `quorumlock: nothing was done about a key of another type, which is no lock, at "str" on 2 of 3 nodes: `+anotherName+"\n", r.stderr)
	assert.Equal(t, []string{"str"}, lockKeys(servers[0]))
}

func TestForgedOwners(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3)
	servers.open(t)
	for _, s := range servers {
		_, err := s.Command("HSET", "k", "\x1b[2Jx\ny", "1")
		require.NoError(t, err)
	}
	for _, args := range [][]string{
		{"status", "k", "--nodes", servers.nodes()},
		{"run", "--key", "k", "--wait", "0s", "--nodes", servers.nodes(), "echo"},
		{"release", "--force", "k", "--nodes", servers.nodes()},
	} {
		r := call(t, args...)
		assert.NotContains(t, r.stdout+r.stderr, "\x1b")
		assert.NotContains(t, r.stdout+r.stderr, "\ny")
		assert.Contains(t, r.stdout+r.stderr, ` "\x1b[2Jx\ny"`)
	}
}

func TestForcedRelease(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	lease := servers.hold(t)
	requireEverywhere(t, servers)

	r := call(t, "release", "k", "--nodes", servers.nodes())
	assert.Equal(t, exitFailure, r.code)
	requireEverywhere(t, servers)

	r = call(t, "release", "--force", "k", "--nodes", servers.nodes())
	assert.Zero(t, r.code, r.stderr)
	for _, s := range servers {
		assert.Contains(t, r.stdout, fmt.Sprintf(`%s: removed "k" of %s, `, s.Addr(), quorumlock.DescribeOwner(lease.Owner())))
		assert.NotContains(t, s.Keys(), "k")
	}
	assert.Contains(t, r.stdout, `"k" was removed from 5 of 5 nodes`)
	assert.Contains(t, r.stderr, fmt.Sprintf("if %s is alive, it may go on until its next renewal fails, and others can have %q from now on\n", quorumlock.DescribeOwner(lease.Owner()), "k"))
	ended(t, lease)

	r = call(t, "release", "--force", "k", "--nodes", servers.nodes())
	assert.Zero(t, r.code, r.stderr)
	assert.Contains(t, r.stdout, "nothing there")
	assert.Contains(t, r.stdout, `"k" was not held on any node that answered`)
	assert.Empty(t, r.stderr)
}

func TestForcedReleaseWithNodesDown(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	servers.hold(t)
	requireEverywhere(t, servers)
	for _, s := range servers[:3] {
		s.Kill()
	}
	r := call(t, "release", "--force", "k", "--nodes", servers.nodes())
	assert.Equal(t, exitNoQuorum, r.code)
	assert.Contains(t, r.stdout, servers[0].Addr()+": not removed: ")
	assert.Contains(t, r.stdout, `"k" was removed from 2 of 5 nodes`)
	assert.Contains(t, r.stderr, `no quorum: 2 of 5 nodes answered for "k", 3 needed`)
}

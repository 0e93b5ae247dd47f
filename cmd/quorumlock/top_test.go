//go:build unix

package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// jsonTop runs top --once --json as a separate process, and checks the names that scripts rely on.
func jsonTop(t *testing.T, args ...string) (locks, nodes map[string]map[string]any, report map[string]any) {
	t.Helper()
	out, err := selfCommand(t, append([]string{"top", "--once", "--json"}, args...)...).Output()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(out, &report), string(out))
	assert.ElementsMatch(t, []string{"need", "answered", "complete", "nodes", "locks"}, fields(report))
	locks, nodes = make(map[string]map[string]any), make(map[string]map[string]any)
	for _, l := range report["locks"].([]any) {
		lock := l.(map[string]any)
		assert.ElementsMatch(t, []string{
			"key", "semaphore", "permit", "state", "owner", "holder", "purpose", "readers",
			"since", "held_ms", "held_at_least", "ttl_ms", "backing", "waiters",
		}, fields(lock))
		locks[lock["key"].(string)] = lock
	}
	for _, n := range report["nodes"].([]any) {
		node := n.(map[string]any)
		assert.ElementsMatch(t, []string{"node", "error", "latency_ms", "recovering_ms", "locks", "note"}, fields(node))
		nodes[node["node"].(string)] = node
	}
	return locks, nodes, report
}

func TestTopOnce(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	holder := begin(t, "run", "--key", "job", "--purpose", "nightly report", "--nodes", servers.nodes(), "--", "sh", "-c", "echo has it; read x")
	require.Equal(t, "has it", holder.line())
	lease := servers.hold(t)
	requireKeys(t, servers, "job", "k")

	locks, nodes, report := jsonTop(t, "--nodes", servers.nodes())
	assert.EqualValues(t, 3, report["need"])
	assert.EqualValues(t, 5, report["answered"])
	assert.Equal(t, true, report["complete"])
	require.Len(t, locks, 2)
	job := locks["job"]
	assert.Equal(t, "held", job["state"])
	assert.Regexp(t, `^[^ ]+/\d+$`, job["holder"])
	assert.Equal(t, "nightly report", job["purpose"])
	assert.EqualValues(t, 5, job["backing"])
	assert.InDelta(t, 8000, job["ttl_ms"], 2500)
	assert.Zero(t, job["waiters"])
	since, err := time.Parse(time.RFC3339, job["since"].(string))
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now(), since, patience)
	assert.Equal(t, lease.Owner(), locks["k"]["owner"])
	assert.Equal(t, quorumlock.ParseOwner(lease.Owner()).Holder, locks["k"]["holder"])
	for _, s := range servers {
		assert.EqualValues(t, 2, nodes[s.Addr()]["locks"])
		assert.Empty(t, nodes[s.Addr()]["error"])
	}

	servers[0].Kill()
	locks, nodes, report = jsonTop(t, "--nodes", servers.nodes(), "k", "free")
	assert.EqualValues(t, 4, report["answered"])
	assert.Contains(t, nodes[servers[0].Addr()]["error"], "unreachable")
	assert.EqualValues(t, 4, locks["k"]["backing"])
	assert.Equal(t, "free", locks["free"]["state"])
	require.Len(t, locks, 2)

	r := call(t, "top", "--nodes", servers.nodes())
	assert.Zero(t, r.code, "without a terminal it looks once")
	assert.Contains(t, r.stdout, "4 of 5 nodes answer (3 needed), 2 locks held, 0 waiting\n")
	assert.Regexp(t, `(?m)^job +4/5 +\d+\.\ds +>?\d+s +0 +[^ ]+/\d+ +nightly report$`, r.stdout)
	assert.NotContains(t, r.stdout, "\x1b")

	servers[1].Kill()
	servers[2].Kill()
	r = call(t, "top", "k", "--nodes", servers.nodes())
	assert.Equal(t, exitNoQuorum, r.code)
	assert.Contains(t, r.stdout, "2 of 5 nodes answer (3 needed)")
	holder.reply()
}

// requireKeys waits until all servers have the keys: a lock is held before the slowest server has answered.
func requireKeys(t *testing.T, servers fleet, keys ...string) {
	t.Helper()
	for _, s := range servers {
		require.Eventually(t, func() bool { return assert.ObjectsAreEqual(keys, lockKeys(s)) }, patience, time.Millisecond)
	}
}

// TestTopWithTheRightsOfPrograms: a user with only the rights of programs may not list keys, and gets advice.
func TestTopWithTheRightsOfPrograms(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3)
	servers.open(t)
	nodes := servers.as(t)
	r := call(t, "top", "--once", "--nodes", nodes)
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.stderr, "may not list keys: name the locks (quorumlock top KEY...), or permit it +scan +hlen")
	assert.Empty(t, r.stdout)
	locks, _, report := jsonTop(t, "job:a", "--nodes", nodes)
	assert.Equal(t, "free", locks["job:a"]["state"])
	assert.Equal(t, true, report["complete"])

	servers.as(t, "+scan", "+hlen")
	r = call(t, "top", "--once", "--nodes", nodes)
	assert.Zero(t, r.code, r.stderr)
}

func TestTopWrongUsage(t *testing.T) {
	for says, args := range map[string][]string{
		"--json is for --once":                    {"--json"},
		"--interval 1ms is under 100ms":           {"--interval", "1ms"},
		"--scan -1 is negative":                   {"--scan", "-1"},
		"--scan 0 needs the names of locks":       {"--scan", "0"},
		"is none of name, held, ttl and waiters":  {"--sort", "size"},
		"nodes in memory have no locks of others": {"--embedded", "3"},
		"--node-timeout 0s is not positive":       {"--node-timeout", "0s"},
		"no nodes: give --nodes":                  nil,
		"address 1":                               {"--nodes", "http://x"},
	} {
		r := call(t, append([]string{"top"}, args...)...)
		assert.Equal(t, exitFailure, r.code, args)
		assert.Contains(t, r.stderr, says)
		assert.Contains(t, r.stderr, "Try 'quorumlock top --help'.")
	}
}

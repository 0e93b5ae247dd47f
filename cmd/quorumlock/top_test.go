//go:build unix

package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/internal/exit"
	"github.com/quorumlock/quorumlock/cmd/internal/report"
)

// jsonTop runs top --json as a separate process, and checks the names that scripts rely on.
func jsonTop(t *testing.T, args ...string) (locks, nodes map[string]map[string]any, top map[string]any) {
	t.Helper()
	out, err := selfCommand(t, append([]string{"top", "--json"}, args...)...).Output()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(out, &top), string(out))
	assert.ElementsMatch(t, strings.Fields("need answered complete nodes locks"), fields(top))
	by := func(list, key, names string) map[string]map[string]any {
		all := make(map[string]map[string]any)
		for _, one := range top[list].([]any) {
			object := one.(map[string]any)
			assert.ElementsMatch(t, strings.Fields(names), fields(object))
			all[object[key].(string)] = object
		}
		return all
	}
	return by("locks", "key", "key semaphore permit state owner holder purpose readers since held_ms ttl_ms backing waiters"),
		by("nodes", "node", "node error latency_ms recovering_ms locks note"), top
}

func TestTop(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	holder := begin(t, "run", "--key", "job", "--purpose", "nightly report", "--nodes", servers.nodes(), "--", "sh", "-c", "echo has it; read x")
	require.Equal(t, "has it", holder.line())
	lease := servers.hold(t)
	servers.requireLocks(t, "job", "k")

	locks, nodes, top := jsonTop(t, "--nodes", servers.nodes())
	assert.EqualValues(t, 3, top["need"])
	assert.EqualValues(t, 5, top["answered"])
	assert.Equal(t, true, top["complete"])
	require.Len(t, locks, 2)
	job := locks["job"]
	assert.Equal(t, report.Held, job["state"])
	assert.Regexp(t, `^[^ ]+/\d+$`, job["holder"])
	assert.Equal(t, "nightly report", job["purpose"])
	assert.EqualValues(t, 5, job["backing"])
	assert.InDelta(t, 8000, job["ttl_ms"], 2500)
	assert.Zero(t, job["waiters"])
	since, err := time.Parse(time.RFC3339, job["since"].(string))
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now(), since, patience)
	assert.Equal(t, lease.Owner(), locks["k"]["owner"])
	for _, s := range servers {
		assert.EqualValues(t, 2, nodes[s.Addr()]["locks"])
		assert.Empty(t, nodes[s.Addr()]["error"])
	}

	servers[0].Kill()
	locks, nodes, _ = jsonTop(t, "--nodes", servers.nodes(), "k", "free")
	assert.Contains(t, nodes[servers[0].Addr()]["error"], "unreachable")
	assert.EqualValues(t, 4, locks["k"]["backing"])
	assert.Equal(t, report.Free, locks["free"]["state"])
	require.Len(t, locks, 2)

	r := servers.call(t, "top")
	assert.Zero(t, r.code)
	assert.Contains(t, r.stdout, "4 of 5 nodes answer (3 needed), 2 locks held, 0 waiting\n")
	assert.Regexp(t, `(?m)^job +4/5 +\d+\.\ds +\d+s +0 +[^ ]+/\d+ +nightly report$`, r.stdout)
	assert.NotContains(t, r.stdout, "\x1b")

	servers[1].Kill()
	servers[2].Kill()
	assert.Equal(t, exit.NoQuorum, servers.call(t, "top k").code)
	holder.reply()
}

// TestTopWithTheRightsOfPrograms: a user with only the rights of programs may not list keys, and gets advice.
func TestTopWithTheRightsOfPrograms(t *testing.T) {
	t.Parallel()
	servers := openFleet(t, 3)
	nodes := servers.as(t)
	r := call(t, "top", "--nodes", nodes)
	assert.Zero(t, r.code, r.stderr)
	assert.Contains(t, r.stdout, "not all keys were searched")
	assert.Contains(t, r.stdout, "not searched for locks: the user may not list keys (+scan +hlen): name the locks")
	locks, _, top := jsonTop(t, "job:a", "--nodes", nodes)
	assert.Equal(t, report.Free, locks["job:a"]["state"])
	assert.Equal(t, true, top["complete"])

	servers.as(t, "+scan", "+hlen")
	r = call(t, "top", "--nodes", nodes)
	assert.NotContains(t, r.stdout, "not searched for locks")
}

// Commands with a prefix use, show and break the locks of one application, by names without the prefix.
func TestPrefix(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	other := servers.hold(t)
	holder := begin(t, "run", "--prefix", "billing:", "--key", "k", "--nodes", servers.nodes(), "--", "sh", "-c", "echo $QUORUMLOCK_KEY; read x")
	require.Equal(t, "k", holder.line())
	servers.requireLocks(t, "billing:k", "k")

	locks, _, _ := jsonTop(t, "--nodes", servers.nodes(), "--prefix", "billing:")
	assert.Equal(t, []string{"k"}, slices.Collect(maps.Keys(locks)))
	assert.NotEqual(t, other.Owner(), locks["k"]["owner"])
	all, _, _ := jsonTop(t, "--nodes", servers.nodes())
	assert.Equal(t, []string{"billing:k", "k"}, slices.Sorted(maps.Keys(all)))
	said := servers.status(t, exit.OK, "k --prefix billing:")
	assert.Contains(t, said, `"k" is held by `)
	assert.NotContains(t, said, idOf(other))
	r := servers.call(t, "run --prefix billing: --key k --wait 0s true")
	assert.Equal(t, exit.Held, r.code, r.stderr)
	servers.release(t, exit.OK, "k --prefix billing:")
	assert.Equal(t, exit.Lost, holder.exit())
	assert.Contains(t, servers.status(t, exit.OK, "k", other), `"k" is held by A `, "the lock of another application stays")
}

// The environment gives the prefix where the flag does not.
func TestPrefixOfTheEnvironment(t *testing.T) {
	t.Setenv(prefixEnv, "billing:")
	r := call(t, "run", "--embedded", "1", "--key", "k", "--", "sh", "-c", "echo $QUORUMLOCK_PREFIX $QUORUMLOCK_KEY")
	require.Equal(t, exit.OK, r.code, r.stderr)
	assert.Equal(t, "billing: k\n", r.stdout)
}

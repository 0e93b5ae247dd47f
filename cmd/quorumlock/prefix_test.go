//go:build unix

package main

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Commands with a prefix use, show and break the locks of one application, by names without the prefix.
func TestPrefix(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	other := servers.hold(t)
	holder := begin(t, "run", "--prefix", "billing:", "--key", "k", "--nodes", servers.nodes(), "--", "sh", "-c", "echo $QUORUMLOCK_KEY; read x")
	require.Equal(t, "k", holder.line())
	requireKeys(t, servers, "billing:k", "k")

	locks, _, _ := jsonTop(t, "--nodes", servers.nodes(), "--prefix", "billing:")
	assert.Equal(t, []string{"k"}, slices.Collect(maps.Keys(locks)))
	assert.NotEqual(t, other.Owner(), locks["k"]["owner"])
	all, _, _ := jsonTop(t, "--nodes", servers.nodes())
	assert.Equal(t, []string{"billing:k", "k"}, slices.Sorted(maps.Keys(all)))

	r := call(t, "status", "k", "--json", "--prefix", "billing:", "--nodes", servers.nodes())
	require.Equal(t, exitOK, r.code, r.stderr)
	var report struct {
		Locks []map[string]any `json:"locks"`
	}
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &report))
	require.Len(t, report.Locks, 1)
	assert.Equal(t, "k", report.Locks[0]["key"])
	assert.Equal(t, locks["k"]["owner"], report.Locks[0]["owner"])

	r = call(t, "run", "--prefix", "billing:", "--key", "k", "--wait", "0s", "--nodes", servers.nodes(), "--", "true")
	assert.Equal(t, exitHeld, r.code, r.stderr)
	r = call(t, "release", "--force", "k", "--prefix", "billing:", "--nodes", servers.nodes())
	require.Equal(t, exitOK, r.code, r.stderr)
	assert.Equal(t, exitLost, holder.exit())
	status := jsonStatus(t, servers, exitOK, "k")
	assert.Equal(t, other.Owner(), status[0]["owner"], "the lock of another application stays")

	r = call(t, "status", "k", "--prefix", "two words", "--nodes", servers.nodes())
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.stderr, `--prefix "two words" has a space`)
	r = call(t, "demo", "--prefix", "billing:")
	assert.Equal(t, exitFailure, r.code)
}

// The environment gives the prefix where the flag does not.
func TestPrefixOfTheEnvironment(t *testing.T) {
	t.Setenv(prefixEnv, "billing:")
	r := call(t, "run", "--embedded", "1", "--key", "k", "--", "sh", "-c", "echo $QUORUMLOCK_PREFIX $QUORUMLOCK_KEY")
	require.Equal(t, exitOK, r.code, r.stderr)
	assert.Equal(t, "billing: k\n", r.stdout)
	r = call(t, "run", "--embedded", "1", "--prefix", "two words", "--key", "k", "--", "true")
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.stderr, "--prefix")
}

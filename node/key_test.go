package node

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// kinds lists the kinds of keys that the scripts keep for a name.
var kinds = []string{"queue", "waiting", "writers", "readers", "latch", "latched", "awaiting", "tombstone"}

// everyName lists all names of one to six bytes over an alphabet.
func everyName(alphabet string) (names []string) {
	last := []string{""}
	for range 6 {
		var longer []string
		for _, name := range last {
			for _, letter := range alphabet {
				longer = append(longer, name+string(letter))
			}
		}
		names = append(names, longer...)
		last = longer
	}
	return names
}

// Two names never share a key, and a Redis Cluster keeps all keys of a name in one slot. A name
// with a '}' but without a hash tag has no such keys. A hash tag cannot hold a '}'.
func TestEveryNameHasKeysOfItsOwn(t *testing.T) {
	of := make(map[string]string)
	for _, name := range everyName("a{}:0") {
		pool := wire.PoolName(name)
		keys := []string{name, pool, wire.SlotName(pool, 0), wire.SlotName(pool, 1), wire.SlotName(pool, 2)}
		for _, kind := range kinds {
			keys = append(keys, wire.Key(kind, name), wire.Key(kind, pool), wire.Key(kind, wire.SlotName(pool, 0)), wire.Key(kind, wire.SlotName(pool, 2)))
		}
		stable := wire.HashTag(name) != name || !strings.Contains(name, "}")
		for _, k := range keys {
			if other, taken := of[k]; taken {
				t.Fatalf("%q is a key of %q and of %q", k, other, name)
			}
			of[k] = name
			if stable && wire.HashTag(k) != wire.HashTag(name) {
				t.Fatalf("%q is a key of %q, and has another hash tag", k, name)
			}
		}
	}
}

// The scripts and this package use the same keys for every name.
func TestScriptsKnowTheKeysOfEveryName(t *testing.T) {
	server := redisproc.Start(t)
	script := source("lib/key", "lib/book", "lib/vacancies") + `
local keys = {}
for _, name in ipairs(ARGV) do
  keys[#keys + 1] = key('fence', name)
  local pool = key('permits', name)
  keys[#keys + 1] = slot(pool, 12)
  keys[#keys + 1] = slot(pool, '')
  keys[#keys + 1] = number_of(slot(pool, 12))
end
return table.concat(keys, '\n')`
	names := append(everyName("a{}:0"), "", "\x00", "{\x00}", "\x00{a}\x00", "%{.}", strings.Repeat("{", 500), strings.Repeat("a", 500)+"{}")
	for some := range slices.Chunk(names, 1000) {
		var keys []string
		for _, name := range some {
			pool := wire.PoolName(name)
			keys = append(keys, wire.Key("fence", name), wire.SlotName(pool, 12), wire.SlotsName(pool, ""), "12")
		}
		text, err := server.Command(append([]string{"EVAL", script, "0"}, some...)...)
		require.NoError(t, err)
		require.Equal(t, keys, strings.Split(text, "\n"))
	}
}

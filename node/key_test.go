package node

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// kinds are all kinds of keys that the scripts keep for a name.
var kinds = []string{"fence", "queue", "waiting", "woken", "readers", "latch", "latched", "awaiting", "tombstone"}

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

// hashTag is the part of a key that a Redis Cluster hashes, as its specification says.
func hashTag(key string) string {
	begin := strings.IndexByte(key, '{')
	if begin < 0 {
		return key
	}
	length := strings.IndexByte(key[begin+1:], '}')
	if length <= 0 {
		return key
	}
	return key[begin+1 : begin+1+length]
}

// Two names never share a key, and a Redis Cluster keeps all keys of a name in one slot. There can be
// no such keys for a name that has a '}' but no hash tag: no hash tag can hold a '}'.
func TestEveryNameHasKeysOfItsOwn(t *testing.T) {
	of := make(map[string]string)
	for _, name := range everyName("a{}:0") {
		pool := PoolName(name)
		keys := []string{name, pool, SlotName(pool, 0), SlotName(pool, 1), SlotName(pool, 2)}
		for _, kind := range kinds {
			keys = append(keys, key(kind, name), key(kind, pool), key(kind, SlotName(pool, 0)), key(kind, SlotName(pool, 2)))
		}
		stable := hashTag(name) != name || !strings.Contains(name, "}")
		for _, k := range keys {
			if other, taken := of[k]; taken {
				t.Fatalf("%q is a key of %q and of %q", k, other, name)
			}
			of[k] = name
			if stable {
				require.Equal(t, hashTag(name), hashTag(k), "key %q of %q", k, name)
			}
		}
	}
}

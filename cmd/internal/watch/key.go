package watch

import (
	"strings"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// own is the prefix of the library's own keys, and pools the prefix of pool names.
const (
	own   = "quorumlock:"
	pools = own + "permits"
)

// mayBeLock reports whether a key can be a lock, and is not one of the library's own keys.
func mayBeLock(key string) bool {
	_, _, permit := Permit(key)
	return permit || !strings.HasPrefix(key, own)
}

// Permit splits the name of a permit's lock into the semaphore and the number of the permit.
func Permit(name string) (semaphore string, permit int, ok bool) {
	pool, slots, ok := wire.Vacated(name)
	if !ok || len(slots) != 1 || wire.SlotName(pool, slots[0]) != name {
		return "", 0, false
	}
	semaphore = strings.TrimPrefix(pool, pools+":")
	if tagged, ok := strings.CutPrefix(semaphore, ":"); ok {
		semaphore = tagged
	} else {
		semaphore = strings.TrimSuffix(strings.TrimPrefix(semaphore, "{"), "}")
	}
	return semaphore, slots[0], wire.PoolName(semaphore) == pool
}

// queueKey returns the key of one of the sorted sets of a name's queue: see node/scripts/lib/queue.lua. Waiters for
// permits are in the queue of their pool.
func queueKey(kind, name string) string {
	if semaphore, _, ok := Permit(name); ok {
		name = wire.PoolName(semaphore)
	}
	return keyOf(kind, name)
}

// keyOf returns the key of one kind for a name.
func keyOf(kind, name string) string {
	return own + kind + strings.TrimPrefix(wire.PoolName(name), pools) // all keys of a name end alike
}

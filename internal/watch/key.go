package watch

import (
	"strings"

	"github.com/quorumlock/quorumlock/node"
)

// own begins the library's own keys, and pools the names of pools.
const (
	own   = "quorumlock:"
	pools = own + "permits"
)

// mayBeLock reports whether a lock can be at a key: all but those that the library keeps beside them.
func mayBeLock(key string) bool {
	_, _, permit := Permit(key)
	return permit || !strings.HasPrefix(key, own)
}

// Permit is which permit of which semaphore a lock is, if it is one.
func Permit(name string) (semaphore string, permit int, ok bool) {
	pool, slots, ok := node.Vacated(name)
	if !ok || len(slots) != 1 || node.SlotName(pool, slots[0]) != name {
		return "", 0, false
	}
	semaphore = strings.TrimPrefix(pool, pools+":")
	if tagged, ok := strings.CutPrefix(semaphore, ":"); ok {
		semaphore = tagged
	} else {
		semaphore = strings.TrimSuffix(strings.TrimPrefix(semaphore, "{"), "}")
	}
	return semaphore, slots[0], node.PoolName(semaphore) == pool
}

// queueKey is where a node keeps one of the sorted sets of the queue of a name: see
// node/scripts/lib/queue.lua. Waiters for permits stand in the queue of their pool.
func queueKey(kind, name string) string {
	if semaphore, _, ok := Permit(name); ok {
		name = node.PoolName(semaphore)
	}
	return own + kind + strings.TrimPrefix(node.PoolName(name), pools) // all keys of a name end alike
}

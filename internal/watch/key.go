package watch

import (
	"strings"

	"github.com/quorumlock/quorumlock/node"
)

// own is what the library's own keys begin with, and permits what those of semaphores do.
const (
	own     = "quorumlock:"
	permits = own + "permit:"
)

// mayBeLock reports whether a lock can be at a key: all but those that the library keeps beside them.
func mayBeLock(key string) bool {
	_, _, permit := Permit(key)
	return permit || !strings.HasPrefix(key, own)
}

// Permit is which permit of which semaphore a lock is, if it is one.
func Permit(name string) (semaphore string, permit int, ok bool) {
	pool, semaphore := poolOf(name)
	if pool == "" || node.PoolName(semaphore) != pool {
		return "", 0, false
	}
	permit = node.SlotOf(pool, name)
	return semaphore, permit, permit >= 0
}

// poolOf is the pool of a slot, and the semaphore by that; "" if it is none.
func poolOf(name string) (pool, semaphore string) {
	i := strings.LastIndexByte(name, ':')
	if !strings.HasPrefix(name, permits) || i <= len(permits) {
		return "", ""
	}
	pool = name[:i]
	semaphore = pool[len(permits):]
	if tagged, ok := strings.CutPrefix(semaphore, ":"); ok {
		return pool, tagged
	}
	return pool, strings.TrimSuffix(strings.TrimPrefix(semaphore, "{"), "}")
}

// queueKey is where a node keeps one of the sorted sets of the queue of a name: see
// node/scripts/lib/queue.lua. For permits they wait in the queue of their pool.
func queueKey(kind, name string) string {
	if semaphore, _, ok := Permit(name); ok {
		name = node.PoolName(semaphore)
	}
	if strings.Contains(name, "{") {
		return own + kind + "::" + name
	}
	return own + kind + ":{" + name + "}"
}

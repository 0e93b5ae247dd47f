package wire

import (
	"context"
	"strings"
)

// Lister is a node that can list its locks.
type Lister interface {
	// List returns the names of hashes of one field among the next keys of the server: locks, as [MayBeLock] allows, and keys
	// of other programs that look like one. It begins at cursor 0, and returns the next cursor, or 0 at the end. A name that
	// is there all the time is returned at least once. The memory and the work of a call are bounded. The user needs the
	// rights +scan and +hlen; names that it may not read are left out. The error is a *node.Error.
	List(ctx context.Context, cursor uint64) (names []string, next uint64, err error)
}

// MayBeLock reports whether a key can be a lock, and is not one of the library's own keys.
func MayBeLock(key string) bool {
	_, _, permit := Permit(key)
	return permit || !strings.HasPrefix(key, "quorumlock:")
}

// IsLock reports whether the holder of a name that [Lister] returned holds a lock: it expires, and its owner looks like one
// of this library or of Redisson.
func (h Holder) IsLock() bool {
	id, _, _ := strings.Cut(h.Owner, " ")
	client, number, _ := strings.Cut(id, ":")
	return h.TTL != NoExpiry && (h.Reads || client != "" && number != "" && strings.Trim(number, "0123456789") == "")
}

// Permit splits the name of a permit's lock into the semaphore and the number of the permit.
func Permit(name string) (semaphore string, permit int, ok bool) {
	pool, slots, ok := Vacated(name)
	if !ok || len(slots) != 1 || SlotName(pool, slots[0]) != name {
		return "", 0, false
	}
	semaphore = strings.TrimPrefix(pool, poolPrefix+":")
	if tagged, ok := strings.CutPrefix(semaphore, ":"); ok {
		semaphore = tagged
	} else {
		semaphore = strings.TrimSuffix(strings.TrimPrefix(semaphore, "{"), "}")
	}
	return semaphore, slots[0], PoolName(semaphore) == pool
}

// WithPrefix returns a name as the nodes know it, with the prefix. The name of a permit has the prefix in the name of its
// semaphore.
func WithPrefix(prefix, name string) string {
	if prefix == "" {
		return name
	}
	if semaphore, permit, ok := Permit(name); ok {
		return SlotName(PoolName(prefix+semaphore), permit)
	}
	return prefix + name
}

// WithoutPrefix is the reverse of WithPrefix.
func WithoutPrefix(prefix, name string) string {
	if prefix == "" {
		return name
	}
	if semaphore, permit, ok := Permit(name); ok {
		return SlotName(PoolName(strings.TrimPrefix(semaphore, prefix)), permit)
	}
	return strings.TrimPrefix(name, prefix)
}

// HasPrefix reports whether a name on the nodes belongs to the programs with that prefix. The prefix alone is no name of
// theirs.
func HasPrefix(prefix, name string) bool {
	if semaphore, _, ok := Permit(name); ok {
		name = semaphore
	}
	return prefix == "" || len(name) > len(prefix) && strings.HasPrefix(name, prefix)
}

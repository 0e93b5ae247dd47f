package watch

import "github.com/quorumlock/quorumlock/internal/wire"

// queueKey returns the key of one of the sorted sets of a name's queue: see node/scripts/lib/queue.lua. Waiters for
// permits are in the queue of their pool.
func queueKey(kind, name string) string {
	if semaphore, _, ok := wire.Permit(name); ok {
		name = wire.PoolName(semaphore)
	}
	return wire.Key(kind, name)
}

package quorumlock

import "github.com/quorumlock/quorumlock/quorum"

// RedLock is a lock that a majority of the nodes has to grant: q = N/2 + 1. It
// survives the loss of the other nodes, in the middle of a hold too.
//
// The name is also the Redis key, a hash laid out as Redisson's RLock lays it out. It
// must not be empty, longer than MaxNameLength, or start with "quorumlock:". A name
// that breaks this is reported by every method of the lock, as an [*InvalidError].
//
// The lock is a description: it costs nothing, holds nothing, and can be made anew for
// every use.
func (c *Client) RedLock(name string) *Lock {
	return newLock(c, []string{name}, quorum.Majority())
}

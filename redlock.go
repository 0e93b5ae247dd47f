package quorumlock

import "github.com/quorumlock/quorumlock/quorum"

// RedLock describes a lock that needs a majority of the nodes: q = N/2 + 1. It survives the loss of
// the other nodes, also while it is held.
//
// The name is also the Redis key, a hash with the layout of Redisson's RLock. It must not be empty,
// longer than 512 bytes, or start with "quorumlock:". Every method of the lock reports an
// invalid name, as an [*InvalidError].
//
// The lock is a description: it costs nothing, holds nothing, and can be made anew for every use.
func (c *Client) RedLock(name string) *Lock {
	return newLock(c, []string{name}, quorum.Majority())
}

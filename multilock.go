package quorumlock

import "github.com/quorumlock/quorumlock/quorum"

// MultiLock describes a lock on one or more names at once, all or none, that needs every node.
// While a node is down it cannot be acquired. A lease ends when its time on any node does. Use it
// where stopping is better than going on with fewer nodes. For several names with a majority, use
//
//	client.MultiLock(names...).With(quorumlock.LockOptions{Rule: quorum.Majority()})
//
// All names are taken in one round trip, with one script per node. Their order does not matter: two
// MultiLocks cannot deadlock. The rules of RedLock hold for each name. Every method reports a
// repeated name, no name, or more than MaxNames, as an [*InvalidError].
func (c *Client) MultiLock(names ...string) *Lock {
	return newLock(c, names, quorum.All())
}

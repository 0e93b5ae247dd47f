package quorumlock

import "github.com/quorumlock/quorumlock/quorum"

// MultiLock is a lock on one or several names at once, all or none, that every node
// has to grant. While a node is down it cannot be acquired, and a lease that loses a
// node ends when its time on that node does: it is for those who would rather stop
// than go on with less than all nodes. Several names with a majority are
//
//	client.MultiLock(names...).With(quorumlock.LockOptions{Rule: quorum.Majority()})
//
// All names are taken in one script per node and one round trip, whatever their order:
// two MultiLocks cannot deadlock. What RedLock says of names holds for each; the same
// name twice, no name, or more than MaxNames is reported by every method of the lock,
// as an [*InvalidError].
func (c *Client) MultiLock(names ...string) *Lock {
	return newLock(c, names, quorum.All())
}

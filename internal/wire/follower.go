package wire

// Follower is an [Inbox] that also gets the messages for Redisson's clients when a lock is released: by such
// a client, or by a [Release], [Shorten] or [ForceRelease] with [Op.Announce]. The inboxes of node.redisNode are Followers.
//
// Both methods are safe for concurrent use. deliver must not call them: it would wait for itself.
type Follower interface {
	// Follow delivers [Announced] for each message about the lock, and returns once the node has confirmed
	// it. No later message is missed, except between a [Lost] and the next [Resubscribed], which restores all
	// followed locks. To follow a lock twice is the same as once.
	//
	// If Follow fails, the lock is not followed. The error is an *node.Error: with node.ErrUnreachable if the
	// subscription is lost at the moment, with node.ErrAuth if the user lacks the right. Follow takes at most as
	// long as the node needs to notice that the server has fallen silent.
	Follow(name string) error
	// Unfollow ends it. A message in flight may still be delivered. To unfollow a lock that is not followed
	// is harmless.
	Unfollow(name string)
}

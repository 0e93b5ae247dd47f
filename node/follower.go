package node

// Follower is an [Inbox] that also hears what Redisson's clients are told when a lock is
// released: by such a client, or by a [Release] or [ForceRelease] with [Op.Announce]. The
// inboxes of [Redis] and [Memory] are.
//
// Both methods are safe for concurrent use. Neither may be called by deliver, which would
// wait for itself.
type Follower interface {
	// Follow has [Announced] delivered for each message about the lock, and returns once the
	// node has confirmed that: none that is sent later is missed, but between a [Lost] and
	// the [Resubscribed] behind it, which puts back what was followed. To follow a lock twice
	// is to follow it once.
	//
	// If it fails, the lock is not followed. The error is an [*Error]: with [ErrUnreachable]
	// if the inbox is lost just now, with [ErrAuth] if the user lacks the right. It takes no
	// longer than it takes to notice that a node has fallen silent.
	Follow(name string) error
	// Unfollow ends that. What is under way may still be delivered. To end what is not
	// followed is harmless.
	Unfollow(name string)
}

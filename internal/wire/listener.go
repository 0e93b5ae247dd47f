package wire

import (
	"context"
)

// Listener is a node.Node that delivers messages to waiters, such as node.redisNode. It is optional: a
// waiter on another node has to ask again from time to time.
type Listener interface {
	// Listen subscribes to the inbox of a client, and returns once the node has confirmed it: a message to an
	// entry that is made later is never missed without notice. The subscription lasts until the inbox or the
	// node is closed. If it is lost, deliver gets [Lost]. The inbox then subscribes again by itself, as often
	// as it takes, and deliver gets [Resubscribed].
	//
	// One goroutine calls deliver, in the order of the messages. deliver must return soon, since the next
	// messages wait for it. It must close neither the inbox nor the node. It may be called before Listen
	// returns, and until Close of the inbox or the node returns.
	//
	// The client is the part of its waiters' ids before the colon. The context bounds Listen only. The error
	// is an *node.Error; with node.ErrAuth it says which right the user lacks. If a client has several inboxes, all
	// of them get its messages.
	Listen(ctx context.Context, client string, deliver func(Message)) (Inbox, error)
}

// Inbox is a subscription to the messages for the waiters of one client.
type Inbox interface {
	// Close ends the subscription, and waits until deliver has returned. It is safe for concurrent use, and
	// to close twice is harmless.
	Close() error
}

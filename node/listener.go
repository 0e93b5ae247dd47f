package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Listener is a [Node] that delivers messages to waiters. [Redis] and [Memory] are. It is
// optional: on other nodes, who waits has to ask again.
type Listener interface {
	// Listen subscribes to the inbox of a client, and returns once the node has confirmed
	// that: no message to an entry that is made later is missed without notice. The
	// subscription lasts until the inbox or the node is closed. If it is lost, deliver gets
	// [Lost]; it is made again by itself, as often as it takes, and then deliver gets
	// [Resubscribed].
	//
	// deliver is called by one goroutine, in the order of the messages. It must return
	// soon, as the next ones wait behind it, and must close neither the inbox nor the
	// node. It may be called until the Close of either returns, and before Listen does.
	//
	// The client is what stands in the ids of its waiters before the colon. The context
	// bounds Listen only. The error is an [*Error]; with [ErrAuth] it says which right the
	// user lacks. Several inboxes of one client all get its messages.
	Listen(ctx context.Context, client string, deliver func(Message)) (Inbox, error)
}

// Inbox is a subscription to the messages for the waiters of one client.
type Inbox interface {
	// Close ends it, and waits until deliver has returned. It is safe for concurrent use,
	// and closing twice is harmless.
	Close() error
}

// Listen has a node listen, if it is a [Listener]. If it is none, the error is an [*Error]
// with [ErrMisconfigured] and [errors.ErrUnsupported]. It serves nodes that stand before
// others, too.
func Listen(ctx context.Context, n Node, client string, deliver func(Message)) (Inbox, error) {
	if l, ok := n.(Listener); ok {
		return l.Listen(ctx, client, deliver)
	}
	return nil, &Error{Node: n.Name(), Reason: ErrMisconfigured, Err: errors.ErrUnsupported}
}

// checkClient refuses what is not the part of an id before a colon.
func checkClient(client string) error {
	if client == "" || strings.Contains(client, ":") {
		return fmt.Errorf("%.30q cannot be the id of a client", client)
	}
	return nil
}

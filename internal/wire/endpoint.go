package wire

import (
	"context"
	"time"
)

// DefaultTimeout is the default of node.Options.ConnectTimeout and Timeout.
const DefaultTimeout = time.Second

// Endpoint is the side of a node that a client works with, and a program does not see: each node.Node has it. The
// other interfaces here are what some nodes can do besides.
type Endpoint interface {
	// Identity identifies the server behind the node: two nodes with one identity are one server. It is known
	// from the last connect or later, and empty before the first connect. It changes when the server restarts
	// or fails over.
	Identity() string
	// Do runs the operations in order, in one exchange if possible, and stores the answer to ops[i] in
	// replies[i]; both slices have the same length. Calls that do not overlap take effect in the order of the
	// calls, also across a reconnect: no operation runs behind one that is sent later. A node bounds each call by a
	// timeout of its own, even if the context has no deadline. So a hung server cannot block a caller for ever.
	Do(ctx context.Context, ops []Op, replies []Reply)
}

// Connector is a node that knows whether it is connected. A caller first lets such a node connect, by
// Probe, since a connect may take longer than an operation. Without a Probe, Do connects.
type Connector interface {
	// Connected reports whether there is a usable connection, by what the client knows without sending
	// anything. It does not block. A closed node counts as connected, so that Do answers with node.ErrClosed.
	Connected() bool
}

// Host is a node that knows which process its server is. A process that keeps its memory may still get another
// identity: when its first replica attaches, or an hour after its last one has gone. The node may learn that much later.
type Host interface {
	// Server returns the Identity of the server, and what tells its process from every other one, or "". It does
	// not block.
	Server() (identity, process string)
}

// Pipeliner is a node whose calls of Do can be under way together, on one connection.
type Pipeliner interface {
	// RoundTrip is the shortest time in which the server has answered on the present connection, or 0 until
	// that is known well enough. Calls of Do may overlap if it is long against the work of a call. Operations of calls that
	// overlap run in any order. RoundTrip does not block.
	RoundTrip() time.Duration
}

// Weak is a node that knows which losses of its server would go unnoticed. Only options accept such a server. Its methods
// tell as of the last connect or later, return "" if there is nothing to tell, and do not block.
type Weak interface {
	// Eviction says by which settings the server may evict locks: see node.Options.AllowEviction.
	Eviction() string
	// Unseen says why the server cannot tell that it has restarted or failed over: see node.Options.AllowUnseenLosses.
	Unseen() string
}

// Located is a node that knows where its server is.
type Located interface {
	// Address returns the address of the server that the node was last connected to, or "". It changes when Sentinels or
	// a cluster name another server.
	Address() string
}

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

// Follower is a [Listener] that can also deliver the messages for Redisson's clients: a lock is released by such a
// client, or by a [Release], [Shorten] or [ForceRelease] with [Op.Announce].
type Follower interface {
	// Follow is Listen, and deliver also gets an [Announced] for each such message, of any lock. The error wraps node.ErrAuth
	// if the user lacks a right to one of the two.
	Follow(ctx context.Context, client string, deliver func(Message)) (Inbox, error)
}

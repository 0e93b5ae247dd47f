package wire

import (
	"context"
	"time"
)

// DefaultTimeout is the default of node.Options.ConnectTimeout and Timeout.
const DefaultTimeout = time.Second

// Endpoint is the side of a node that a client works with, and a program does not see: each node.Node has it. Server,
// RoundTrip, Eviction and Unseen answer as of the last connect or later, and do not block.
type Endpoint interface {
	// Server identifies the server behind the node: two nodes with one identity are one server. The identity is empty before
	// the first connect, and changes when the server restarts or fails over. A process that keeps its memory may get another
	// one too: when its first replica attaches, or an hour after its last one has gone. The node may learn that much later.
	// What tells the process from every other one is "" if it is unknown.
	Server() (identity, process string)
	// Do runs the operations in order, in one exchange if possible, and stores the answer to ops[i] in
	// replies[i]; both slices have the same length. Calls that do not overlap take effect in the order of the
	// calls, also across a reconnect: no operation runs behind one that is sent later. A node bounds each call by a
	// timeout of its own, even if the context has no deadline. So a hung server cannot block a caller for ever.
	Do(ctx context.Context, ops []Op, replies []Reply)
	// RoundTrip is the shortest time in which the server has answered on the present connection, or 0 if that is not known
	// well enough. Calls of Do may overlap if it is long against the work of a call. Operations of calls that overlap run in
	// any order.
	RoundTrip() time.Duration
	// Eviction says by which settings the server may evict locks, or "": see node.Options.AllowEviction.
	Eviction() string
	// Unseen says why the server cannot tell that it has restarted or failed over, or "": see node.Options.AllowUnseenLosses.
	Unseen() string
	// Listen subscribes to the inbox of a client, and returns once the node has confirmed it: a message to an
	// entry that is made later is never missed without notice. The subscription lasts until the inbox or the
	// node is closed. If it is lost, deliver gets [Lost]. The inbox then subscribes again by itself, as often
	// as it takes, and deliver gets [Resubscribed].
	//
	// If follows is set, deliver also gets an [Announced] for each message to Redisson's clients, of any lock: such a client
	// has released it, or a [Release], [Shorten] or [ForceRelease] with [Op.Announce].
	//
	// One goroutine calls deliver, in the order of the messages. deliver must return soon, since the next
	// messages wait for it. It must close neither the inbox nor the node. It may be called before Listen
	// returns, and until Close of the inbox or the node returns.
	//
	// The client is the part of its waiters' ids before the colon. The context bounds Listen only. The error
	// is an *node.Error; with node.ErrAuth it says which right the user lacks. If a client has several inboxes, all
	// of them get its messages.
	Listen(ctx context.Context, client string, follows bool, deliver func(Message)) (Inbox, error)
	// List returns the names of hashes of one field among the next keys of the server: locks, as [MayBeLock] allows, and keys
	// of other programs that look like one. It begins at cursor 0, and returns the next cursor, or 0 at the end. A name that
	// is there all the time is returned at least once. The memory and the work of a call are bounded. The user needs the
	// rights +scan and +hlen; names that it may not read are left out. The error is a *node.Error.
	List(ctx context.Context, cursor uint64) (names []string, next uint64, err error)
}

// Connector is a node that knows whether it is connected. A caller first lets such a node connect, by
// Probe, since a connect may take longer than an operation. Without a Probe, Do connects.
type Connector interface {
	// Connected reports whether there is a usable connection, by what the client knows without sending
	// anything. It does not block. A closed node counts as connected, so that Do answers with node.ErrClosed.
	Connected() bool
}

// Located is a node that knows where its server is.
type Located interface {
	// Address returns the address of the server that the node was last connected to, or "". It changes when Sentinels or
	// a cluster name another server.
	Address() string
}

// Inbox is a subscription to the messages for the waiters of one client.
type Inbox interface {
	// Close ends the subscription, and waits until deliver has returned. It is safe for concurrent use, and
	// to close twice is harmless.
	Close() error
}

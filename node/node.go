// Package node has what a program says about one Redis server, and hears from it: where it is and how to connect
// ([Options]), why it failed ([Error]), and which owners it knows ([Holder]). A client makes its nodes by itself from
// addresses; [New] is for settings that an address cannot have, and for clients that share nodes.
//
// Package node/memory has nodes within the process, for tests.
package node

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// Node is one independent Redis deployment: a server, a master behind Sentinel, or a slot of a Redis Cluster.
// [New], the module goredis and package node/memory make nodes. A program cannot implement one, since the operations
// of a node are internal. It should not embed one in a type of its own either: a client would not see all that the node can do.
//
// All methods are safe for concurrent use. A Node bounds each call by a timeout of its own, even if the
// context has no deadline. So a hung server cannot block a caller for ever.
type Node interface {
	// Name identifies the node to people and distinguishes nodes: usually host:port. It holds no secrets.
	Name() string
	// Probe reports whether the node answers, at the least possible cost. It connects if necessary.
	Probe(ctx context.Context) error
	// Close frees the connection. Calls under way and later ones fail with ErrClosed or a broken connection.
	// To close twice is harmless.
	Close() error

	// Endpoint has what clients ask of the node.
	wire.Endpoint
}

// Limits are values on which clients of the same nodes rely each for the others: MaxTTL is the longest TTL of any lock,
// MaxClockSkew is how far the clock of a client may be ahead of a node's, and Longer is a recovery for the limits of other
// clients, if these are larger; otherwise 0. Its method Recovery returns how long a node that has lost its memory, or is new,
// gives the client no new locks: until every lock that it may have granted has expired, and every token that it may have
// accepted is in the past for all clients.
type Limits = wire.Limits

// Holder is the owner of a name on one node, with its remaining TTL.
type Holder struct {
	Name string
	// Owner is the id of the holder's lease, or the value of a key that another program has set.
	Owner string
	// TTL is how long the name stays held without a renewal, or [NoExpiry].
	TTL time.Duration
	// Token is the largest fencing token that the holder may use. It is 0 for a holder that is no client of this
	// library. For readers it is the largest token that the node knows of the name.
	Token uint64
	// Reads is set for a reader; a name may have several.
	Reads bool
}

// NoExpiry is the TTL of a [Holder] whose key never expires. This library never writes such a key.
const NoExpiry time.Duration = wire.NoExpiry

// Readers stands for the readers of a name where a single owner is told.
const Readers = wire.Readers

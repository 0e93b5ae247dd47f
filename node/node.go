// Package node has what a program says about one Redis server, and hears from it: where it is and how to connect
// ([Options]), why it failed ([Error]), and which owners it knows ([Holder]). A client makes its nodes by itself from
// addresses; [New] and [Open] are for settings that an address cannot have, and for clients that share nodes.
//
// Package node/memory has nodes within the process, for tests.
package node

import (
	"context"

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

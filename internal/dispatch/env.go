package dispatch

import (
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Env is what senders need from their client. All fields are required.
type Env struct {
	Clock clock.Clock
	// TimeoutMin and TimeoutMax bound how long a sender waits for an exchange.
	TimeoutMin, TimeoutMax time.Duration
	// ConnectTimeout bounds how long calls wait while the sender connects to the node.
	ConnectTimeout time.Duration
	// Jitter returns a random number in [0, 1), for the pauses between probes.
	Jitter func() float64
	// Recovery is how long a node recovers that has lost its memory.
	Recovery time.Duration
	// List says how nodes learn which nodes the client uses.
	List   List
	Events Events
}

// Events get the news of nodes from their senders. All methods are called with the sender's
// mutex held, so the news of a node come in order: they must not block, and must not call this package.
type Events interface {
	// NodeDown says that an exchange with the node failed, or that the node refuses to serve; it is only
	// probed until NodeUp.
	NodeDown(node string, err error)
	// NodeUp says that a probe of a node that was down has succeeded.
	NodeUp(node string)
	// NodeRecovering says that the node has lost its memory and gives no new rights until
	// the given time. hadMarker is set if it had its marker when the recovery began.
	NodeRecovering(node string, since, until time.Time, hadMarker bool)
	// NodeRecovered says that the node gives new rights again.
	NodeRecovered(node string)
	// NodeRefuses says that the node rejects this client until its settings or its clock are corrected.
	NodeRefuses(node string, err error)
	// NodeServes says that a node that refused this client serves it again.
	NodeServes(node string)
	// MayEvict says that the node's server may evict locks, and by which settings.
	MayEvict(node, settings string)
	// LossesUnseen says that the node's server cannot tell that it has lost its memory, and why.
	LossesUnseen(node, reason string)
	// SameServer says that two nodes are one server: node has no vote, the other one has.
	SameServer(node, other string)
	// CapacityFreed says that Capacity may have grown.
	CapacityFreed()
}

// List says how the list of a client's nodes is told to nodes.
type List struct {
	// Key is the key of the lists on nodes. Nothing is told if it is empty.
	Key string
	// Holder names the client to people.
	Holder string
	// Terms are those of the client.
	Terms wire.Terms
}

// shared is what the senders of a client have in common.
type shared struct {
	env        Env
	identities identities
	lists      lists
	// goroutines owns every goroutine that talks to a node.
	goroutines errgroup.Group
}

package quorumlock

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// Hooks are told what happens, for metrics and logs. Every function may be nil. They
// are called one after another, in the order of events, from a goroutine of their own:
// a slow hook delays the next, but no lease and no node, and what waits to be told is
// kept in memory. They may call this package, except that a Close waits for them. A
// panic in a hook ends the program, as in any goroutine.
type Hooks struct {
	// Acquired: a lease was granted after so many attempts and so much waiting.
	Acquired func(AcquiredEvent)
	// Acquisition: a call that acquires has ended, with a lease or without, and all nodes
	// that it asked have voted. The slower ones vote later: so this may be told after
	// Acquired, and even after Ended, by no more than the timeout of a node.
	//
	// Calls that are answered without asking anybody are not told: of leases that are nested,
	// arguments that make no sense, contexts that have ended.
	Acquisition func(AcquisitionEvent)
	// Voted: a node has voted on an acquisition or a renewal, or it is known that it will
	// not. There is one for each node and round, so a busy client tells very many.
	Voted func(VoteEvent)
	// AttemptFailed: an attempt to acquire ended without a lease. Err is what
	// TryAcquire returns; Acquire tries again unless that cannot help.
	AttemptFailed func(AttemptFailedEvent)
	// Renewed: a quorum confirmed a renewal.
	Renewed func(RenewedEvent)
	// RenewalFailed: a round of renewal did not get a quorum. It is tried again until
	// the lease ends.
	RenewalFailed func(RenewalFailedEvent)
	// BackingChanged: more or fewer nodes back a lease than before; of a lease that all
	// nodes back from the start, nothing is told until one does not.
	BackingChanged func(BackingEvent)
	// Ended: a lease is over: released, lost, over its limit, leaked, or closed. Err
	// is the cause of its context.
	Ended func(EndedEvent)
	// LossFound: a Release has found that its lease was lost before. It is told after Ended,
	// which says that the lease was released: this is known only once the nodes have answered.
	LossFound func(LossFoundEvent)
	// Latch: a call on a latch has ended.
	Latch func(LatchEvent)
	// NodeDown: a node does not answer, and is only probed from now on.
	NodeDown func(node string, err error)
	// NodeUp: it answers again.
	NodeUp func(node string)
	// NodeRecovering: a node has lost its memory, or is new, and gives no new locks for
	// a time.
	NodeRecovering func(NodeRecoveringEvent)
}

// AcquiredEvent describes a grant.
type AcquiredEvent struct {
	Names []string
	Owner string
	Token uint64
	// Reads is set if it was granted to a reader; see [RWLock].
	Reads bool
	// Attempts is how many there were: none of a lease that was handed over at once.
	Attempts int
	// HandedOver is set if it came from another lease of this client, without the network.
	HandedOver bool
	// Waited is the time from the call to the grant.
	Waited time.Duration
}

// AcquisitionEvent describes a call that acquires, from its beginning to its end.
type AcquisitionEvent struct {
	// Context is that of the call, for its values: it may have ended.
	Context context.Context
	Names   []string
	// Reads is set for a reader; see [RWLock].
	Reads bool
	// Began is the time of the call, by the wall clock of this process, and Took the time
	// from then to the grant, or to the failure.
	Began time.Time
	Took  time.Duration
	// Attempts is how many there were, and Asking how much of Took they needed. The rest of it
	// was waiting for others.
	Attempts int
	Asking   time.Duration
	// Votes are those of all attempts, in the order in which they came; of more than 128
	// the last ones, and Dropped counts the others.
	Votes   []VoteEvent
	Dropped int
	// Owner and Token are those of the lease, and HandedOver is set if it came from another
	// lease of this client, without the network.
	Owner      string
	Token      uint64
	HandedOver bool
	// Err is what the call returned, if there is no lease.
	Err error
}

// VoteEvent describes the vote of one node in one round.
type VoteEvent struct {
	Node string
	// Op is Acquire or Renew.
	Op    node.Kind
	Names []string
	// Owner is that of the round: of those that fail, each has its own.
	Owner string
	Vote  quorum.Vote
	// Unsent is set if the node was not asked, as it had failed just before, or had too much
	// to do.
	Unsent bool
	// At is when the vote was counted, by the wall clock of this process, and Took the time
	// since the operation was sent, or until it was not waited for any longer; 0 if Unsent.
	At   time.Time
	Took time.Duration
	// Err is why it was not granted: a [*HeldError] if it was denied (or an error that says that
	// the owner was released by force), a [*node.Error] if the vote is unknown.
	Err error
}

// AttemptFailedEvent describes an attempt that did not get the lock.
type AttemptFailedEvent struct {
	Names []string
	// Attempt counts from 1.
	Attempt int
	Err     error
}

// RenewedEvent describes a renewal that a quorum confirmed.
type RenewedEvent struct {
	Names []string
	Owner string
	// Remaining is what the lease has left now.
	Remaining time.Duration
}

// RenewalFailedEvent describes a round of renewal without a quorum.
type RenewalFailedEvent struct {
	Names []string
	Owner string
	// Remaining is what the lease has left now.
	Remaining time.Duration
	Err       error
}

// BackingEvent describes which part of the nodes backs a lease.
type BackingEvent struct {
	Names []string
	Owner string
	// Have nodes of Want back the lease; it ends when they are fewer than Need.
	Have, Want, Need int
}

// NodeRecoveringEvent describes the recovery of a node.
type NodeRecoveringEvent struct {
	Node string
	// Since and Until are its beginning and its end, by the wall clock of this process.
	Since, Until time.Time
	// Restarted is set if the node came back with what it had on its disk, took over
	// from another server, got a first replica, or had its limits changed; else it came
	// back with nothing, or is new.
	Restarted bool
}

// EndedEvent describes the end of a lease.
type EndedEvent struct {
	Names []string
	Owner string
	// Token is that of the lease: leases that were handed over within the client have the
	// same owner.
	Token uint64
	// Held is the time since the grant, or since it was handed over.
	Held time.Duration
	// HandedOver is set if it was handed over to another waiter of this client.
	HandedOver bool
	Err        error
}

// LossFoundEvent describes a loss that the release of a lease has found.
type LossFoundEvent struct {
	Names []string
	Owner string
	Token uint64
	// Err is what Release returns: its cause is LossGone, LossTaken or LossForced.
	Err *LostError
}

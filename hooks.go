package quorumlock

import "time"

// Hooks are told what happens, for metrics and logs. Every function may be nil. They
// are called one after another, in the order of events, from a goroutine of their own:
// a slow hook delays the next, but no lease and no node, and what waits to be told is
// kept in memory. They may call this package, except that a Close waits for them. A
// panic in a hook ends the program, as in any goroutine.
type Hooks struct {
	// Acquired: a lease was granted after so many attempts and so much waiting.
	Acquired func(AcquiredEvent)
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
	// Attempts is how many there were: none of a lease that was handed over at once.
	Attempts int
	// HandedOver is set if it came from another lease of this client, without the network.
	HandedOver bool
	// Waited is the time from the call to the grant.
	Waited time.Duration
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
	Err  error
}

package faultinject

import "github.com/quorumlock/quorumlock/internal/wire"

// The kinds of operation that a client asks of a node, for [Only], and for the Kind of an operation of an [Exchange].
const (
	Acquire      = wire.Acquire
	Renew        = wire.Renew
	Release      = wire.Release      // also wakes waiters
	Shorten      = wire.Shorten      // a release that leaves the lock for a while, because of MinHold
	Leave        = wire.Leave        // of a waiter, from its queues
	Inspect      = wire.Inspect      // also the first step of a forced release
	ForceRelease = wire.ForceRelease // also ReleaseOwner
	Resize       = wire.Resize       // of a semaphore, and the question for its size
	Latch        = wire.Latch        // all calls on a latch but Delete
	Unlatch      = wire.Unlatch      // Delete of a latch
	Once         = wire.Once         // of work done once: the question for its record, and the record
	Refresh      = wire.Refresh      // of a client's waiters: the question how they stand
	Mark         = wire.Mark         // of package admin: the question for the marker
	Open         = wire.Open         // of package admin: the end of a recovery
)

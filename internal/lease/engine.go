// Package lease acquires rights on a quorum of nodes, keeps them, and gives them back.
//
// An [Engine] makes an attempt for a [Spec]: it asks all nodes, and their votes decide. A won
// attempt becomes a [Grant], one owner on the nodes. The scheduler renews the grant until it is
// released, lost, or over its limit. The holder of a grant has a [Lease]. Most grants have one
// lease; a hand-over ends it and starts the next.
//
// The package knows no queue of waiters and no public type. It gets both through interfaces: a
// waiter's place on the nodes is a [Ticket], the waiters of this client are [Locals], and the
// client makes [Errors] and [Events] of the facts.
//
// The lock order is Grant, then what Locals lock, Ticket, Release, and the senders of package
// dispatch. The mutexes of scheduler and TokenClock come last. docs/architecture.md lists all
// pairs. No goroutine holds two mutexes of one type, so two grants are never locked together.
// Hooks, callers' functions and operations of nodes never run under a mutex.
package lease

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Env has the inputs of an engine from its client. All fields are required.
type Env struct {
	// ID is the part of every owner id that no other client has.
	ID     string
	Clock  clock.Clock
	Jitter func() float64
	Nodes  *dispatch.Nodes
	// Limits are the settings that all clients of the nodes share.
	Limits wire.Limits
	// Timeout is the longest timeout of a node.
	Timeout time.Duration
	// MaxHandovers is how often in a row a grant is handed over, and HandoverTime how long after
	// the votes of the nodes.
	MaxHandovers int
	HandoverTime time.Duration
	// Announce makes nodes announce releases on Redisson's channels.
	Announce bool
	// Closing is closed when attempts must end with ErrClosed.
	Closing <-chan struct{}
	Locals  Locals
	Errors  Errors
	Events  Events
	// ReportVotes and ReportBacking are set if Events wants to know of them.
	ReportVotes, ReportBacking bool
}

// Engine makes the attempts of one client, and keeps its leases. It is safe for concurrent use.
type Engine struct {
	Env
	// Tokens proposes fencing tokens.
	Tokens TokenClock

	scheduler scheduler
	// sequence makes owner ids distinct.
	sequence atomic.Uint64
	// renewalPhase aligns the renewals of this client's leases; see decision.AlignToBunch.
	renewalPhase time.Duration
}

// New returns an engine without leases. It starts no goroutine.
func New(env Env) *Engine {
	e := &Engine{
		Env:    env,
		Tokens: newTokenClock(env.Clock, env.Limits, env.Timeout),
		// The bunches of no TTL are further apart than MaxTTL.
		renewalPhase: time.Duration(env.Jitter() * float64(env.Limits.MaxTTL)),
	}
	e.scheduler = scheduler{clock: env.Clock, capacity: e.renewalRoom, starved: make([]grantHeap, env.Nodes.Len()+1)}
	return e
}

// Close ends all leases with ErrClosed, and releases them. No attempt may be under way.
func (e *Engine) Close() {
	for _, g := range e.scheduler.stop() {
		g.end(ErrClosed)
	}
}

// OnForced handles the message of node i that an owner was forced off there. The message proves nothing. So
// once enough nodes have sent one to deny the lease its quorum, a renewal asks all nodes. Each further node
// causes one more renewal, since the messages may overtake the forced release on other nodes.
func (e *Engine) OnForced(i int, owner string) {
	for _, g := range e.scheduler.grants() {
		g.onForced(i, owner)
	}
}

// renewalRoom returns how long a renewal on need nodes takes if it is sent now, or noCapacity.
func (e *Engine) renewalRoom(need int) time.Duration {
	takes, ok := e.Nodes.Capacity(need)
	if !ok {
		return noCapacity
	}
	return takes
}

// NextID returns an id that no other caller has got, with a label at its end.
func (e *Engine) NextID(label string) string {
	var buf [256]byte
	b := append(append(buf[:0], e.ID...), ':')
	return string(append(strconv.AppendUint(b, e.sequence.Add(1), 10), label...))
}

// deadline returns when an operation that begins now counts the node as late: after TTL/3, in whole
// milliseconds. It is 0 if the timeout of a node is not longer than that.
func (e *Engine) deadline(s *Spec, now time.Duration) time.Duration {
	patience := (s.TTL / 3).Truncate(time.Millisecond)
	if patience >= e.Timeout {
		return 0
	}
	return now + patience
}

// Ticket is a waiter's place in the queues of the nodes. All methods may be called with the mutex
// of a grant held.
type Ticket interface {
	// Begin says that an attempt begins.
	Begin(now time.Duration)
	// Stamp adds the ticket to an acquisition on node i: a denial then queues it there.
	Stamp(op *wire.Op, i int)
	// Voted passes on the answer of node i to the acquisition. Only a denial needs the time.
	Voted(i int, now time.Duration, r *wire.Reply)
	// Withdrawn says that the acquisition on node i is not sent. With never, no other of the same attempt was sent
	// there.
	Withdrawn(i int, never bool)
	// Freed says that node i has granted, and that the grant is being undone. late is set if the
	// attempt was over when the node granted.
	Freed(i int, now time.Duration, late bool)
	// AfterUndo returns the ticket as node i should keep it when a failed attempt is undone there.
	AfterUndo(i int) wire.Waiter
	// Leaver returns the ticket as nodes see it when the waiter has gone: they remove it.
	Leaver() wire.Waiter
	// Leave removes the ticket from the queue of node i, which gets no other operation of the owner.
	Leave(i int)
	// Close says that the waiter's grant has ended. Late answers must not queue the ticket again.
	Close()
}

// Locals are the waiters of the same client. All methods are called with the mutex of the grant
// held, and must not call the engine.
type Locals interface {
	// OnTaken says that this client holds a lock.
	OnTaken(g *Grant)
	// OnReleased says that local waiters must ask the nodes from now on: the grant has ended, or it became a reader's. The operations for that are queued already.
	OnReleased(g *Grant)
	// HandOver gives the grant to a local waiter, if there is one for it. It calls next once, for
	// the lease of that waiter, and reports whether it did.
	HandOver(g *Grant, next func(*Spec) *Lease) bool
}

// Events are told what happens to grants and leases. Most methods are called with the mutex of the
// grant held. They must not block, and of the grant and the lease they may call only methods that
// take no mutex: Owner, Spec, Token.
type Events interface {
	// Voted says how a node voted on an acquisition or a renewal. It is called only if
	// Env.ReportVotes is set.
	Voted(g *Grant, v Vote)
	// Renewed says that a quorum confirmed a renewal, RenewalFailed that none did.
	Renewed(g *Grant, remaining time.Duration)
	RenewalFailed(g *Grant, remaining time.Duration, err error)
	// BackingChanged says that have of want nodes back the lease now. It is called only if
	// Env.ReportBacking is set.
	BackingChanged(g *Grant, have, want int)
	// Ended says that a lease has ended, and how long it was held.
	Ended(l *Lease, held time.Duration, handedOver bool, cause error)
	// LossFound says that a lease had been lost before its release.
	LossFound(l *Lease, err error)
}

// Trace follows one call that acquires. Its methods are called with the mutex of a grant held.
type Trace interface {
	// Asked says that a node is asked to vote, Voted how it voted.
	Asked()
	Voted(g *Grant, v Vote)
	// Attempted says how long an attempt took. It is called without that mutex.
	Attempted(took time.Duration)
}

// HeldBy returns the error of a waiter to which the nodes named these holders, one for each node. It is nil if
// too few nodes named one.
func (e *Engine) HeldBy(s *Spec, told []wire.Holder) error {
	var holders []wire.Holder
	var nodes []int
	for i, h := range told {
		if h.Name != "" {
			holders, nodes = append(holders, h), append(nodes, i)
		}
	}
	if len(holders) < s.Need {
		return nil
	}
	return e.heldBy(s, mostNamed(holders), nodes)
}

// heldBy returns the error that names a holder, and the nodes that told of it.
func (e *Engine) heldBy(s *Spec, h wire.Holder, nodes []int) error {
	names := make([]string, len(nodes))
	for k, i := range nodes {
		names[k] = e.Nodes.Name(i)
	}
	return e.Errors.Held(Holder{Name: s.DisplayName(h.Name), Owner: h.Owner, TTL: h.TTL, Permits: s.Slots != nil, Nodes: names})
}

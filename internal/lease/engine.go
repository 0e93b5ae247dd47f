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
	"context"
	"errors"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/internal/slots"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Spec says what to acquire, and how. It is made once for each lock, and immutable.
type Spec struct {
	// Names are the names on the nodes, sorted. For a semaphore they are the slots of an attempt,
	// or the name of its pool.
	Names []string
	// Queue identifies the local queue: the name, or several names with their lengths, or the pool
	// of a semaphore. It is an array, so that Names of a lock with one name need no memory.
	Queue [1]string
	// Label is the readable part of owner ids, with a space before it, or empty.
	Label string
	// Need is the number of nodes of the rule.
	Need                  int
	TTL, MinHold, MaxHold time.Duration
	// MaxOutage bounds how long its waiters go on while too few nodes answer. 0 is no bound, and a negative one is none at
	// all: the first attempt that fails so is the last.
	MaxOutage time.Duration
	// Slots is the request for permits of a semaphore, or nil for a lock.
	Slots *slots.Request
	// Fixed turns renewal off.
	Fixed bool
	// Reads is set for readers, which share the lock.
	Reads bool
	// Spins is set for waiters that poll: nodes keep no queue for them.
	Spins bool
	// HandOver is set if a lease may be handed over to another waiter of the client.
	HandOver bool
	// Prefix is the length of the client's prefix, with which all Names of a lock begin.
	Prefix uint8
}

// DisplayName returns the name to show for a name of the lock, which is the name without the
// client's prefix. For a slot, it is the semaphore's.
func (s *Spec) DisplayName(name string) string {
	if s.Slots != nil {
		return s.Slots.Semaphore
	}
	return name[min(int(s.Prefix), len(name)):]
}

// returnSlots ends what an attempt began when it chose its slots.
func (s *Spec) returnSlots(released bool) {
	if s.Slots != nil {
		s.Slots.GiveUp(s.Names, released)
	}
}

// firstTTL is the TTL of an acquisition. With it the nodes keep the lock for the MinHold by themselves, whatever
// becomes of its holder.
func (s *Spec) firstTTL() time.Duration {
	if s.MinHold == 0 {
		return s.TTL
	}
	return max(s.TTL, decision.TTLFor(s.MinHold))
}

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

	locals    Locals
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
		locals: noLocals{},
		Tokens: newTokenClock(env),
		// The bunches of no TTL are further apart than MaxTTL.
		renewalPhase: time.Duration(env.Jitter() * float64(env.Limits.MaxTTL)),
	}
	e.scheduler = scheduler{clock: env.Clock, capacity: e.renewalRoom, starved: make([]grantHeap, env.Nodes.Len()+1)}
	return e
}

// SetLocals connects the engine with the waiters of its client. It is called before the first
// attempt, if at all.
func (e *Engine) SetLocals(l Locals) { e.locals = l }

// OnCapacity makes the scheduler look whether nodes have capacity for more renewals.
func (e *Engine) OnCapacity() { e.scheduler.onCapacity() }

// Close ends all leases with ErrClosed, and releases them. No attempt may be under way.
func (e *Engine) Close() {
	for _, g := range e.scheduler.stop() {
		g.end(ErrClosed)
	}
}

// NextID returns an id that no other caller has got.
func (e *Engine) NextID() string { return string(e.appendID(nil)) }

func (e *Engine) appendID(b []byte) []byte {
	b = append(b, e.ID...)
	b = append(b, ':')
	return strconv.AppendUint(b, e.sequence.Add(1), 10)
}

// nextOwner returns an owner id for an attempt. No id is used twice.
func (e *Engine) nextOwner(s *Spec) string {
	var buf [256]byte
	return string(append(e.appendID(buf[:0]), s.Label...))
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

// maxBlockAhead bounds how far a reserved token block may run ahead of the time that the client proposes,
// which is its clock plus its lead. The proposal of the next contender, a later time, must be larger.
const maxBlockAhead = 10 * time.Millisecond

// blockSize returns how many tokens an acquisition reserves beyond its own, for hand-overs.
func (e *Engine) blockSize(token uint64) uint64 {
	return decision.Block(e.Tokens.BlockEnd(), token, e.MaxHandovers)
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

// noLocals stands for a client without waiters.
type noLocals struct{}

func (noLocals) OnTaken(*Grant)                           {}
func (noLocals) OnReleased(*Grant)                        {}
func (noLocals) HandOver(*Grant, func(*Spec) *Lease) bool { return false }

// Never is a time that does not come.
const Never = time.Duration(math.MaxInt64)

// AddTime returns at + d, or Never if that overflows.
func AddTime(at, d time.Duration) time.Duration {
	if d > Never-at {
		return Never
	}
	return at + d
}

// ContextError returns the error of a context that has ended, together with its cause.
func ContextError(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ctx.Err()) {
		return cause
	}
	return errors.Join(ctx.Err(), cause)
}

// GaveUp wraps the last error of a call, and why the call ended.
func GaveUp(err, why error) error { return &pair{err, ": gave up: ", why} }

// pair is two errors as one. It makes its text when it is asked for it: where many callers give up, the texts would
// cost more than the rest of their calls.
type pair struct {
	first   error
	between string
	second  error
}

func (p *pair) Error() string { return p.first.Error() + p.between + p.second.Error() }

func (p *pair) Unwrap() []error { return []error{p.first, p.second} }

// Package wait gets leases for callers: in one attempt, or in a queue.
//
// The waiters of one client for one lock form a local queue, in FIFO order. Usually only the first of
// them talks to the nodes. It has a ticket, its place in the queues of the nodes. A node that is freed
// sends a message to the first waiter in its queue, and the router passes the message to the
// ticket. The ticket forecasts when an attempt is worth its cost. Package lease makes the attempt. About once a
// second, the heart of the client asks all nodes how all tickets stand, in case messages were lost.
//
// The lock order is Queues, heart, inbox.Set, router, ticket. The mutex of a grant comes before all of
// them, and the mutexes of package dispatch come after them. The mutex of crowd comes last.
package wait

import (
	"context"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/inbox"
	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/slots"
)

// Env has the inputs of the waiters of a client, besides its engine.
type Env struct {
	// RetryMin and RetryMax bound the backoff between two attempts when nodes cannot wake a waiter.
	RetryMin, RetryMax time.Duration
	// Slots are the pools of semaphores.
	Slots  *slots.Pools
	Events Events
}

// Events are told what happens to waiters. The methods must not block.
type Events interface {
	// AttemptFailed says that an attempt has ended without a lease. attempt counts from 1.
	AttemptFailed(s *lease.Spec, attempt int, err error)
	// CannotFollow says, once for each node, that waiters do not hear of Redisson's releases there.
	CannotFollow(node string, err error)
}

// Latches wait for count-downs, through the same subscriptions. The methods must not block, and must
// not call the subscriptions.
type Latches interface {
	// Counted passes on the message of node i that an id was counted down.
	Counted(i int, name string)
	// SubscriptionsChanged says that messages may have been missed, or arrive from now on.
	SubscriptionsChanged()
}

// Queues are the local queues of one client: the waiters of one lock each. Usually only the first
// waiter of a queue talks to the nodes, while this client does not hold the lock; [waiter.mayAttempt]
// has the exceptions. A waiter behind it costs the nodes nothing. It is safe for concurrent use.
type Queues struct {
	env     Env
	engine  *lease.Engine
	latches Latches
	router  router
	heart   heart

	mu sync.Mutex
	by map[queueKey]*localQueue
	// spare are empty queues, for reuse.
	spare   []*localQueue
	denials denials

	crowd crowd
}

// New returns the queues of the client with this engine. They have no waiter and no subscription.
func New(e *lease.Engine, env Env) *Queues {
	qs := &Queues{env: env, engine: e, crowd: crowd{byNeed: make([]deadlineHeap, e.Nodes.Len()+1)}}
	qs.router.init(qs)
	qs.heart.init(qs)
	e.SetLocals(qs)
	return qs
}

// SetLatches makes the router pass on the messages for latches. It must precede the first Use of the
// subscriptions.
func (qs *Queues) SetLatches(l Latches) { qs.latches = l }

// Subscriptions returns the subscriptions of the client, for its other waiters.
func (qs *Queues) Subscriptions() *inbox.Set { return qs.router.subscriptions }

// Close closes the subscriptions. No call may be under way.
func (qs *Queues) Close() {
	qs.heart.stop()
	qs.router.subscriptions.Close()
}

// Result is a lease, and how it was acquired.
type Result struct {
	Lease *lease.Lease
	// Attempts counts the attempts. Waited is the time from the call to the grant.
	Attempts int
	Waited   time.Duration
	// HandedOver is set if another lease of this client was handed over.
	HandedOver bool
}

// Trace follows a call that acquires.
type Trace interface {
	lease.Trace
	// Attempted says how long an attempt took.
	Attempted(took time.Duration)
}

// Acquire waits in the local queue until the lock is taken, or waiting cannot help. trace may be
// nil.
func (qs *Queues) Acquire(ctx context.Context, s *lease.Spec, trace Trace) (Result, error) {
	w := qs.newWaiter(s, trace)
	r, err := w.run(ctx)
	w.finish(r.Lease)
	return r, err
}

// maxSlotAttempts bounds how often a TryAcquire asks for slots that the nodes have just reported as
// free.
const maxSlotAttempts = 5

// TryAcquire makes an attempt without the local queue. For a semaphore it makes a few, while nodes
// report that other slots are free. trace may be nil.
func (qs *Queues) TryAcquire(ctx context.Context, s *lease.Spec, trace Trace) (Result, error) {
	if qs.Crowded(ctx, s) {
		err := qs.engine.CrowdedError(s)
		qs.env.Events.AttemptFailed(s, 1, err)
		return Result{}, err
	}
	began := qs.engine.Clock.Now()
	for tries, now := 1, began; ; tries, now = tries+1, qs.engine.Clock.Now() {
		l, again, err := qs.attempt(ctx, s, lease.Request{Began: now}, trace)
		switch {
		case err == nil:
			return Result{Lease: l, Attempts: tries, Waited: l.GrantedAt() - began}, nil
		case ctx.Err() != nil:
			err = lease.GaveUp(err, lease.ContextError(ctx))
		}
		qs.env.Events.AttemptFailed(s, tries, err)
		if ctx.Err() != nil || tries == maxSlotAttempts || !again.OtherSlots {
			return Result{}, err
		}
	}
}

// attempt makes one attempt, and tells the trace how long it took.
func (qs *Queues) attempt(ctx context.Context, s *lease.Spec, r lease.Request, trace Trace) (*lease.Lease, lease.Retry, error) {
	if trace == nil {
		return qs.engine.Attempt(ctx, s, r)
	}
	r.Trace = trace
	began := qs.engine.Clock.Now()
	l, again, err := qs.engine.Attempt(ctx, s, r)
	trace.Attempted(qs.engine.Clock.Now() - began)
	return l, again, err
}

// backoffBefore returns the pause before the next attempt: a growing, jittered backoff, or the time
// until enough claims expire if that is shorter.
func (qs *Queues) backoffBefore(attempt int, r lease.Retry) time.Duration {
	backoff := decision.Backoff(attempt-1, qs.env.RetryMin, max(qs.env.RetryMax, qs.contentionPause()), qs.engine.Jitter())
	if r.FreeAfter <= 0 {
		return backoff // no expiry to wait for
	}
	return min(backoff, max(r.FreeAfter, time.Millisecond))
}

// EntryTTL is how long nodes keep what a client tells them in each beat, if it beats as often as it ever does.
func (qs *Queues) EntryTTL() time.Duration { return qs.entryTTLFor(BeatInterval) }

// entryTTL is how long nodes keep a waiter after an attempt or a beat: until after the next beat.
func (qs *Queues) entryTTL() time.Duration {
	return qs.entryTTLFor(time.Duration(qs.heart.interval.Load()))
}

// longestEntryTTL is the longest time for which a node may keep a waiter.
func (qs *Queues) longestEntryTTL() time.Duration { return qs.entryTTLFor(maxBeatInterval) }

func (qs *Queues) entryTTLFor(interval time.Duration) time.Duration {
	return (interval + 2*BeatInterval + 2*qs.engine.Timeout).Truncate(time.Millisecond)
}

// The bounds of SettleTime.
const (
	minSettle = time.Millisecond
	maxSettle = 20 * time.Millisecond
)

// SettleTime is how long most nodes need for an answer, with a margin. Events that happen on all
// nodes at the same time arrive within it.
func (qs *Queues) SettleTime() time.Duration {
	return min(max(4*qs.engine.Nodes.MedianLatency(), minSettle), maxSettle)
}

// contentionPause is 8 latencies: the bound of a backoff is at least that. A failed attempt blocks other
// contenders for 2 latencies, until its grants are undone. Shorter pauses let a few contenders on
// slow links block each other for seconds.
func (qs *Queues) contentionPause() time.Duration { return 8 * qs.engine.Nodes.MedianLatency() }

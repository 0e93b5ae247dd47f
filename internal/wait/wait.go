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
	"time"

	"github.com/quorumlock/quorumlock/internal/inbox"
	"github.com/quorumlock/quorumlock/internal/lease"
)

// New returns the queues of a client, and its engine, which has them as its Locals. They have no waiter and no
// subscription.
func New(leases lease.Env, env Env) (*Queues, *lease.Engine) {
	qs := &Queues{crowd: crowd{byNeed: make([]deadlineHeap, leases.Nodes.Len()+1)}}
	leases.Locals = qs
	qs.env, qs.engine = env, lease.New(leases)
	qs.interval.Store(int64(BeatInterval))
	qs.router.init(&qs.shared)
	qs.heart.init(&qs.router)
	return qs, qs.engine
}

// Subscriptions returns the subscriptions of the client, for its other waiters.
func (qs *Queues) Subscriptions() *inbox.Set { return qs.subscriptions }

// Close closes the subscriptions. No call may be under way.
func (qs *Queues) Close() {
	qs.heart.stop()
	qs.subscriptions.Close()
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

// Acquire waits in the local queue until the lock is taken, or waiting cannot help. trace may be
// nil.
func (qs *Queues) Acquire(ctx context.Context, s *lease.Spec, trace lease.Trace) (Result, error) {
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
func (qs *Queues) TryAcquire(ctx context.Context, s *lease.Spec, trace lease.Trace) (Result, error) {
	if qs.Crowded(ctx, s) {
		err := qs.engine.CrowdedError(s)
		qs.env.Events.AttemptFailed(s, 1, err)
		return Result{}, err
	}
	began := qs.engine.Clock.Now()
	for tries, now := 1, began; ; tries, now = tries+1, qs.engine.Clock.Now() {
		l, again, err := qs.engine.Attempt(ctx, s, lease.Request{Began: now, Trace: trace})
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

// Crowded reports whether the nodes cannot answer a call for this lock before the context ends.
func (qs *Queues) Crowded(ctx context.Context, s *lease.Spec) bool {
	end, ok := ctx.Deadline()
	return ok && qs.engine.Nodes.Crowded(s.Need, time.Until(end)) //nolint:forbidigo // deadlines of contexts are of package time
}

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

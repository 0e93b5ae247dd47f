// Package dispatch carries operations to nodes and their answers back.
//
// Each node has one sender: a queue, and a goroutine that sends the queue, batch after batch, in
// order. To a node far away, several goroutines send batches that overlap. A sender measures how fast its
// node answers, and gives up on exchanges that take too long. It probes a node that failed instead of
// flooding it. It keeps undos that failed until they succeed or are pointless.
//
// The package knows nothing of locks and leases: it reports answers to a [Receiver], and
// news about a node to [Events].
package dispatch

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// Nodes are the nodes of one client, with a sender each. It is safe for concurrent use.
type Nodes struct {
	shared
	senders []*sender
}

// New returns senders for the nodes, in the same order. It starts no goroutine.
func New(nodes []node.Node, env Env) *Nodes {
	n := &Nodes{shared: shared{env: env}}
	n.lists.tell = func() { n.startRounds() }
	for i, nd := range nodes {
		n.senders = append(n.senders, newSender(&n.shared, i, len(nodes), nd))
	}
	n.lists.own = listOf(n.senders)
	n.lists.own.Terms = env.List.Terms
	return n
}

// Len is the number of nodes.
func (n *Nodes) Len() int { return len(n.senders) }

// All is the set of all nodes.
func (n *Nodes) All() decision.Set { return 1<<len(n.senders) - 1 }

// Node is node i.
func (n *Nodes) Node(i int) node.Node { return n.senders[i].node }

// Name is the name of node i.
func (n *Nodes) Name(i int) string { return n.senders[i].node.Name() }

// Submit queues a call to node i. Calls to one node that share a name are sent in the order of their
// submission, except undos with Front set.
//
// An error means that the node is not asked now, and the receiver will not be told. Such a
// call is dropped, unless it is an undo: that is kept, and sent when the node answers again.
func (n *Nodes) Submit(i int, c *Call) error { return n.senders[i].submit(c) }

// Withdraw takes a call to node i back that was submitted and is not an undo. It reports whether it did: then the
// call is never sent, and its receiver is not told. Otherwise the call was sent or answered.
func (n *Nodes) Withdraw(i int, c *Call) bool { return n.senders[i].withdraw(c) }

// Send submits the call to each node of a set, in ascending order, and returns the nodes that
// are asked. For a node that is not asked now, it calls refused before it returns, with no lock
// of this package held. So the caller may hold a lock of its own, which refused and Answer
// need. Send asks no more nodes once refused returns false.
func (n *Nodes) Send(calls *Calls, set decision.Set, refused func(i int, err error) bool) (asked decision.Set) {
	for i := range set.All() {
		if err := n.Submit(i, calls.To(i)); err == nil {
			asked = asked.With(i)
		} else if !refused(i, err) {
			break
		}
	}
	return asked
}

// Leave removes a waiter from the queues of these names on node i, or from the queue for the slots
// of a pool. The node then wakes the next waiter: the message to this one may have been the
// only one that told of a free lock. Leave is tried again until entry has passed, which is how long
// nodes keep an entry.
func (n *Nodes) Leave(i int, names []string, waiter string, pool wire.Pool, entry time.Duration) {
	// An error only means that the call is kept for later.
	_ = n.Submit(i, &Call{
		Op:    &wire.Op{Kind: wire.Leave, Names: names, Waiter: wire.Waiter{ID: waiter}, Pool: pool},
		To:    Ignore,
		Until: n.env.Clock.Now() + entry,
	})
}

// Leaves reports whether an operation is on its way to node i that removes this waiter from the queues there.
func (n *Nodes) Leaves(i int, waiter string) bool { return n.senders[i].leaves(waiter) }

// Refresh asks node i how waiters stand, and reports whether it does. Then it calls answer once, with no lock of this
// package held.
func (n *Nodes) Refresh(i int, op *wire.Op, answer func(r *wire.Reply)) bool {
	return n.Submit(i, &Call{Op: op, To: receiver(answer)}) == nil
}

// Latency is how long node i has taken to answer lately: a smoothed mean, or 0 if it has not
// been asked yet.
func (n *Nodes) Latency(i int) time.Duration { return n.senders[i].latency() }

// MedianLatency is the median of the latencies of the nodes that have been asked, or 0.
func (n *Nodes) MedianLatency() time.Duration {
	var buf [quorum.MaxNodes]time.Duration
	means := buf[:0]
	for _, s := range n.senders {
		if mean := s.latency(); mean > 0 {
			means = append(means, mean)
		}
	}
	if len(means) == 0 {
		return 0
	}
	slices.Sort(means)
	return means[len(means)/2]
}

// Connect connects node i, even if it is down and its next probe is not due. told, which must have
// room, gets the outcome once, after Env.ConnectTimeout at the latest.
func (n *Nodes) Connect(i int, told chan<- Connection) {
	s := n.senders[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	now := n.env.Clock.Now()
	w := connectWaiter{told, now + n.env.ConnectTimeout}
	s.connects = append(s.connects, w)
	s.startLocked()
	s.timeout.arm(now, w.deadline)
}

// Close sends the queued operations, tries kept undos once more, and waits until all
// goroutines have ended and all receivers are told. Calls submitted later are refused. unconfirmed has, for each node,
// how many releases were given up without a confirmation.
func (n *Nodes) Close() (unconfirmed []int) {
	for _, s := range n.senders {
		s.finish()
	}
	_ = n.goroutines.Wait() // senders return no errors: answers go to receivers
	for _, s := range n.senders {
		unconfirmed = append(unconfirmed, s.stopTimers())
	}
	return unconfirmed
}

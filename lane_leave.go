package quorumlock

import (
	"slices"

	"github.com/quorumlock/quorumlock/node"
)

// leave takes a waiter out of the queues of a node, which then wakes who is next, as the
// message to this one may have been all that told of a free lock. pool is the one that it waits
// for slots of, if any.
func (l *lane) leave(names []string, waiter string, pool node.Pool) {
	c := &call{
		op:    &node.Op{Kind: node.Leave, Names: names, Waiter: node.Waiter{ID: waiter}, Pool: pool},
		sink:  nobody{},
		until: l.client.clock.Now() + l.client.keepEntry(),
	}
	_ = l.submit(c) // if that is not possible now, it is kept
}

// leaves reports whether something is on its way to a node that has it forget a waiter.
func (l *lane) leaves(waiter string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	is := func(c *call) bool { return c.op.Waiter.ID == waiter && c.op.Waiter.Keep == 0 }
	return slices.ContainsFunc(l.queue, is) || slices.ContainsFunc(l.inFlight, is)
}

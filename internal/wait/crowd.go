package wait

import (
	"container/heap"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/internal/lease"
)

// A waiter whose context would end before the nodes answered is parked. It makes no attempt, asks no node and has no
// timer, because with more callers than can be served, the time of the processor goes to those that are not.
//
// When a node has taken calls from its queue, the parked waiter whose context ends last looks whether there is
// room for it. If so, it wakes the next one: the others have less time left, so they need shorter queues. Whoever came
// first would be asked just before it gives up.

// crowd has the parked waiters of one client.
type crowd struct {
	count atomic.Int32
	mu    sync.Mutex
	// byNeed has a heap for each number of nodes that a waiter may need: one that needs a slow node must not
	// block the others.
	byNeed []deadlineHeap
}

// Crowded reports whether the nodes cannot answer a call for this lock before the context ends.
func (qs *Queues) Crowded(ctx context.Context, s *lease.Spec) bool {
	end, ok := ctx.Deadline()
	return ok && qs.engine.Nodes.Crowded(s.Need, time.Until(end)) //nolint:forbidigo // deadlines of contexts are of package time
}

// OnCapacity wakes parked waiters. A sender calls it with its mutex held, when it has less to do or has failed.
func (qs *Queues) OnCapacity() {
	c := &qs.crowd
	if c.count.Load() == 0 {
		return // a waiter that is parked from now on looks at the nodes afterwards
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for need := range c.byNeed {
		c.wakeLocked(need)
	}
}

// wakeLocked wakes the waiter whose context ends last of those that need need nodes.
func (c *crowd) wakeLocked(need int) {
	if h := &c.byNeed[need]; len(*h) > 0 {
		heap.Pop(h).(*waiter).signal() //nolint:forcetypeassert // by construction
		c.count.Add(-1)
	}
}

// park ends the turn of a waiter until a signal comes.
func (w *waiter) park(ctx context.Context) (signals <-chan struct{}) {
	qs := w.queues
	qs.mu.Lock()
	w.ensureSignals()
	w.attempting, w.stale = false, true // what made the attempt due still does
	w.queue.attempting--
	qs.mu.Unlock()
	c := &qs.crowd
	c.mu.Lock()
	if !w.parked || w.crowdIndex < 0 {
		w.deadline, _ = ctx.Deadline()
		heap.Push(&c.byNeed[w.spec.Need], w)
		c.count.Add(1)
	}
	c.mu.Unlock()
	w.parked = true
	if !qs.Crowded(ctx, w.spec) { // capacity that was freed before woke others
		w.signal()
	}
	return w.signals
}

// unpark ends the parking of a waiter, if it is parked. If it was woken, there may be room for the next one too.
func (w *waiter) unpark() {
	if !w.parked {
		return
	}
	w.parked = false
	c := &w.queues.crowd
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.crowdIndex < 0 {
		c.wakeLocked(w.spec.Need)
	} else {
		heap.Remove(&c.byNeed[w.spec.Need], w.crowdIndex)
		c.count.Add(-1)
	}
}

// deadlineHeap is a heap of waiters. The first of them has the last deadline.
type deadlineHeap []*waiter

// Len implements heap.Interface.
func (h deadlineHeap) Len() int { return len(h) }

// Less implements heap.Interface.
func (h deadlineHeap) Less(i, j int) bool { return h[i].deadline.After(h[j].deadline) }

// Swap implements heap.Interface.
func (h deadlineHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].crowdIndex, h[j].crowdIndex = i, j
}

// Push implements heap.Interface.
func (h *deadlineHeap) Push(x any) {
	w := x.(*waiter) //nolint:forcetypeassert // by construction
	w.crowdIndex = len(*h)
	*h = append(*h, w)
}

// Pop implements heap.Interface.
func (h *deadlineHeap) Pop() any {
	old := *h
	w := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	w.crowdIndex = -1
	return w
}

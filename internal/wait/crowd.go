package wait

import (
	"container/heap"
	"sync"
	"sync/atomic"
	"time"
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

// seat is the place of a waiter among the parked ones. The mutex of crowd guards index, which is -1 once the waiter was
// woken.
type seat struct {
	need     int
	deadline time.Time
	signals  chan struct{}
	index    int
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
		signal(heap.Pop(h).(*seat).signals) //nolint:forcetypeassert // by construction
		c.count.Add(-1)
	}
}

// enter parks a waiter that was not parked, or was woken since.
func (c *crowd) enter(s *seat, parked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !parked || s.index < 0 {
		heap.Push(&c.byNeed[s.need], s)
		c.count.Add(1)
	}
}

// leave ends the parking of a waiter. If it was woken, there may be room for the next one too.
func (c *crowd) leave(s *seat) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.index < 0 {
		c.wakeLocked(s.need)
		return
	}
	heap.Remove(&c.byNeed[s.need], s.index)
	c.count.Add(-1)
}

// deadlineHeap is a heap of parked waiters, with package heap. The first of them has the last deadline.
type deadlineHeap []*seat

func (h deadlineHeap) Len() int { return len(h) }

func (h deadlineHeap) Less(i, j int) bool { return h[i].deadline.After(h[j].deadline) }

func (h deadlineHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *deadlineHeap) Push(x any) {
	s := x.(*seat) //nolint:forcetypeassert // by construction
	s.index = len(*h)
	*h = append(*h, s)
}

func (h *deadlineHeap) Pop() any {
	old := *h
	s := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	s.index = -1
	return s
}

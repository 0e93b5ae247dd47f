package quorumlock

import (
	"slices"
	"sync"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// latchCopy is what a call has read of the ids on one node. A node lists a bounded number of ids at a
// time, in the order in which it was told of them, and that order does not change while the node
// remembers. So the call reads each id once, however often it looks.
type latchCopy struct {
	mu sync.Mutex
	// generation, until and born tell one memory of the node from the next.
	generation  uint64
	until, born int64
	// ids are those that were read, in the order of the node, sorted the same in theirs up to now.
	ids, sorted []string
}

// next is the place from which on ids have not been read.
func (c *latchCopy) next() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.ids)
}

// add takes what a node has listed from a place on, and reports how many of its ids are read now.
// It forgets what it has if the node has another memory than before. Then, if the place is not the
// first, reading begins anew.
func (c *latchCopy) add(from int, s *node.LatchState) (read int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.Generation != c.generation || s.Until != c.until || s.Born != c.born || s.Size < len(c.ids) {
		c.generation, c.until, c.born = s.Generation, s.Until, s.Born
		c.ids, c.sorted = nil, nil
	}
	if known := len(c.ids) - from; known >= 0 && known < len(s.IDs) {
		c.ids = append(c.ids, s.IDs[known:]...)
	}
	return len(c.ids)
}

// all are the ids that were read, sorted.
func (c *latchCopy) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if news := c.ids[len(c.sorted):]; len(news) > 0 {
		c.sorted = quorum.UnionOfIDs(c.sorted, slices.Sorted(slices.Values(news)))
	}
	return c.sorted
}

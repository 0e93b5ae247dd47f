package quorumlock

import (
	"slices"
	"sync"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// latchCopy has the ids that a call has read from one node. A node lists a bounded number of ids at
// a time, in the order in which they arrived. That order does not change while the node remembers.
// So the call reads each id once, however often it asks.
type latchCopy struct {
	mu sync.Mutex
	// generation, until and born identify one memory of the node.
	generation  uint64
	until, born int64
	// ids are the ids that were read, in the order of the node. sorted are the same ids in order;
	// it may lag behind.
	ids, sorted []string
}

// next returns the position of the first id that was not read yet.
func (c *latchCopy) next() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.ids)
}

// add adds the ids that a node has listed from position from on. It returns how many of the node's
// ids are read now. If the node has another memory than before, add discards the earlier ids. Then,
// unless from is 0, reading starts again.
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

// all returns the ids that were read, sorted.
func (c *latchCopy) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if news := c.ids[len(c.sorted):]; len(news) > 0 {
		c.sorted = quorum.UnionOfIDs(c.sorted, slices.Sorted(slices.Values(news)))
	}
	return c.sorted
}

package quorumlock

import (
	"slices"
	"sync"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// pools are what a client knows of semaphores, by the names of their pools.
type pools struct {
	mu sync.Mutex
	by map[string]*pool
	// tidyAt is how many there may be before those that nobody uses are forgotten.
	tidyAt int
}

// minPools is from how many pools on it is worth looking for those that nobody uses.
const minPools = 256

// of is what is known of a semaphore.
func (ps *pools) of(c *Client, semaphore string) *pool {
	name := node.PoolName(semaphore)
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p := ps.by[name]; p != nil {
		return p
	}
	if len(ps.by) >= max(ps.tidyAt, minPools) {
		for name, p := range ps.by {
			if p.unused() {
				delete(ps.by, name)
			}
		}
		ps.tidyAt = 2 * len(ps.by)
	}
	if ps.by == nil {
		ps.by = make(map[string]*pool)
	}
	p := &pool{client: c, name: name, reports: make([]quorum.Slots, c.nodes.Len())}
	ps.by[name] = p
	return p
}

// find is what is known of a pool, or nil.
func (ps *pools) find(name string) *pool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.by[name]
}

// onNodes is what nodes are told of a pool whose waiters nobody knows any more; zero for what is
// no pool.
func (ps *pools) onNodes(name string) node.Pool {
	p := ps.find(name)
	if p == nil {
		return node.Pool{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.version == 0 {
		return node.Pool{Name: name, Size: p.stated}
	}
	return node.Pool{Name: name, Size: p.size, Version: p.version}
}

// pool is what a client knows of the slots of a semaphore. Nothing depends on it but how often
// it asks in vain: whatever it believes, a slot is held by whoever a majority has granted it.
type pool struct {
	client *Client
	// name is that of the pool on the nodes.
	name string

	mu sync.Mutex
	// mine are the slots that this client holds or asks for, as its own attempts need not get in
	// each other's way; own is how many they are. likely are those that it gave back last.
	mine, likely quorum.Slots
	own          int
	// reports is, for each node, which slots it said are free, as far as nothing newer is known.
	reports []quorum.Slots
	// size is the number of slots by the latest setting that a node has told, and version that
	// setting; 0 while none has.
	size    int
	version uint64
	// stated is the number that this client was configured with, when it last asked.
	stated int
}

// slots is what an attempt of a [Lock] on a semaphore asks for: so many of them.
type slots struct {
	pool *pool
	// semaphore is its name for people.
	semaphore string
	// want of permits are asked for; permits is what the caller was configured with.
	want, permits int
}

// inForce is the number of permits as far as this client knows, and which setting that is.
func (s *slots) inForce() (size int, version uint64) {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	return s.size()
}

// size is inForce with the mutex of the pool held.
func (s *slots) size() (size int, version uint64) {
	if s.pool.version > 0 {
		return s.pool.size, s.pool.version
	}
	return s.permits, 0
}

// onNodes is what nodes are told of the pool.
func (s *slots) onNodes() node.Pool {
	if s == nil {
		return node.Pool{}
	}
	size, version := s.inForce()
	return node.Pool{Name: s.pool.name, Size: size, Version: version}
}

// waiterKey is what tells a waiter from others, and nodes how many slots it waits for.
func (s *slots) waiterKey(id string) string {
	if s == nil {
		return id
	}
	return node.PoolWaiterID(id, s.want)
}

// misnamed reports whether a node denied only because of the slots that were named: enough
// others are free there.
func (s *slots) misnamed(p node.PoolState) bool {
	return s != nil && quorum.Slots(p.Free).Count(p.Size) >= s.want
}

// choose chooses the slots for an attempt. They are this client's until they are given up. hints
// are what nodes would have it take: newer than all else, and not what they tell others to take.
func (s *slots) choose(need int, hints []quorum.Slots) (names []string, err error) {
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	size, _ := s.size()
	if s.want > size {
		return nil, &InvalidError{Problems: []string{tooMany(s.want, size)}}
	}
	reports := p.reports
	if hints != nil {
		reports = hints
	}
	start := int(p.client.cfg.Jitter() * float64(size))
	chosen := quorum.ChooseSlots(s.want, size, need, start, reports, p.likely, p.mine)
	if len(chosen) < s.want {
		// This client has too many of them itself: nodes will say so, and let it wait.
		chosen = quorum.ChooseSlots(s.want, size, need, start, reports, p.likely, nil)
	}
	for _, i := range chosen {
		names = append(names, node.SlotName(p.name, i))
		p.mine, p.likely = p.mine.With(i), p.likely.Without(i)
	}
	p.own += len(chosen)
	p.stated = s.permits
	return names, nil
}

// gaveUp notes that slots are not this client's any more: it gave them back, or they were not
// granted.
func (s *slots) gaveUp(names []string, released bool) {
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range names {
		i := node.SlotOf(p.name, name)
		p.mine = p.mine.Without(i)
		if !released {
			continue
		}
		p.likely = p.likely.With(i)
		for n, report := range p.reports {
			if report != nil {
				p.reports[n] = report.With(i)
			}
		}
	}
	p.own -= len(names)
}

// learn keeps what a node has said in an answer to an attempt at these slots.
func (s *slots) learn(i int, names []string, r *node.Reply) {
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case r.Outcome == node.Granted && p.reports[i] != nil:
		for _, name := range names {
			p.reports[i] = p.reports[i].Without(node.SlotOf(p.name, name))
		}
	case r.Outcome == node.Denied && r.Pool.Free != nil:
		p.reports[i] = slices.Clone(r.Pool.Free) // others read the answer, too
		p.set(r.Pool.Size, r.Pool.Version)
	}
}

// set notes a setting of the size. The mutex is held.
func (p *pool) set(size int, version uint64) {
	if version > p.version {
		p.size, p.version = size, version
	}
}

// promising reports whether enough slots may be free on enough nodes, by what some have said,
// as a round is lost before all have.
func (s *slots) promising(need int) bool {
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	size, _ := s.size()
	enough, short := 0, 0
	for _, report := range p.reports {
		switch {
		case report == nil:
		case report.Count(size) >= s.want:
			enough++
		default:
			short++
		}
	}
	return enough > 0 && short <= len(p.reports)-need
}

// unused reports whether nothing of this client concerns the pool.
func (p *pool) unused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.own == 0
}

// Package slots has a client's knowledge of the slots of semaphores.
//
// A permit of a semaphore is a slot: a lock with a number, taken on a majority of the nodes. The
// client chooses which slots an attempt asks for. The knowledge here only makes that choice
// better: a wrong guess costs another attempt, and never lets two leases share a slot.
package slots

import (
	"slices"
	"sync"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// MaxPermits is the largest number of permits of a semaphore.
const MaxPermits = 1024

// Pools are the pools of a client, by name. It is safe for concurrent use.
type Pools struct {
	nodes  int
	jitter func() float64

	mu     sync.Mutex
	byName map[string]*Pool
	// tidyAt is the number of pools from which unused ones are dropped.
	tidyAt int
}

// NewPools returns an empty set of pools for the given number of nodes. jitter returns a random
// number in [0, 1).
func NewPools(nodes int, jitter func() float64) *Pools {
	return &Pools{nodes: nodes, jitter: jitter, byName: make(map[string]*Pool)}
}

// minPools is the number of pools below which looking for unused ones is not worth the time.
const minPools = 256

// Of returns the pool of a semaphore.
func (ps *Pools) Of(semaphore string) *Pool {
	name := wire.PoolName(semaphore)
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p := ps.byName[name]; p != nil {
		return p
	}
	if len(ps.byName) >= max(ps.tidyAt, minPools) {
		for name, p := range ps.byName {
			if p.unused() {
				delete(ps.byName, name)
			}
		}
		ps.tidyAt = 2 * len(ps.byName)
	}
	p := &Pool{name: name, jitter: ps.jitter, reports: make([]decision.Slots, ps.nodes)}
	ps.byName[name] = p
	return p
}

// OnNodes describes a pool to nodes, for a message about a waiter that is gone. It is zero if
// the name belongs to no pool of this client.
func (ps *Pools) OnNodes(name string) wire.Pool {
	ps.mu.Lock()
	p := ps.byName[name]
	ps.mu.Unlock()
	if p == nil {
		return wire.Pool{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.version == 0 {
		return wire.Pool{Name: name, Size: p.configured}
	}
	return wire.Pool{Name: name, Size: p.size, Version: p.version}
}

// Pool has a client's knowledge of the slots of one semaphore. It is safe for concurrent use.
type Pool struct {
	name   string
	jitter func() float64

	mu sync.Mutex
	// mine are the slots that this client holds or asks for: its own attempts avoid each other.
	// own is the number of these. likely are the slots that it released last.
	mine, likely decision.Slots
	own          int
	// reports has, for each node, the slots that it reported as free, corrected by newer answers.
	reports []decision.Slots
	// size is the number of slots by the latest setting that a node has told, and version is
	// that setting, or 0.
	size    int
	version uint64
	// reported is the latest setting that this client made, or that OtherSize has returned.
	reported uint64
	// configured is the number that this client was configured with at its last attempt.
	configured int
}

// Name is the name of the pool on the nodes.
func (p *Pool) Name() string { return p.name }

// LearnSize records a setting of the number of slots. Older settings than the latest are ignored.
func (p *Pool) LearnSize(size int, version uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.learnSizeLocked(size, version)
}

// SetSize records a setting that this client has made.
func (p *Pool) SetSize(size int, version uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.learnSizeLocked(size, version)
	p.reported = max(p.reported, version)
}

func (p *Pool) learnSizeLocked(size int, version uint64) {
	if version > p.version {
		p.size, p.version = size, version
	}
}

// sizeLocked is the number of slots by the latest setting, or the configured number if there is none.
func (p *Pool) sizeLocked(configured int) (size int, version uint64) {
	if p.version > 0 {
		return p.size, p.version
	}
	return configured, 0
}

func (p *Pool) unused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.own == 0
}

// Request is the request of an attempt to a semaphore. A nil Request stands for a lock, which has
// no slots. It is immutable after its first use.
type Request struct {
	Pool *Pool
	// Semaphore is the name that users gave it.
	Semaphore string
	// Want is how many permits are asked for, Permits how many the caller was configured with.
	Want, Permits int
}

// Size returns the number of permits that this client knows, and the version of that setting, or 0.
func (r *Request) Size() (size int, version uint64) {
	r.Pool.mu.Lock()
	defer r.Pool.mu.Unlock()
	return r.Pool.sizeLocked(r.Permits)
}

// MayFit reports whether there are enough permits besides those that this client holds or asks for, and more permits than
// calls that ask.
func (r *Request) MayFit(calls int) bool {
	p := r.Pool
	p.mu.Lock()
	defer p.mu.Unlock()
	size, _ := p.sizeLocked(r.Permits)
	return p.own+r.Want <= size && calls < size
}

// OtherSize returns the number of permits that another client has set, if the caller was configured
// with another number. It returns each setting once.
func (r *Request) OtherSize() (size int, ok bool) {
	p := r.Pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.version <= p.reported || p.size == r.Permits {
		return 0, false
	}
	p.reported = p.version
	return p.size, true
}

// OnNodes describes the pool to nodes; it is zero for a nil Request.
func (r *Request) OnNodes() wire.Pool {
	if r == nil {
		return wire.Pool{}
	}
	size, version := r.Size()
	return wire.Pool{Name: r.Pool.name, Size: size, Version: version}
}

// WaiterID is the id of a waiter as nodes know it: with it they learn how many slots it waits for.
func (r *Request) WaiterID(id string) string {
	if r == nil {
		return id
	}
	return wire.PoolWaiterID(id, r.Want)
}

// WrongSlots reports whether a node denied an attempt only because of the slots it named: enough
// other slots are free there.
func (r *Request) WrongSlots(p wire.PoolState) bool {
	return r != nil && decision.Slots(p.Free).Count(p.Size) >= r.Want
}

// Choose picks the names of slots for an attempt that needs need nodes. They belong to this client
// until GiveUp. hints are slots that nodes offered to the waiter, or nil: they are newer than all
// reports. If more permits are wanted than there are, ok is false, and size is that number.
func (r *Request) Choose(need int, hints []decision.Slots) (names []string, size int, ok bool) {
	p := r.Pool
	p.mu.Lock()
	defer p.mu.Unlock()
	size, _ = p.sizeLocked(r.Permits)
	if r.Want > size {
		return nil, size, false
	}
	reports := p.reports
	if hints != nil {
		reports = hints
	}
	start := int(p.jitter() * float64(size))
	chosen := decision.ChooseSlots(r.Want, size, need, start, reports, p.likely, p.mine)
	if len(chosen) < r.Want {
		// This client has too many of them itself: the nodes deny these, and it waits.
		chosen = decision.ChooseSlots(r.Want, size, need, start, reports, p.likely, nil)
	}
	for _, i := range chosen {
		names = append(names, wire.SlotName(p.name, i))
		p.mine, p.likely = p.mine.With(i), p.likely.Without(i)
	}
	p.own += len(chosen)
	p.configured = r.Permits
	return names, size, true
}

// GiveUp records that slots are no longer this client's. They are free if they were released. Otherwise they were not
// granted, or nodes keep them for a while.
func (r *Request) GiveUp(names []string, released bool) {
	p := r.Pool
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range names {
		i := wire.SlotOf(p.name, name)
		p.mine = p.mine.Without(i)
		if released {
			p.freeLocked(i)
		}
	}
	p.own -= len(names)
}

// freeLocked records that a slot was released.
func (p *Pool) freeLocked(i int) {
	p.likely = p.likely.With(i)
	for n, report := range p.reports {
		if report != nil {
			p.reports[n] = report.With(i)
		}
	}
}

// Learn records the answer of node i to an attempt at these slots.
func (r *Request) Learn(i int, names []string, reply *wire.Reply) {
	p := r.Pool
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case reply.Outcome == wire.Granted && p.reports[i] != nil:
		for _, name := range names {
			p.reports[i] = p.reports[i].Without(wire.SlotOf(p.name, name))
		}
	case reply.Outcome == wire.Denied && reply.Pool.Free != nil:
		p.reports[i] = slices.Clone(reply.Pool.Free) // the reply has other readers
		p.learnSizeLocked(reply.Pool.Size, reply.Pool.Version)
	}
}

// Promising reports whether enough slots may be free on enough nodes, by the reports of some: a
// round ends before all nodes have reported.
func (r *Request) Promising(need int) bool {
	p := r.Pool
	p.mu.Lock()
	defer p.mu.Unlock()
	size, _ := p.sizeLocked(r.Permits)
	enough, short := 0, 0
	for _, report := range p.reports {
		switch {
		case report == nil:
		case report.Count(size) >= r.Want:
			enough++
		default:
			short++
		}
	}
	return enough > 0 && short <= len(p.reports)-need
}

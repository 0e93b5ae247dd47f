package node

import (
	"maps"
	"time"
)

// state is what an in-memory node knows, and loses in a crash.
type state struct {
	locks      map[string]claim
	readers    map[string]map[string]time.Duration // by name and owner, until when
	tombstones map[grave]time.Duration
	foreign    map[string]bool
	fences     map[string]fence
	queues     map[string]queue // none of them empty
	marker     *Marker          // nil if there is none
	sizes      map[string]setting
	// gone is since when waiters are expected that were granted slots of a pool.
	gone    map[grave]time.Duration
	latches map[string]latch
}

// claim is what the node holds for one owner of one name.
type claim struct {
	owner  string
	expiry time.Duration
}

// fence is the largest token of a name, and the end of its life by the node's clock, in
// milliseconds.
type fence struct {
	token  uint64
	expiry int64
}

// grave is where an owner is buried: one for each name that it was forced off.
type grave struct{ name, owner string }

func newState() state {
	return state{
		locks:      make(map[string]claim),
		readers:    make(map[string]map[string]time.Duration),
		tombstones: make(map[grave]time.Duration),
		foreign:    make(map[string]bool),
		fences:     make(map[string]fence),
		queues:     make(map[string]queue),
		sizes:      make(map[string]setting),
		gone:       make(map[grave]time.Duration),
		latches:    make(map[string]latch),
	}
}

func (s state) clone() state {
	queues := make(map[string]queue, len(s.queues))
	for name, q := range s.queues {
		queues[name] = q.clone()
	}
	readers := make(map[string]map[string]time.Duration, len(s.readers))
	for name, owners := range s.readers {
		readers[name] = maps.Clone(owners)
	}
	latches := make(map[string]latch, len(s.latches))
	for name, l := range s.latches {
		latches[name] = l.clone()
	}
	return state{
		locks:      maps.Clone(s.locks),
		readers:    readers,
		tombstones: maps.Clone(s.tombstones),
		foreign:    maps.Clone(s.foreign),
		fences:     maps.Clone(s.fences),
		queues:     queues,
		sizes:      maps.Clone(s.sizes),
		gone:       maps.Clone(s.gone),
		latches:    latches,
		marker:     s.marker, // never changed, only replaced
	}
}

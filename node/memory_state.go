package node

import (
	"maps"
	"time"
)

// memoryState is the state of an in-memory node, which it loses in a crash.
type memoryState struct {
	locks      map[string]lockState
	readers    map[string]map[string]time.Duration // by name and owner; the value is the end
	tombstones map[tombstoneKey]time.Duration
	foreign    map[string]bool
	fences     map[uint16]uint64 // by place
	queues     map[string]queue  // never empty
	marker     *Marker           // nil if there is none
	sizes      map[string]poolSize
	// gone has the times since which waiters were expected that then got slots of a pool.
	gone    map[tombstoneKey]time.Duration
	latches map[string]latchState
}

// lockState is the lock of one owner on one name.
type lockState struct {
	owner  string
	expiry time.Duration
	// token is the largest token that the owner may use; 0 for readers.
	token uint64
}

// tombstoneKey is the place of a tombstone: one for each name that an owner was forced off.
type tombstoneKey struct{ name, owner string }

func newState() memoryState {
	return memoryState{
		locks:      make(map[string]lockState),
		readers:    make(map[string]map[string]time.Duration),
		tombstones: make(map[tombstoneKey]time.Duration),
		foreign:    make(map[string]bool),
		fences:     make(map[uint16]uint64),
		queues:     make(map[string]queue),
		sizes:      make(map[string]poolSize),
		gone:       make(map[tombstoneKey]time.Duration),
		latches:    make(map[string]latchState),
	}
}

func (s memoryState) clone() memoryState {
	queues := make(map[string]queue, len(s.queues))
	for name, q := range s.queues {
		queues[name] = q.clone()
	}
	readers := make(map[string]map[string]time.Duration, len(s.readers))
	for name, owners := range s.readers {
		readers[name] = maps.Clone(owners)
	}
	latches := make(map[string]latchState, len(s.latches))
	for name, l := range s.latches {
		latches[name] = l.clone()
	}
	return memoryState{
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

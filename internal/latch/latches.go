package latch

import (
	"maps"
	"sync"

	"github.com/quorumlock/quorumlock/quorum"
)

// Latches are the latches of one client. It is safe for concurrent use.
type Latches struct {
	env      Env
	need     int
	watchers watchers

	// mu guards the fields below. No other mutex is locked while it is held.
	mu sync.Mutex
	// generations has the latest generation of latches that were deleted a moment ago. With it, the
	// next call on such a latch need not be refused first. Entries are useful while clocks may
	// differ; see Call.operationToken. sweepAt is the size at which useless ones are removed.
	generations map[string]uint64
	sweepAt     int
	// restoring are the latches for which a round will restore forgetful nodes in a moment.
	restoring map[string]struct{}
}

// New returns the latches of a client.
func New(env Env) *Latches {
	l := &Latches{
		env:         env,
		need:        quorum.Majority().Need(env.Nodes.Len()),
		generations: make(map[string]uint64),
		restoring:   make(map[string]struct{}),
	}
	l.watchers = watchers{env: &l.env, need: l.need, of: make(map[string][]*watcher)}
	return l
}

// Counted passes a message of node i about a latch to its watchers.
func (l *Latches) Counted(i int, name string) {
	l.watchers.each(name, func(w *watcher) { w.toldBy = w.toldBy.With(i) })
}

// SubscriptionsChanged makes all watchers ask: they may have missed messages, or can receive them
// only from now on.
func (l *Latches) SubscriptionsChanged() { l.watchers.wakeAll() }

// minSweep is the least number of generations for which a sweep is worth its cost.
const minSweep = 64

// observeGeneration records a generation of a latch. Generations up to passed are no longer useful.
func (l *Latches) observeGeneration(name string, generation, passed uint64) {
	if generation <= passed {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.generations) >= max(l.sweepAt, minSweep) {
		maps.DeleteFunc(l.generations, func(_ string, old uint64) bool { return old <= passed })
		l.sweepAt = 2 * len(l.generations)
	}
	l.generations[name] = max(l.generations[name], generation)
}

// generationOf returns the latest known generation of a latch; 0 if none is known.
func (l *Latches) generationOf(name string) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.generations[name]
}

// beginRestore reports whether the caller may restore a latch later: no other round will. endRestore
// must follow.
func (l *Latches) beginRestore(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, later := l.restoring[name]
	l.restoring[name] = struct{}{}
	return !later
}

func (l *Latches) endRestore(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.restoring, name)
}

package quorumlock

import (
	"maps"
	"sync"
)

// generations are those of latches that were deleted a moment ago, as far as this client was told:
// its next call of such a latch need not be refused first. They are of use as long as clocks may
// be apart, see [latchCall.earliest].
type generations struct {
	mu     sync.Mutex
	latest map[string]uint64
	// tidyAt is how many there may be before those of no use are thrown out.
	tidyAt int
}

// saw notes a generation, where those up to passed are of no use any more.
func (g *generations) saw(name string, generation, passed uint64) {
	if generation <= passed {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.latest == nil {
		g.latest = make(map[string]uint64)
	}
	if len(g.latest) >= max(g.tidyAt, minTidy) {
		maps.DeleteFunc(g.latest, func(_ string, old uint64) bool { return old <= passed })
		g.tidyAt = 2 * len(g.latest)
	}
	g.latest[name] = max(g.latest[name], generation)
}

// of is the latest generation of a latch that is known; 0 if none is.
func (g *generations) of(name string) uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.latest[name]
}

// refills are the latches for which a call of this client gives ids back to nodes that forgot them.
type refills struct {
	mu   sync.Mutex
	busy map[string]struct{}
}

// begin reports whether no other call does it.
func (f *refills) begin(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, busy := f.busy[name]; busy {
		return false
	}
	if f.busy == nil {
		f.busy = make(map[string]struct{})
	}
	f.busy[name] = struct{}{}
	return true
}

func (f *refills) end(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.busy, name)
}

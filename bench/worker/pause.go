package worker

import "sync/atomic"

// pause finds the longest time in which no operation ended.
type pause struct {
	last, longest atomic.Int64
}

// begin says from when on it counts, by the clock that all processes share.
func (p *pause) begin(now int64) { p.last.Store(now) }

// ended is called when an operation ends, and at the end of all.
func (p *pause) ended(now int64) {
	took := now - p.last.Swap(now)
	for longest := p.longest.Load(); took > longest && !p.longest.CompareAndSwap(longest, took); {
		longest = p.longest.Load()
	}
}

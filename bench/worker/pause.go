package worker

import "sync/atomic"

// pause tracks the longest time during which no operation ended.
type pause struct {
	last, longest atomic.Int64
}

// begin starts tracking at now, by the clock that all processes share.
func (p *pause) begin(now int64) { p.last.Store(now) }

// ended marks the end of an operation, and the end of the measured time.
func (p *pause) ended(now int64) {
	took := now - p.last.Swap(now)
	for longest := p.longest.Load(); took > longest && !p.longest.CompareAndSwap(longest, took); {
		longest = p.longest.Load()
	}
}

package runner

import (
	"time"

	"github.com/quorumlock/quorumlock/bench/cell"
)

// The overhead of a cell besides the measured time, roughly, as seen on two cores.
const (
	// perCell is the time to start and end servers and workers, perProcess that for one more worker.
	perCell    = 700 * time.Millisecond
	perProcess = 50 * time.Millisecond
	// perLease is the time to acquire and release one held lease.
	perLease = 150 * time.Microsecond
)

// estimate returns the approximate time that a cell takes.
func estimate(c cell.Cell) time.Duration {
	d := perCell + time.Duration(len(jobs(c))-1)*perProcess + c.Settle + c.Duration
	if c.Load == cell.Hold {
		d += time.Duration(c.Callers) * perLease
	}
	return d
}

// Estimate returns the approximate time to measure all cells in all rounds. A busy or slow machine takes longer.
func (o Options) Estimate(cells []cell.Cell) time.Duration {
	var d time.Duration
	for _, c := range cells {
		d += estimate(c)
	}
	d *= time.Duration(o.Rounds)
	if o.Quick {
		d = min(d, QuickBudget)
	}
	return d
}

// progress predicts how much time remains.
type progress struct {
	began time.Time
	// whole is the estimate for all cells, and done the estimate for the finished ones.
	whole, done time.Duration
}

// left returns the remaining time after one more cell. It scales the estimates by their error so far.
func (p *progress) left(c cell.Cell) time.Duration {
	p.done += estimate(c)
	wrong := time.Since(p.began).Seconds() / p.done.Seconds()
	return time.Duration(float64(max(0, p.whole-p.done)) * wrong)
}

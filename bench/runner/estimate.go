package runner

import (
	"time"

	"github.com/quorumlock/quorumlock/bench/cell"
)

// What a cell takes besides what is measured, roughly, as seen on two cores.
const (
	// perCell is for starting and ending servers and workers, perProcess for one worker more.
	perCell    = 700 * time.Millisecond
	perProcess = 50 * time.Millisecond
	// perLease is for taking one that is to be held, and giving it back.
	perLease = 150 * time.Microsecond
)

// estimate is about how long a cell takes.
func estimate(c cell.Cell) time.Duration {
	d := perCell + time.Duration(len(jobs(c))-1)*perProcess + c.Settle + c.Duration
	if c.Load == cell.Hold {
		d += time.Duration(c.Callers) * perLease
	}
	return d
}

// Estimate is about how long it takes to measure the cells, each once in each round. A machine that
// is busy, or slow, takes longer.
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

// progress tells how much time is left.
type progress struct {
	began time.Time
	// whole is what all was estimated to take, and done what of that is over.
	whole, done time.Duration
}

// left is how long the rest takes, after one more cell, if estimates go on to be as wrong as they
// were so far.
func (p *progress) left(c cell.Cell) time.Duration {
	p.done += estimate(c)
	wrong := time.Since(p.began).Seconds() / p.done.Seconds()
	return time.Duration(float64(max(0, p.whole-p.done)) * wrong)
}

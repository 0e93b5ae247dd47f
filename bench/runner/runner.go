// Package runner plans and measures cells, each with servers and worker processes of its own.
package runner

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/bench/cell"
	"github.com/quorumlock/quorumlock/bench/cluster"
	"github.com/quorumlock/quorumlock/bench/peer"
)

// QuickBudget is the time after which a quick run begins no new cell.
const QuickBudget = 50 * time.Second

// Run measures each cell once in each round, and logs its progress. When ctx ends, Run returns the results so far.
func Run(ctx context.Context, o Options, cells []cell.Cell, tell func(format string, args ...any)) []cell.Result {
	began := time.Now()
	cells = possible(cells, o.Source, tell)
	random := rand.New(rand.NewPCG(o.Seed, 0))
	var results []cell.Result
	total := len(cells) * o.Rounds
	progress := progress{began: began, whole: o.Estimate(cells)}
	tell("%d cells, each measured %d times: about %v", len(cells), o.Rounds, progress.whole.Round(time.Second))
	for round := 1; round <= o.Rounds; round++ {
		for _, c := range mixed(cells, random) {
			took := time.Since(began)
			if ctx.Err() != nil || o.Quick && took > QuickBudget {
				tell("%d of %d cells were not measured", total-len(results), total)
				return results
			}
			r := measure(ctx, o, c)
			r.Round = round
			results = append(results, r)
			tell("%4d/%d, %v left: %s: %s", len(results), total, progress.left(c).Round(time.Second), c, brief(r))
		}
	}
	return results
}

// possible drops the cells that cannot be measured here, and logs why.
func possible(cells []cell.Cell, source cluster.Source, tell func(format string, args ...any)) (left []cell.Cell) {
	dropped := map[string]int{}
	for _, c := range cells {
		p, _ := peer.Find(c.Peer) // the plan knows them all
		switch {
		case p.Available != nil && p.Available() != nil:
			dropped["with Redisson, which needs Maven and a JDK"]++
		case !source.Breakable() && c.Fault != cluster.None && c.Fault != cluster.Slow:
			dropped["that break nodes, as the nodes are not ours"]++
		case !source.Breakable() && c.Nodes > len(source.Addresses):
			dropped["with more nodes than were given"]++
		default:
			left = append(left, c)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(dropped)) {
		tell("left out %d cells %s", dropped[why], why)
	}
	return left
}

// brief summarises a result in a few words.
func brief(r cell.Result) (text string) {
	switch {
	case r.Error != "":
		return "FAILED: " + r.Error
	case r.Load == cell.Wait:
		text = fmt.Sprintf("%d commands sent to %d nodes", r.Work.Sent, r.Work.Servers)
	case r.Load == cell.Hold:
		text = fmt.Sprintf("%d bytes, %d goroutines, %d renewals, %d lost", r.Heap, r.Goroutines, r.Renewals, r.Lost)
	default:
		text = fmt.Sprintf("%.0f/s", float64(r.Ops)/r.Seconds)
		if r.Acquire != nil {
			text += fmt.Sprintf(", acquire p50 %.3f ms", r.Acquire.P50)
		}
	}
	if r.Violations > 0 {
		text += fmt.Sprintf(", %d VIOLATIONS", r.Violations)
	}
	if r.Failures > 0 {
		text += fmt.Sprintf(", %d failures (%s)", r.Failures, strings.ReplaceAll(r.FirstFailure, "\n", "; "))
	}
	return text
}

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
func (o Options) Estimate(cells []cell.Cell) (d time.Duration) {
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

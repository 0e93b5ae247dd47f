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

// Run measures each cell once in each round, and logs its progress. When ctx ends, Run returns the results so far.
func Run(ctx context.Context, o Options, cells []cell.Cell, tell func(format string, args ...any)) (results []cell.Result) {
	began := time.Now()
	cells = possible(cells, o.Addresses, tell)
	random := rand.New(rand.NewPCG(o.Seed, 0))
	total := len(cells) * o.Rounds
	tell("%d cells, each measured %d times", len(cells), o.Rounds)
	for round := 1; round <= o.Rounds; round++ {
		for _, c := range mixed(cells, random) {
			if ctx.Err() != nil {
				tell("%d of %d cells were not measured", total-len(results), total)
				return results
			}
			r := measure(ctx, o, c)
			r.Round = round
			results = append(results, r)
			left := time.Since(began) / time.Duration(len(results)) * time.Duration(total-len(results))
			tell("%4d/%d, %v left: %s: %s", len(results), total, left.Round(time.Second), c, brief(r))
		}
	}
	return results
}

// possible drops the cells that cannot be measured here, and logs why. Servers that were given are not broken.
func possible(cells []cell.Cell, given []string, tell func(format string, args ...any)) (left []cell.Cell) {
	dropped := map[string]int{}
	for _, c := range cells {
		p, _ := peer.Find(c.Peer) // the plan knows them all
		switch {
		case p.Available != nil && p.Available() != nil:
			dropped["with Redisson, which needs Maven and a JDK"]++
		case len(given) > 0 && c.Fault != cluster.None && c.Fault != cluster.Slow:
			dropped["that break nodes, as the nodes are not ours"]++
		case len(given) > 0 && c.Nodes > len(given):
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
	case r.Load.Waits():
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
	if r.GaveUp > 0 {
		text += fmt.Sprintf(", %d gave up", r.GaveUp)
	}
	if r.Failures > 0 {
		text += fmt.Sprintf(", %d failures (%s)", r.Failures, strings.ReplaceAll(r.FirstFailure, "\n", "; "))
	}
	return text
}

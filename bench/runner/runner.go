// Package runner plans and measures cells, each with servers and worker processes of its own.
package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/bench/cell"
)

// Run measures each cell once in each round, and logs its progress. When ctx ends, Run returns the results so far.
func Run(ctx context.Context, o Options, cells []cell.Cell, tell func(format string, args ...any)) (results []cell.Result) {
	began := time.Now()
	total := len(cells) * o.Rounds
	tell("%d cells, each measured %d times", len(cells), o.Rounds)
	for round := 1; round <= o.Rounds; round++ {
		for _, c := range mixed(cells) {
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

// brief summarises a result in a few words. The report has the rest.
func brief(r cell.Result) string {
	switch {
	case r.Error != "":
		return "FAILED: " + r.Error
	case r.Acquire != nil:
		return fmt.Sprintf("%.0f/s, acquire p50 %.3f ms, %d failures", float64(r.Ops)/r.Seconds, r.Acquire.P50, r.Failures+r.Violations)
	default:
		return fmt.Sprintf("%d commands sent to %d nodes", r.Work.Sent, r.Work.Servers)
	}
}

package runner

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
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
	_, err := exec.LookPath(cluster.EtcdProgram)
	noEtcd := err != nil
	var etcd, java, broken, few int
	for _, c := range cells {
		p, _ := peer.Find(c.Peer) // the plan knows them all
		switch {
		case p.Available != nil && p.Available() != nil:
			java++
		case c.Peer == peer.Etcd && noEtcd:
			etcd++
		case !source.Breakable() && c.Fault != cluster.None && c.Fault != cluster.Slow:
			broken++
		case !source.Breakable() && c.Nodes > len(source.Addresses):
			few++
		default:
			left = append(left, c)
		}
	}
	if etcd > 0 {
		tell("left out %d cells with etcd, which is not installed", etcd)
	}
	if java > 0 {
		tell("left out %d cells with Redisson, which needs Maven and a JDK", java)
	}
	if broken > 0 {
		tell("left out %d cells that break nodes, as the nodes are not ours", broken)
	}
	if few > 0 {
		tell("left out %d cells with more nodes than were given", few)
	}
	return left
}

// brief summarises a result in a few words.
func brief(r cell.Result) string {
	text := ""
	switch {
	case r.Error != "":
		return "FAILED: " + r.Error
	case r.Load == cell.Wait:
		text = fmt.Sprintf("%.1f commands a second and node", r.SentRate)
	case r.Load == cell.Hold:
		text = fmt.Sprintf("%.0f bytes each, %d goroutines, %.4f commands per renewal, %d lost",
			r.HeapPerLease, r.GoroutinesAfter, r.CommandsPerRenewal, r.Lost)
	default:
		text = fmt.Sprintf("%.0f/s", r.Rate)
		if r.Acquire != nil {
			text += fmt.Sprintf(", acquire p50 %.0f us", r.Acquire.P50)
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

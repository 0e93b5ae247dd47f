package runner

import (
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/bench/cell"
	"github.com/quorumlock/quorumlock/bench/cluster"
	"github.com/quorumlock/quorumlock/bench/worker"
)

// merge combines the outcomes of the workers and the work of the servers into one result.
func merge(c cell.Cell, ready []worker.Ready, outcomes []worker.Outcome, work cluster.Work, passed time.Duration) (*cell.Result, error) {
	r := &cell.Result{Cell: c}
	for _, x := range ready {
		r.GoroutinesBefore += x.Goroutines
	}
	var sum worker.Outcome
	var grants []int64
	for _, o := range outcomes {
		r.Ops += o.Ops
		r.Failures += o.Failures
		r.Unfinished += o.Unfinished
		r.Violations += o.Violations
		r.Renewals += o.Renewals
		r.Lost += o.Lost
		r.GoroutinesAfter += o.Goroutines
		r.Seconds = max(r.Seconds, o.Seconds)
		r.Rate += float64(o.Ops) / o.Seconds
		r.Switches += float64(o.Switches) / o.Seconds
		if r.FirstFailure == "" {
			r.FirstFailure = o.FirstFailure
		}
		sum.AllOps += o.AllOps
		sum.Mallocs += o.Mallocs
		sum.Bytes += o.Bytes
		sum.CPU += o.CPU
		sum.Heap += o.Heap
		grants = append(grants, o.Grants...)
		r.Timeline = added(r.Timeline, o.Timeline)
	}
	perOperation(r, sum, work)
	if c.Load.Contended() {
		r.ShareMin, r.ShareMax = shares(grants)
	}
	if work.Servers > 0 {
		perNode := float64(work.Sent) / float64(work.Servers)
		r.SentRate = perNode / passed.Seconds()
		if r.Renewals > 0 {
			r.CommandsPerRenewal = perNode / float64(r.Renewals)
		}
	}
	if c.Load == cell.Hold {
		r.HeapPerLease = float64(sum.Heap) / float64(c.Callers)
	}
	return r, latencies(r, outcomes)
}

func perOperation(r *cell.Result, sum worker.Outcome, work cluster.Work) {
	if sum.AllOps == 0 {
		return
	}
	ops := float64(sum.AllOps)
	r.Allocs, r.Bytes = float64(sum.Mallocs)/ops, float64(sum.Bytes)/ops
	r.Client = sum.CPU * 1e6 / ops
	r.Servers = float64(work.CPU.Microseconds()) / ops
	r.Commands, r.Scripts, r.Sent = float64(work.Commands)/ops, float64(work.Scripts)/ops, float64(work.Sent)/ops
}

func latencies(r *cell.Result, outcomes []worker.Outcome) error {
	var acquire, release, delay [][]byte
	for _, o := range outcomes {
		if o.Acquire != nil {
			acquire, release, delay = append(acquire, o.Acquire), append(release, o.Release), append(delay, o.Delay)
		}
	}
	var errs [3]error
	r.Acquire, errs[0] = cell.Summarise(acquire)
	r.Release, errs[1] = cell.Summarise(release)
	r.Delay, errs[2] = cell.Summarise(delay)
	return errors.Join(errs[:]...)
}

// added returns the sums of the elements.
func added(a, b []int64) []int64 {
	a = slices.Clone(a)
	if len(a) < len(b) {
		a = append(a, make([]int64, len(b)-len(a))...)
	}
	for i, n := range b {
		a[i] += n
	}
	return a
}

// shares returns the least and the most of the grants, relative to their mean.
func shares(grants []int64) (least, most float64) {
	var sum int64
	for _, n := range grants {
		sum += n
	}
	if sum == 0 {
		return 0, 0
	}
	mean := float64(sum) / float64(len(grants))
	return float64(slices.Min(grants)) / mean, float64(slices.Max(grants)) / mean
}

package render

import (
	"fmt"
	"math"
	"slices"

	"github.com/quorumlock/quorumlock/bench/cell"
)

type figure struct {
	name string
	// of is not a number if the figure was not measured.
	of func(cell.Result) float64
	// shown figures are in the tables; the others are of goals alone. Of a worst figure, a table has the largest value of
	// all rounds.
	shown, worst bool
}

// count is a figure that should be 0 in each round. A table shows it where it is not.
func count(name string, of func(cell.Result) int64) figure {
	return figure{name: name, worst: true, of: func(r cell.Result) float64 { return float64(of(r)) }}
}

// figures are all figures, in the order of the columns. The first one that a table has is that of its ratios.
var figures = slices.Concat(
	[]figure{
		{name: "ops/s", of: rate, shown: true},
		{name: "commands sent a second and node", of: waiting(sentRate), shown: true},
		{name: "heap bytes per lease", of: heapPerLease, shown: true},
		{name: "scripts a second and node", of: waiting(scriptRate), shown: true},
		{name: "commands run a second and node", of: waiting(commandRate), shown: true},
		{name: "least share", of: shareMin, shown: true},
		{name: "largest share", of: shareMax, shown: true},
		{name: "client CPU us/op", of: client, shown: true},
		{name: "server CPU us/op", of: servers, shown: true},
		{name: "allocs/op", of: allocs, shown: true},
		{name: "CPU us/op and node", of: func(r cell.Result) float64 { return per(client(r)+servers(r), float64(r.Nodes)) }},
		{name: "commands/op", of: commands, shown: true},
		{name: "client reads and writes/op", of: func(r cell.Result) float64 { return counted(r, r.Transfers) }},
		{name: "client wake-ups/op", of: clientWakeups},
		{name: "server reads and writes/op", of: func(r cell.Result) float64 { return counted(r, r.Work.Transfers) }},
		{name: "server wake-ups/op", of: func(r cell.Result) float64 { return counted(r, r.Work.Wakeups) }},
	},
	latencies("acquire", func(r cell.Result) *cell.Latency { return r.Acquire }),
	latencies("release", func(r cell.Result) *cell.Latency { return r.Release }),
	latencies("delay", func(r cell.Result) *cell.Latency { return r.Delay }),
	[]figure{
		{name: "commands per node and renewal", of: commandsPerRenewal, shown: true},
		{name: "leases lost", of: lost, worst: true},
		{name: "goroutines", of: func(r cell.Result) float64 { return float64(r.Goroutines) }},
		count("goroutines more", func(r cell.Result) int64 { return max(0, r.Goroutines-r.GoroutinesBefore) }),
		count("keys left", func(r cell.Result) int64 { return int64(r.KeysLeft) }),
		count("violations", func(r cell.Result) int64 { return r.Violations }),
		{name: "calls given up", of: gaveUp, shown: true},
		count("calls failed", func(r cell.Result) int64 { return r.Failures }),
		count("calls unfinished", func(r cell.Result) int64 { return r.Unfinished }),
	},
)

// named returns a figure. There is one of each name that the goals have.
func named(name string) figure {
	i := slices.IndexFunc(figures, func(f figure) bool { return f.name == name })
	if i < 0 {
		panic(fmt.Sprintf("there is no figure %q", name))
	}
	return figures[i]
}

// where returns a figure of the cells that have it, and no number for the others.
func where(has bool, x float64) float64 {
	if has {
		return x
	}
	return math.NaN()
}

func waiting(of func(cell.Result) float64) func(cell.Result) float64 {
	return func(r cell.Result) float64 { return where(r.Load.Waits(), of(r)) }
}

func per(x, n float64) float64 { return where(n != 0, x/n) }

// rate is operations a second. Where callers wait or hold all the time, there are none.
func rate(r cell.Result) float64 {
	return where(!r.Load.Waits() && r.Load != cell.Hold, per(float64(r.Ops), r.Seconds))
}

// Figures per second and node.
func sentRate(r cell.Result) float64    { return perNode(r, r.Work.Sent) }
func scriptRate(r cell.Result) float64  { return perNode(r, r.Work.Scripts) }
func commandRate(r cell.Result) float64 { return perNode(r, r.Work.Commands) }

func perNode(r cell.Result, n int64) float64 {
	return per(float64(n), float64(r.Work.Servers)*r.Passed.Seconds())
}

// Figures per operation cover all operations of the cell, including those outside the measured time. Times are CPU
// times in microseconds.
func allocs(r cell.Result) float64   { return perOp(r, float64(r.Mallocs)) }
func client(r cell.Result) float64   { return perOp(r, r.CPU*1e6) }
func servers(r cell.Result) float64  { return perOp(r, float64(r.Work.CPU.Microseconds())) }
func commands(r cell.Result) float64 { return perOp(r, float64(r.Work.Commands)) }

func perOp(r cell.Result, x float64) float64 { return per(x, float64(r.AllOps)) }

// counted is per operation too. Only Linux counts these, so 0 is none.
func counted(r cell.Result, n int64) float64 { return where(n != 0, perOp(r, float64(n))) }

// clientWakeups are of all threads. Where callers pass a lock on, most are those of the benchmark.
func clientWakeups(r cell.Result) float64 {
	return where(r.Load != cell.Pass, counted(r, r.Wakeups))
}

// Figures of held leases.
func heapPerLease(r cell.Result) float64 {
	return where(r.Load == cell.Hold, per(float64(r.Heap), float64(r.Callers)))
}

func commandsPerRenewal(r cell.Result) float64 {
	return per(float64(r.Work.Sent), float64(r.Work.Servers)*float64(r.Renewals))
}

// shareMin and shareMax are the least and the most grants of a caller, relative to the mean.
func shareMin(r cell.Result) float64 { return share(r, slices.Min[[]int64]) }
func shareMax(r cell.Result) float64 { return share(r, slices.Max[[]int64]) }

func share(r cell.Result, of func([]int64) int64) float64 {
	var sum int64
	for _, n := range r.Grants {
		sum += n
	}
	if sum == 0 || !r.Load.Contended() {
		return math.NaN()
	}
	return float64(of(r.Grants)) * float64(len(r.Grants)) / float64(sum)
}

// latencies returns the figures of a distribution of latencies, in milliseconds.
func latencies(name string, from func(cell.Result) *cell.Latency) []figure {
	part := func(quantile string, of func(*cell.Latency) float64) figure {
		return figure{name: name + " " + quantile + " ms", shown: true, of: func(r cell.Result) float64 {
			if l := from(r); l != nil {
				return of(l)
			}
			return math.NaN()
		}}
	}
	return []figure{
		part("p50", func(l *cell.Latency) float64 { return l.P50 }),
		part("p99", func(l *cell.Latency) float64 { return l.P99 }),
	}
}

// lost is not a number where no leases are held all the time.
func lost(r cell.Result) float64 {
	return where(r.Load == cell.Hold || r.Load.Held(), float64(r.Lost))
}

// gaveUp is not a number where callers are patient.
func gaveUp(r cell.Result) float64 { return where(r.Patience != 0, float64(r.GaveUp)) }

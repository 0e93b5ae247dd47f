package render

import (
	"math"
	"slices"
	"strconv"

	"github.com/quorumlock/quorumlock/bench/cell"
	"github.com/quorumlock/quorumlock/bench/cluster"
)

// Row is one cell, over all rounds.
type Row struct {
	cell.Cell
	results []cell.Result // one for each measured round
	// Failed counts the rounds that could not be measured, and Error is the first reason.
	Failed int
	Error  string
}

// figure computes one figure of a result; it is not a number if it was not measured.
type figure func(cell.Result) float64

// rows gathers the results of each cell, in the order of the plan.
func rows(results []cell.Result, order []cell.Cell) (measured []*Row) {
	byName := map[string]*Row{}
	var all []*Row
	row := func(c cell.Cell) *Row {
		r := byName[c.String()]
		if r == nil {
			r = &Row{Cell: c}
			byName[c.String()] = r
			all = append(all, r)
		}
		return r
	}
	for _, c := range order {
		row(c)
	}
	for _, result := range results {
		r := row(result.Cell)
		if result.Error == "" {
			r.results = append(r.results, result)
			continue
		}
		if r.Failed++; r.Failed == 1 {
			r.Error = result.Error
		}
	}
	for _, r := range all {
		if len(r.results)+r.Failed > 0 {
			measured = append(measured, r)
		}
	}
	return measured
}

// stat returns a figure of the cell, over the rounds.
func (r *Row) stat(of figure) Stat {
	var values []float64
	for _, result := range r.results {
		values = append(values, of(result))
	}
	return newStat(values)
}

// ratio returns a figure of this cell relative to another cell's, computed within each round.
func (r *Row) ratio(to *Row, of figure) Stat {
	if to == nil {
		return Stat{}
	}
	var values []float64
	for _, a := range r.results {
		for _, b := range to.results {
			if a.Round == b.Round {
				values = append(values, of(a)/of(b))
			}
		}
	}
	return newStat(values)
}

// find returns the row of a cell, or nil.
func find(rows []*Row, c cell.Cell) *Row {
	i := slices.IndexFunc(rows, func(r *Row) bool { return r.String() == c.String() })
	if i < 0 {
		return nil
	}
	return rows[i]
}

// by is the row of the same cell with another peer, or nil.
func (r *Row) by(rows []*Row, name string) *Row {
	c := r.Cell
	c.Peer = name
	return find(rows, c)
}

// healthy is the row of the same cell with all nodes well, or nil.
func (r *Row) healthy(rows []*Row) *Row {
	c := r.Cell
	c.Fault, c.Bad = cluster.None, 0
	return find(rows, c)
}

func per(x, n float64) float64 {
	if n == 0 {
		return math.NaN()
	}
	return x / n
}

// Figures per second. Those of servers are per node, too.
func rate(r cell.Result) float64        { return per(float64(r.Ops), r.Seconds) }
func switchRate(r cell.Result) float64  { return per(float64(r.Switches), r.Seconds) }
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
func cpu(r cell.Result) float64      { return client(r) + servers(r) }
func commands(r cell.Result) float64 { return perOp(r, float64(r.Work.Commands)) }
func scripts(r cell.Result) float64  { return perOp(r, float64(r.Work.Scripts)) }
func sent(r cell.Result) float64     { return perOp(r, float64(r.Work.Sent)) }

func perOp(r cell.Result, x float64) float64 { return per(x, float64(r.AllOps)) }

// Figures of held leases.
func heapPerLease(r cell.Result) float64 {
	if r.Load != cell.Hold {
		return math.NaN()
	}
	return per(float64(r.Heap), float64(r.Callers))
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

// Latencies of a result, in milliseconds.
func acquire(of func(*cell.Latency) float64) figure {
	return func(r cell.Result) float64 { return latency(r.Acquire, of) }
}

func release(of func(*cell.Latency) float64) figure {
	return func(r cell.Result) float64 { return latency(r.Release, of) }
}

func delay(of func(*cell.Latency) float64) figure {
	return func(r cell.Result) float64 { return latency(r.Delay, of) }
}

func p50(l *cell.Latency) float64  { return l.P50 }
func p95(l *cell.Latency) float64  { return l.P95 }
func p99(l *cell.Latency) float64  { return l.P99 }
func p999(l *cell.Latency) float64 { return l.P999 }
func most(l *cell.Latency) float64 { return l.Max }

func latency(l *cell.Latency, of func(*cell.Latency) float64) float64 {
	if l == nil {
		return math.NaN()
	}
	return of(l)
}

func recovery(of func(*cell.Recovery) float64) figure {
	return func(r cell.Result) float64 {
		if r.Recovery == nil {
			return math.NaN()
		}
		return of(r.Recovery)
	}
}

// gives is not a number where a node gave no lock before the end.
func gives(x *cell.Recovery) float64 {
	if x.Never {
		return math.NaN()
	}
	return x.Gives
}

// Stat summarises a figure over several rounds.
type Stat struct {
	Median, Min, Max float64
	// Rounds is the number of rounds; 0 if nothing was measured.
	Rounds int
}

// newStat computes the summary, without values that are not numbers.
func newStat(values []float64) Stat {
	vs := slices.DeleteFunc(values, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
	if len(vs) == 0 {
		return Stat{}
	}
	slices.Sort(vs)
	middle := len(vs) / 2
	median := vs[middle]
	if len(vs)%2 == 0 {
		median = (vs[middle-1] + vs[middle]) / 2
	}
	return Stat{Median: median, Min: vs[0], Max: vs[len(vs)-1], Rounds: len(vs)}
}

// String formats the median and the spread: half the distance of the extremes, in percent.
func (s Stat) String() string {
	if s.Rounds < 2 || s.Median == 0 {
		return s.median()
	}
	return short(s.Median) + " ±" + strconv.FormatFloat((s.Max-s.Min)/2/s.Median*100, 'f', 0, 64) + "%"
}

// median is the figure alone.
func (s Stat) median() string {
	if s.Rounds == 0 {
		return "-"
	}
	return short(s.Median)
}

// extremes formats the least and the most of several rounds.
func (s Stat) extremes() string {
	if s.Rounds < 2 {
		return "-"
	}
	return short(s.Min) + " - " + short(s.Max)
}

// short formats a number with about three significant digits.
func short(v float64) string {
	a := math.Abs(v)
	switch {
	case a == 0:
		return "0"
	case a >= 10_000:
		return strconv.FormatFloat(v/1000, 'f', 1, 64) + "k"
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 0.1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case a >= 0.01:
		return strconv.FormatFloat(v, 'f', 3, 64)
	default:
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
}

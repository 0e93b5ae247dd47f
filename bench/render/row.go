package render

import (
	"math"

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

// rows gathers the results of each cell, in the order of the plan.
func rows(results []cell.Result, order []cell.Cell) []*Row {
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
	var measured []*Row
	for _, r := range all {
		if len(r.results)+r.Failed > 0 {
			measured = append(measured, r)
		}
	}
	return measured
}

// stat returns a figure of the cell, over the rounds.
func (r *Row) stat(of func(cell.Result) float64) Stat {
	var values []float64
	for _, result := range r.results {
		values = append(values, of(result))
	}
	return newStat(values)
}

// most returns the largest value of a count in any round.
func (r *Row) most(of func(cell.Result) int64) int64 {
	var n int64
	for _, result := range r.results {
		n = max(n, of(result))
	}
	return n
}

// ratio returns a figure of this cell relative to another cell's, computed within each round.
func (r *Row) ratio(to *Row, of func(cell.Result) float64) Stat {
	if to == nil {
		return Stat{}
	}
	var values []float64
	for _, a := range r.results {
		for _, b := range to.results {
			if a.Round == b.Round && of(b) != 0 {
				values = append(values, of(a)/of(b))
			}
		}
	}
	return newStat(values)
}

// find returns the row of the same cell with another peer, or nil.
func find(rows []*Row, c cell.Cell) *Row {
	for _, r := range rows {
		if r.String() == c.String() {
			return r
		}
	}
	return nil
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

// Figures of a result.
func rate(r cell.Result) float64     { return r.Rate }
func switches(r cell.Result) float64 { return r.Switches }
func sentRate(r cell.Result) float64 { return r.SentRate }

func acquire(of func(cell.Latency) float64) func(cell.Result) float64 {
	return func(r cell.Result) float64 { return latency(r.Acquire, of) }
}

func release(of func(cell.Latency) float64) func(cell.Result) float64 {
	return func(r cell.Result) float64 { return latency(r.Release, of) }
}

func delay(of func(cell.Latency) float64) func(cell.Result) float64 {
	return func(r cell.Result) float64 { return latency(r.Delay, of) }
}

func p50(l cell.Latency) float64  { return l.P50 }
func p95(l cell.Latency) float64  { return l.P95 }
func p99(l cell.Latency) float64  { return l.P99 }
func p999(l cell.Latency) float64 { return l.P999 }
func most(l cell.Latency) float64 { return l.Max }

// latency returns NaN if nothing was measured.
func latency(l *cell.Latency, of func(cell.Latency) float64) float64 {
	if l == nil {
		return math.NaN()
	}
	return of(*l)
}

// recovery returns NaN if no node was restarted.
func recovery(of func(cell.Recovery) float64) func(cell.Result) float64 {
	return func(r cell.Result) float64 {
		if r.Recovery == nil {
			return math.NaN()
		}
		return of(*r.Recovery)
	}
}

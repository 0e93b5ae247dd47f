package render

import (
	"math"
	"slices"
	"strconv"
	"strings"

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
func rows(results []cell.Result, plan []cell.Cell) (all []*Row) {
	for _, result := range results {
		i := slices.IndexFunc(all, func(r *Row) bool { return r.String() == result.String() })
		if i < 0 {
			i = len(all)
			all = append(all, &Row{Cell: result.Cell})
		}
		r := all[i]
		if result.Error == "" {
			r.results = append(r.results, result)
			continue
		}
		if r.Failed++; r.Failed == 1 {
			r.Error = result.Error
		}
	}
	place := func(r *Row) int {
		return slices.IndexFunc(plan, func(c cell.Cell) bool { return c.String() == r.String() })
	}
	slices.SortStableFunc(all, func(a, b *Row) int { return place(a) - place(b) })
	return all
}

func (r *Row) stat(f figure) Stat {
	var values []float64
	for _, result := range r.results {
		values = append(values, f.of(result))
	}
	return newStat(values)
}

// ratio returns a figure of this cell relative to another cell's, computed within each round.
func (r *Row) ratio(to *Row, f figure) Stat {
	if to == nil {
		return Stat{}
	}
	var values []float64
	for _, a := range r.results {
		for _, b := range to.results {
			if a.Round == b.Round {
				values = append(values, f.of(a)/f.of(b))
			}
		}
	}
	return newStat(values)
}

// reference is the row that a row is compared with, or nil: "healthy" is the same cell with all nodes well, "1 nodes"
// the one with another number of nodes, "64 callers" the one with another number of callers, who are patient, and
// everything else the same cell with another peer.
func (r *Row) reference(rows []*Row, to string) *Row {
	c := r.Cell
	number, what, _ := strings.Cut(to, " ")
	n, _ := strconv.Atoi(number)
	switch {
	case to == "healthy":
		c.Fault, c.Bad = cluster.None, 0
	case what == "nodes":
		c.Nodes = n
	case what == "callers":
		c.Callers, c.Patience = n, 0
	default:
		c.Peer = to
	}
	i := slices.IndexFunc(rows, func(r *Row) bool { return r.String() == c.String() })
	if i < 0 {
		return nil
	}
	return rows[i]
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

// text is the figure in a table: String, or the largest value of a worst figure.
func (s Stat) text(worst bool) string {
	if worst && s.Rounds > 0 {
		return strconv.FormatFloat(s.Max, 'f', -1, 64)
	}
	return s.String()
}

func (s Stat) median() string {
	if s.Rounds == 0 {
		return "-"
	}
	return short(s.Median)
}

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

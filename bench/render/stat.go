package render

import (
	"math"
	"slices"
	"strconv"
)

// Stat summarises a figure over several rounds.
type Stat struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	// Rounds is the number of rounds; 0 if nothing was measured.
	Rounds int `json:"rounds"`
}

// newStat computes the summary, without values that are not numbers.
func newStat(values []float64) Stat {
	var vs []float64
	for _, v := range values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			vs = append(vs, v)
		}
	}
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
	switch {
	case s.Rounds == 0:
		return "-"
	case s.Rounds == 1 || s.Median == 0:
		return short(s.Median)
	default:
		return short(s.Median) + " ±" + strconv.FormatFloat((s.Max-s.Min)/2/s.Median*100, 'f', 0, 64) + "%"
	}
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

// factor formats a ratio.
func (s Stat) factor() string {
	if s.Rounds == 0 {
		return "-"
	}
	return strconv.FormatFloat(s.Median, 'f', 2, 64)
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
	case a >= 0.01:
		return strconv.FormatFloat(v, 'f', 2, 64)
	default:
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
}

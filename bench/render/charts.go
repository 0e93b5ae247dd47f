package render

import (
	"errors"
	"fmt"
	"slices"

	"gonum.org/v1/plot/plotter"

	"github.com/quorumlock/quorumlock/bench/cell"
	"github.com/quorumlock/quorumlock/bench/cluster"
)

// charts returns the charts for the rows of one scenario and load.
func charts(rs []*Row) ([]string, error) {
	c := new(album)
	switch rs[0].Scenario {
	case "uncontended":
		c.uncontended(rs)
	case "contended":
		c.contended(rs)
	case "faults":
		c.faults(rs)
	case "recovery":
		c.recovery(rs)
	case "waiters":
		c.bars(axes{title: "What waiters cost", x: "callers", y: "commands a second and node"}, rs, sizes, sentRate)
	case "held":
		c.bars(axes{title: "Memory of held leases", x: "leases", y: "bytes of heap per lease"}, rs, sizes,
			func(r cell.Result) float64 { return r.HeapPerLease })
	case "nodes":
		c.nodes(rs)
	case "kinds":
		c.kinds(rs)
	case "kinds-contended":
		c.bars(axes{title: "Grants of one lock of the kind", x: "callers", y: "grants a second"}, rs, sizes, rate)
		c.bars(axes{title: "Cost of a grant", x: "callers", y: "commands sent to all nodes"}, rs, sizes, sent)
	}
	return c.svgs, errors.Join(c.errs...)
}

// album collects charts.
type album struct {
	svgs []string
	errs []error
}

func (c *album) add(svg string, err error) {
	if err != nil {
		c.errs = append(c.errs, err)
		return
	}
	c.svgs = append(c.svgs, svg)
}

// lines draws lines, if there are any.
func (c *album) lines(a axes, all []series) {
	if len(all) > 0 {
		c.add(lineChart(a, all))
	}
}

func callers(r *Row) float64 { return float64(r.Callers) }

func (c *album) uncontended(rs []*Row) {
	a := axes{title: "Throughput", x: "callers", y: "operations a second", logX: true, logY: true}
	c.lines(a, lines(rs, callers, rate))
	a.title, a.y = "How long an acquire takes: the median", "microseconds"
	c.lines(a, lines(rs, callers, acquire(p50)))
	a.title = "How long an acquire takes: one in a hundred takes longer"
	c.lines(a, lines(rs, callers, acquire(p99)))
	a.title, a.y = "What an operation costs: CPU of the client and all servers", "microseconds"
	c.lines(a, lines(rs, callers, cpu))
}

func cpu(r cell.Result) float64 { return r.Client + r.Servers }

func (c *album) contended(rs []*Row) {
	c.bars(axes{title: "Grants of one lock", x: "callers", y: "grants a second"}, rs, sizes, rate)
	c.bars(axes{title: "From a release to the next grant: the median", x: "callers", y: "microseconds"}, rs, sizes, delay(p50))
	c.bars(axes{title: "Cost of a grant", x: "callers", y: "commands sent to all nodes"}, rs, sizes, sent)
}

func sent(r cell.Result) float64 { return r.Sent }

func (c *album) kinds(rs []*Row) {
	c.bars(axes{title: "Throughput", x: "callers", y: "operations a second"}, rs, sizes, rate)
	c.bars(axes{title: "How long an acquire takes: the median", x: "callers", y: "microseconds"}, rs, sizes, acquire(p50))
	c.bars(axes{title: "What an operation costs: CPU of the client and all servers", x: "callers", y: "microseconds"}, rs, sizes, cpu)
}

func (c *album) recovery(rs []*Row) {
	c.overTime(rs, cluster.Restarted, 1)
	rs = slices.DeleteFunc(slices.Clone(rs), func(r *Row) bool { return r.Fault != cluster.Restarted })
	c.bars(axes{title: "Until the node gives locks again, from when it answers", y: "seconds"}, rs, (*Row).variant, recovery(gives))
	c.bars(axes{title: "The longest pause of all callers", y: "milliseconds"}, rs, (*Row).variant,
		recovery(func(x cell.Recovery) float64 { return x.Pause * 1000 }))
}

func (c *album) faults(rs []*Row) {
	c.bars(axes{title: "Throughput while nodes fail", y: "operations a second"}, rs, (*Row).variant, rate)
	c.bars(axes{title: "How long an acquire takes: one in a hundred takes longer", y: "microseconds"}, rs, (*Row).variant, acquire(p99))
	c.overTime(rs, cluster.Hung, 1)
}

func (c *album) nodes(rs []*Row) {
	x := func(r *Row) float64 { return float64(r.Nodes) }
	a := axes{title: "Throughput", x: "nodes", y: "operations a second"}
	c.lines(a, lines(rs, x, rate))
	a.title, a.y = "What an operation costs: CPU of the client and all servers", "microseconds"
	c.lines(a, lines(rs, x, cpu))
}

// overTime shows the throughput over time in the first round. The fault begins at 0.
func (c *album) overTime(rs []*Row, fault cluster.Fault, bad int) {
	var all []series
	for _, r := range rs {
		if r.Fault != fault || r.Bad != bad || len(r.results) == 0 {
			continue
		}
		s, began := series{name: r.Peer}, 0.0
		if r.results[0].Recovery != nil {
			began = r.results[0].Recovery.Killed
		}
		step := cell.Step.Seconds()
		for i, n := range r.results[0].Timeline {
			s.points = append(s.points, plotter.XY{X: float64(i)*step - began, Y: float64(n) / step})
		}
		if len(s.points) > 0 {
			all = append(all, s)
		}
	}
	if len(all) > 0 {
		title := fmt.Sprintf("Throughput while %d node %s, at 0 s", bad, map[cluster.Fault]string{
			cluster.Hung: "hangs", cluster.Restarted: "is killed and restarted",
		}[fault])
		c.add(timeChart(axes{title: title, x: "seconds", y: "operations a second"}, all))
	}
}

// bars draws a group of bars for each category, in the order in which they occur.
func (c *album) bars(a axes, rs []*Row, category func(*Row) string, of func(cell.Result) float64) {
	var categories []string
	for _, r := range rs {
		if !slices.Contains(categories, category(r)) {
			categories = append(categories, category(r))
		}
	}
	all := gather(rs, func(r *Row) (plotter.XY, bool) {
		s := r.stat(of)
		return plotter.XY{X: float64(slices.Index(categories, category(r))), Y: s.Median}, s.Rounds > 0
	})
	if len(all) > 0 {
		c.add(barChart(a, categories, all))
	}
}

// sizes names the size of a cell.
func sizes(r *Row) string {
	if r.Processes == 1 {
		return fmt.Sprint(r.Callers)
	}
	return fmt.Sprintf("%d in %d processes", r.Callers, r.Processes)
}

func (r *Row) variant() string { return r.Variant() }

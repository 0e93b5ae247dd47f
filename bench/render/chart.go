package render

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/quorumlock/quorumlock/bench/cell"
	"github.com/quorumlock/quorumlock/bench/peer"
)

const (
	chartWidth  = 18 * vg.Centimeter
	chartHeight = 10 * vg.Centimeter
)

// series is one line of a chart, or one colour of bars.
type series struct {
	name   string
	points plotter.XYs
}

// axes say what a chart shows.
type axes struct {
	title, x, y string
	logX, logY  bool
}

// lineChart draws lines, each with a mark at what was measured.
func lineChart(a axes, all []series) (string, error) {
	p := newPlot(a)
	for _, s := range all {
		if len(s.points) == 0 {
			continue
		}
		line, points, err := plotter.NewLinePoints(s.points)
		if err != nil {
			return "", fmt.Errorf("chart %q: %w", a.title, err)
		}
		i := styleOf(s.name)
		line.Color, line.Dashes = plotutil.Color(i), plotutil.Dashes(i)
		points.Color, points.Shape = plotutil.Color(i), plotutil.Shape(i)
		p.Add(line, points)
		p.Legend.Add(s.name, line, points)
	}
	if a.logX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, measuredAt(all)
	} else {
		p.X.Tick.Marker = measuredAt(all)
	}
	if a.logY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	} else {
		p.Y.Min = 0
	}
	return svg(p)
}

// timeChart draws lines over time.
func timeChart(a axes, all []series) (string, error) {
	p := newPlot(a)
	for _, s := range all {
		line, err := plotter.NewLine(s.points)
		if err != nil {
			return "", fmt.Errorf("chart %q: %w", a.title, err)
		}
		i := styleOf(s.name)
		line.Color, line.Dashes = plotutil.Color(i), plotutil.Dashes(i)
		p.Add(line)
		p.Legend.Add(s.name, line)
	}
	p.Y.Min = 0
	return svg(p)
}

// barChart draws a group of bars for each category; the X of a point is the place of the
// category.
func barChart(a axes, categories []string, all []series) (string, error) {
	p := newPlot(a)
	width := min(chartWidth*0.75/vg.Length(len(categories)*(len(all)+1)), vg.Points(30))
	for i, s := range all {
		values := make(plotter.Values, len(categories))
		for _, xy := range s.points {
			values[int(xy.X)] = xy.Y
		}
		bars, err := plotter.NewBarChart(values, width)
		if err != nil {
			return "", fmt.Errorf("chart %q: %w", a.title, err)
		}
		bars.LineStyle.Width = 0
		bars.Color = plotutil.Color(styleOf(s.name))
		bars.Offset = width * vg.Length(float64(i)-float64(len(all)-1)/2)
		p.Add(bars)
		p.Legend.Add(s.name, bars)
	}
	p.NominalX(categories...)
	p.Y.Min = 0
	return svg(p)
}

func newPlot(a axes) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = a.title, a.x, a.y
	p.Title.Padding = vg.Points(8)
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.XOffs, p.Legend.Padding = vg.Points(6), vg.Points(1)
	p.Add(plotter.NewGrid())
	return p
}

// measuredAt are ticks where something was measured.
func measuredAt(all []series) plot.ConstantTicks {
	seen := map[float64]bool{}
	var ticks plot.ConstantTicks
	for _, s := range all {
		for _, xy := range s.points {
			if !seen[xy.X] {
				seen[xy.X] = true
				ticks = append(ticks, plot.Tick{Value: xy.X, Label: fmt.Sprint(xy.X)})
			}
		}
	}
	return ticks
}

// styleOf is the same for a peer in all charts.
func styleOf(name string) int {
	for i, p := range peer.Names() {
		if p == name {
			return i
		}
	}
	return 0
}

// svg draws the plot, as an element that a page can contain.
func svg(p *plot.Plot) (string, error) {
	canvas := vgsvg.New(chartWidth, chartHeight)
	p.Draw(draw.New(canvas))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return "", err
	}
	text := b.String()
	return text[max(0, strings.Index(text, "<svg")):], nil // without the XML declaration
}

// lines makes a series for each peer of what some rows measured. What is not positive is
// left out, as it cannot be shown on a scale of logarithms.
func lines(rs []*Row, x func(*Row) float64, y func(cell.Result) float64) []series {
	return gather(rs, func(r *Row) (plotter.XY, bool) {
		v := r.stat(y)
		return plotter.XY{X: x(r), Y: v.Median}, v.Rounds > 0 && v.Median > 0 && !math.IsNaN(v.Median)
	})
}

// gather makes a series for each peer, in the order in which they occur.
func gather(rs []*Row, point func(*Row) (plotter.XY, bool)) (all []series) {
	at := map[string]int{}
	for _, r := range rs {
		xy, ok := point(r)
		if !ok {
			continue
		}
		if _, has := at[r.Peer]; !has {
			at[r.Peer] = len(all)
			all = append(all, series{name: r.Peer})
		}
		s := &all[at[r.Peer]]
		s.points = append(s.points, xy)
	}
	return all
}

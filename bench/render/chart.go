package render

import (
	"bytes"
	"fmt"
	"image/color"
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
	chartWidth  = 20 * vg.Centimeter
	chartHeight = 10 * vg.Centimeter
	legendWidth = 5 * vg.Centimeter
)

// series is one line of a chart, or one colour of bars.
type series struct {
	name   string
	points plotter.XYs
}

// axes are the title and labels of a chart.
type axes struct {
	title, x, y string
	logX, logY  bool
}

// chart is a plot, and beside it a legend.
type chart struct {
	*plot.Plot
	legend plot.Legend
}

// lineChart draws lines with a mark at each measured point.
func lineChart(a axes, all []series) (string, error) {
	p := newChart(a)
	for _, s := range all {
		line, points, err := plotter.NewLinePoints(s.points)
		if err != nil {
			return "", fmt.Errorf("chart %q: %w", a.title, err)
		}
		i := styleOf(s.name)
		line.Color, points.Color, points.Shape = colourOf(i), colourOf(i), plotutil.Shape(i)
		p.Add(line, points)
		p.legend.Add(s.name, line, points)
	}
	p.X.Tick.Marker = measuredAt(all)
	if a.logX {
		logarithmic(&p.X)
	}
	if a.logY {
		logarithmic(&p.Y)
		p.Y.Tick.Marker = plot.TickerFunc(logTicks)
	} else {
		p.Y.Min = 0
	}
	return p.svg()
}

// logarithmic gives an axis a logarithmic scale. A single value gets room around it; the plot library would begin
// such an axis below zero.
func logarithmic(a *plot.Axis) {
	a.Scale = plot.LogScale{}
	if a.Min == a.Max {
		a.Min, a.Max = a.Min/2, a.Max*2
	}
}

// timeChart draws lines over time.
func timeChart(a axes, all []series) (string, error) {
	p := newChart(a)
	for _, s := range all {
		line, err := plotter.NewLine(s.points)
		if err != nil {
			return "", fmt.Errorf("chart %q: %w", a.title, err)
		}
		line.Color, line.Width = colourOf(styleOf(s.name)), vg.Points(1.5)
		p.Add(line)
		p.legend.Add(s.name, line)
	}
	p.Y.Min = 0
	return p.svg()
}

// barChart draws a group of bars for each category. The X of a point is the index of its category.
func barChart(a axes, categories []string, all []series) (string, error) {
	p := newChart(a)
	width := min((chartWidth-legendWidth)*0.85/vg.Length(len(categories)*(len(all)+1)), vg.Points(30))
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
		bars.Color = colourOf(styleOf(s.name))
		bars.Offset = width * vg.Length(float64(i)-float64(len(all)-1)/2)
		p.Add(bars)
		p.legend.Add(s.name, bars)
	}
	p.NominalX(categories...)
	p.Y.Min = 0
	return p.svg()
}

func newChart(a axes) *chart {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = a.title, a.x, a.y
	p.Title.Padding = vg.Points(8)
	p.Y.Tick.Marker = plot.TickerFunc(linearTicks)
	p.Add(plotter.NewGrid())
	c := &chart{Plot: p, legend: plot.NewLegend()}
	c.legend.Top, c.legend.Left, c.legend.Padding = true, true, vg.Points(2)
	c.legend.YOffs = -vg.Centimeter
	return c
}

// linearTicks are the default ticks, with labels as in tables.
func linearTicks(least, most float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(least, most)
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label = short(ticks[i].Value)
		}
	}
	return ticks
}

// logTicks are at 1, 2 and 5 of each power of ten.
func logTicks(least, most float64) (ticks []plot.Tick) {
	for power := math.Pow10(int(math.Floor(math.Log10(least)))); power <= most; power *= 10 {
		for _, digit := range []float64{1, 2, 5} {
			if v := digit * power; v >= least && v <= most {
				ticks = append(ticks, plot.Tick{Value: v, Label: short(v)})
			}
		}
	}
	return ticks
}

// measuredAt returns ticks at the measured values.
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

// styleOf gives a peer the same style in all charts.
func styleOf(name string) int {
	for i, p := range peer.Names() {
		if p == name {
			return i
		}
	}
	return 0
}

// colours can be told apart together with the shapes of the marks, by most colour-blind readers too.
var colours = []color.RGBA{
	{0x1b, 0x7a, 0x3d, 0xff}, // this library is green
	{0x66, 0xb2, 0x66, 0xff},
	{0x0b, 0x4f, 0x2a, 0xff},
	{0xa6, 0xc8, 0x3c, 0xff},
	{0x44, 0x44, 0x44, 0xff}, // limits are grey
	{0x88, 0x88, 0x88, 0xff},
	{0xbb, 0xbb, 0xbb, 0xff},
	{0xc6, 0x28, 0x28, 0xff}, // others
	{0xef, 0x8a, 0x62, 0xff},
	{0x1f, 0x5f, 0xb4, 0xff},
	{0x74, 0xa9, 0xdb, 0xff},
	{0x8e, 0x44, 0xad, 0xff},
	{0xd4, 0xa0, 0x17, 0xff},
	{0x1f, 0x77, 0xb4, 0xff}, // other kinds of locks, which are in charts of their own
	{0xff, 0x7f, 0x0e, 0xff},
	{0xd6, 0x27, 0x28, 0xff},
	{0x8c, 0x2d, 0x04, 0xff},
	{0x94, 0x67, 0xbd, 0xff},
	{0x7f, 0x7f, 0x7f, 0xff},
	{0x17, 0xbe, 0xcf, 0xff},
}

func colourOf(style int) color.Color { return colours[style%len(colours)] }

// svg draws the chart as an element of a page.
func (c *chart) svg() (string, error) {
	canvas := vgsvg.New(chartWidth, chartHeight)
	whole := draw.New(canvas)
	c.Draw(draw.Crop(whole, 0, -legendWidth, 0, 0))
	c.legend.Draw(draw.Crop(whole, chartWidth-legendWidth+vg.Points(8), 0, 0, 0))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return "", err
	}
	text := b.String()
	return text[max(0, strings.Index(text, "<svg")):], nil // without the XML declaration
}

// lines makes a series of each peer's figures. It drops figures that are not positive, which a logarithmic scale
// cannot show.
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

package render

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// chart is a line for each peer, with a point for each category.
type chart struct {
	title, unit string
	categories  []string
	lines       []line
}

type line struct {
	peer   string
	values []float64 // for each category; not a number where nothing was measured
}

// newChart draws a figure of these rows. The key columns name the categories.
func newChart(title, unit string, cs []column, rs, all []*Row, of figure) *chart {
	c := &chart{title: title, unit: unit}
	categoryOf := func(r *Row) string {
		var keys []string
		for _, x := range cs {
			if x.key {
				keys = append(keys, x.text(r, all))
			}
		}
		return strings.Join(keys, ", ")
	}
	for _, r := range rs {
		c.categories = append(c.categories, categoryOf(r))
	}
	c.categories = inOrder(c.categories)
	for _, r := range rs {
		s := r.stat(of)
		if s.Rounds == 0 {
			continue
		}
		i := slices.IndexFunc(c.lines, func(l line) bool { return l.peer == r.Peer })
		if i < 0 {
			i = len(c.lines)
			c.lines = append(c.lines, line{peer: r.Peer, values: slices.Repeat([]float64{math.NaN()}, len(c.categories))})
		}
		c.lines[i].values[slices.Index(c.categories, categoryOf(r))] = s.Median
	}
	return c
}

// The size of a chart, and its margins.
const (
	width, height            = 760.0, 400.0
	left, right, top, bottom = 70.0, 190.0, 50.0, 50.0
)

// colours can be told apart by most colour-blind readers, together with the dashes of the lines.
var colours = []string{"#1b7a3d", "#444444", "#c62828", "#1f5fb4", "#d4a017", "#8e44ad", "#ef8a62", "#74a9db", "#888888"}

// svg draws the chart. The height is proportional to the value, from 0.
func (c *chart) svg() string {
	var b strings.Builder
	text := func(x, y float64, anchor, text string) {
		fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, html.EscapeString(text))
	}
	largest := 0.0
	for _, l := range c.lines {
		for _, v := range l.values {
			if v*1.05 > largest {
				largest = v * 1.05
			}
		}
	}
	step := math.Pow10(int(math.Floor(math.Log10(max(largest, 1e-9)))))
	if largest/step < 3 {
		step /= 4
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12">`+"\n", width, height)
	b.WriteString(`<rect width="100%" height="100%" fill="white"/>` + "\n")
	y := func(v float64) float64 { return height - bottom - v/max(largest, step)*(height-top-bottom) }
	x := func(i int) float64 { return left + (float64(i)+0.5)*(width-left-right)/float64(len(c.categories)) }
	text(left, 20, "start", c.title)
	text(left, 36, "start", c.unit)
	for v := 0.0; v <= largest; v += step {
		fmt.Fprintf(&b, `<path d="M%.0f %.1fH%.0f" stroke="#ddd"/>`+"\n", left, y(v), width-right)
		text(left-8, y(v)+4, "end", short(v))
	}
	for i, name := range c.categories {
		text(x(i), height-bottom+20, "middle", name)
	}
	for i, l := range c.lines {
		style := fmt.Sprintf(`stroke="%s" fill="none" stroke-width="2"`, colours[i%len(colours)])
		if i >= len(colours) {
			style += ` stroke-dasharray="6 3"`
		}
		var points []string
		for at, v := range l.values {
			if !math.IsNaN(v) {
				points = append(points, fmt.Sprintf("%.1f %.1f", x(at), y(v)))
				fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="3" %s/>`+"\n", x(at), y(v), style)
			}
		}
		legend := top + float64(i)*17
		fmt.Fprintf(&b, `<path d="M%s" %s/><path d="M%.0f %.0fh20" %s/>`+"\n", strings.Join(points, "L"), style, width-right+12, legend, style)
		text(width-right+38, legend+4, "start", l.peer)
	}
	return b.String() + "</svg>\n"
}

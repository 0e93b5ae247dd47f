package render

import (
	"fmt"
	"slices"
	"strings"
)

// colours can be told apart by most colour-blind readers, on white and on black. quiet is that of the axes.
var colours = []string{"#2e9e55", "#9a6ee0", "#e5534b", "#3f8ae0", "#c69026"}

const quiet = "#808890"

// chart draws operations a second by callers as SVG, with a line for each peer that has several sizes. The height is
// proportional to the value, from 0.
func chart(rs []*Row) string {
	const width, left, top, height = 380.0, 60.0, 20.0, 300.0
	var sizes, peers []string
	largest := 1.0
	for _, r := range rs {
		sizes, peers = append(sizes, r.Size()), append(peers, r.Peer)
		largest = max(largest, r.stat(named("ops/s")).Median)
	}
	sizes, peers = inOrder(sizes), inOrder(peers)
	var b strings.Builder
	b.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 360" font-family="sans-serif" font-size="12">` + "\n")
	for i := range 5 {
		y := top + height*float64(4-i)/4
		fmt.Fprintf(&b, `<path d="M%.0f %.0fh%.0f" stroke="%s" opacity="0.4"/><text x="%.0f" y="%.0f" fill="%s" text-anchor="end">%s</text>`+"\n",
			left, y, width, quiet, left-8, y+4, quiet, short(largest*float64(i)/4))
	}
	x := func(size string) float64 {
		return left + (float64(slices.Index(sizes, size))+0.5)*width/float64(len(sizes))
	}
	for _, size := range sizes {
		fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" fill="%s" text-anchor="middle">%s</text>`+"\n", x(size), top+height+20, quiet, size)
	}
	drawn := 0
	for _, peer := range peers {
		var points []string
		for _, r := range rs {
			if s := r.stat(named("ops/s")); r.Peer == peer && s.Rounds > 0 {
				points = append(points, fmt.Sprintf("%.1f,%.1f", x(r.Size()), top+height*(1-s.Median/largest)))
			}
		}
		if len(points) < 2 {
			continue
		}
		colour, legend := colours[drawn%len(colours)], top+10+20*float64(drawn)
		drawn++
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(points, " "), colour)
		fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" fill="%s">%s</text>`+"\n", left+width+20, legend, colour, peer)
	}
	return b.String() + "</svg>\n"
}

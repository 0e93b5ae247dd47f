package render

import (
	"fmt"
	"slices"
	"strings"
)

// colours can be told apart by most colour-blind readers.
var colours = []string{"#1b7a3d", "#444444", "#c62828", "#1f5fb4", "#d4a017"}

// chart draws operations a second by callers as SVG, with a line for each peer. The height is proportional to the value,
// from 0.
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
	b.WriteString(`<rect width="100%" height="100%" fill="white"/>` + "\n")
	for i := range 5 {
		y := top + height*float64(4-i)/4
		fmt.Fprintf(&b, `<path d="M%.0f %.0fh%.0f" stroke="#ddd"/><text x="%.0f" y="%.0f" text-anchor="end">%s</text>`+"\n",
			left, y, width, left-8, y+4, short(largest*float64(i)/4))
	}
	x := func(size string) float64 {
		return left + (float64(slices.Index(sizes, size))+0.5)*width/float64(len(sizes))
	}
	for _, size := range sizes {
		fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" text-anchor="middle">%s</text>`+"\n", x(size), top+height+20, size)
	}
	for i, peer := range peers {
		colour, legend := colours[i%len(colours)], top+10+20*float64(i)
		var points []string
		for _, r := range rs {
			if s := r.stat(named("ops/s")); r.Peer == peer && s.Rounds > 0 {
				points = append(points, fmt.Sprintf("%.1f,%.1f", x(r.Size()), top+height*(1-s.Median/largest)))
			}
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(points, " "), colour)
		fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" fill="%s">%s</text>`+"\n", left+width+20, legend, colour, peer)
	}
	return b.String() + "</svg>\n"
}

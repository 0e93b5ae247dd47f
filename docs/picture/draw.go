package main

import (
	"fmt"
	"html"
	"strings"
)

// Sizes, in pixels.
const (
	width     = 860
	left      = 96 // x of time 0
	right     = 24
	top       = 44
	rowHeight = 30
	barHeight = 22
	gap       = 14 // between clients and servers
	lineWidth = 122
	lineGap   = 19
)

// palette has a colour for each class, for light and dark surroundings. The picture has its own background, so it is
// readable everywhere.
var palette = []struct{ class, light, dark string }{
	{"panel", "#ffffff", "#0d1117"},
	{"text", "#1f2328", "#e6edf3"},
	{"a", "#0b5cad", "#1f6feb"},
	{"b", "#8a3f00", "#b35900"},
	{"ink", "#ffffff", "#ffffff"},
	{"away", "#d0d7de", "#3d444d"},
	{"line", "#59636e", "#9198a1"},
}

// draw returns the picture as SVG.
func draw() string {
	notes, noteLines := captions()
	bottom := top + len(clients)*rowHeight + gap + len(servers)*rowHeight + 16
	height := bottom + noteLines*lineGap + 14
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="title">`+"\n", width, height, width, height)
	b.WriteString("<!-- made by docs/picture; go generate ./docs/picture -->\n")
	b.WriteString("<title id=\"title\">Two clients and five servers: one client holds a lock while servers fail, and hands it on</title>\n")
	b.WriteString(style())
	fmt.Fprintf(&b, `<rect class="panel" x="1" y="1" width="%d" height="%d" rx="8"/>`+"\n", width-2, height-2)
	for i, m := range marks {
		fmt.Fprintf(&b, `<line class="line" x1="%g" y1="%d" x2="%g" y2="%d"/>`+"\n", x(m.at), top-12, x(m.at), bottom-12)
		fmt.Fprintf(&b, `<circle class="dot" cx="%g" cy="%d" r="10"/><text class="number" x="%g" y="%d">%d</text>`+"\n", x(m.at), top-22, x(m.at), top-18, i+1)
	}
	y := top
	for _, r := range clients {
		r.draw(&b, y)
		y += rowHeight
	}
	y += gap
	for _, r := range servers {
		r.draw(&b, y)
		y += rowHeight
	}
	y = bottom + lineGap - 6
	for _, line := range notes {
		fmt.Fprintf(&b, `<text class="text" x="%d" y="%d">%s</text>`+"\n", 24+line.indent, y, html.EscapeString(line.text))
		y += lineGap
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// x returns the position of a time of the story.
func x(at float64) float64 { return left + at*(width-left-right)/end }

func (r row) draw(b *strings.Builder, y int) {
	fmt.Fprintf(b, `<text class="text" x="24" y="%d">%s</text>`+"\n", y+16, r.name)
	for _, s := range r.spans {
		inset := 0
		if s.kind == heldByA && s.text == "A, put back" {
			inset = 3 // of the hatching in a recovery
		}
		fmt.Fprintf(b, `<rect class="%s" x="%g" y="%d" width="%g" height="%d" rx="4"/>`+"\n", s.kind, x(s.from)+1, y+inset, x(s.to)-x(s.from)-2, barHeight-2*inset)
		if s.text != "" {
			fmt.Fprintf(b, `<text class="%s" x="%g" y="%d">%s</text>`+"\n", s.kind.label(), x(s.from)+9, y+16, s.text)
		}
		if s.kind == recovering {
			fmt.Fprintf(b, `<text class="text" x="%g" y="%d">gives nothing new</text>`+"\n", x(12)+9, y+16)
		}
	}
}

// label returns the class of the text on a span.
func (k kind) label() string {
	if k == heldByA || k == heldByB {
		return "on"
	}
	return "text"
}

type caption struct {
	indent int
	text   string
}

// captions returns the texts of the marks, broken into lines.
func captions() (lines []caption, n int) {
	for i, m := range marks {
		line := fmt.Sprintf("%d  ", i+1)
		indent := 0
		for word := range strings.FieldsSeq(m.text) {
			if len(line)+len(word) > lineWidth {
				lines = append(lines, caption{indent, strings.TrimSpace(line)})
				line, indent = "", 16
			}
			line += word + " "
		}
		lines = append(lines, caption{indent, strings.TrimSpace(line)})
	}
	return lines, len(lines)
}

func style() string {
	var b strings.Builder
	b.WriteString("<defs><pattern id=\"hatch\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect class=\"hatch\" width=\"2\" height=\"7\"/></pattern></defs>\n")
	b.WriteString("<style>\n")
	b.WriteString("text { font: 13px system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif }\n")
	b.WriteString(".number { text-anchor: middle; font-weight: 600 }\n")
	b.WriteString(colours(func(light, _ string) string { return light }))
	b.WriteString("@media (prefers-color-scheme: dark) {\n")
	b.WriteString(colours(func(_, dark string) string { return dark }))
	b.WriteString("}\n</style>\n")
	return b.String()
}

// colours returns the CSS rules of one palette.
func colours(pick func(light, dark string) string) string {
	c := map[string]string{}
	for _, p := range palette {
		c[p.class] = pick(p.light, p.dark)
	}
	return strings.NewReplacer(
		"PANEL", c["panel"], "TEXT", c["text"], "COLOUR-A", c["a"], "COLOUR-B", c["b"], "INK", c["ink"], "AWAY", c["away"], "LINE", c["line"],
	).Replace(`.panel { fill: PANEL; stroke: AWAY }
.text { fill: TEXT }
.on, .number { fill: INK }
.a { fill: COLOUR-A } .b { fill: COLOUR-B }
.wait { fill: none; stroke: COLOUR-B; stroke-dasharray: 4 3 }
.away { fill: AWAY }
.recover { fill: url(#hatch); stroke: AWAY }
.hatch { fill: AWAY }
.line { stroke: LINE; stroke-dasharray: 1 4 }
.dot { fill: COLOUR-A }
`)
}

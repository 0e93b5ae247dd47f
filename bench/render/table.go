package render

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// column is one column of a table: a text for each row, "-" where nothing was measured.
type column struct {
	head string
	text func(*Row) string
}

// keys are the columns that say which cell a row is.
var keys = []column{
	{"nodes", func(r *Row) string { return strconv.Itoa(r.Nodes) }},
	{"variant", func(r *Row) string { return r.Variant() }},
	{"callers", func(r *Row) string { return r.Size() }},
	{"peer", func(r *Row) string { return r.Peer }},
}

// references are the rows that others are compared with: peers, and the run without faults.
var references = []string{"floor", "redsync", "queue", "healthy"}

// table returns the rows of a scenario as Markdown. It leaves out columns without a figure.
func table(rs, all []*Row) string {
	cs := slices.Clone(keys)
	compared := false
	for _, f := range figures {
		if !f.shown && !slices.ContainsFunc(rs, func(r *Row) bool { return f.worst && r.stat(f).Max > 0 }) {
			continue
		}
		if !slices.ContainsFunc(rs, func(r *Row) bool { return r.stat(f).Rounds > 0 }) {
			continue
		}
		cs = append(cs, column{f.name, func(r *Row) string { return r.stat(f).text(f.worst) }})
		if compared {
			continue
		}
		compared = true
		for _, name := range references {
			cs = append(cs, column{"x " + name, func(r *Row) string { return r.ratio(r.reference(all, name), f).median() }})
		}
	}
	cs = append(cs, column{"rounds not measured", func(r *Row) string {
		if r.Failed == 0 {
			return "-"
		}
		return fmt.Sprintf("%d: %s", r.Failed, r.Error)
	}})
	lines := [][]string{nil}
	for range rs {
		lines = append(lines, nil)
	}
	for i, c := range cs {
		texts := []string{c.head}
		for _, r := range rs {
			texts = append(texts, c.text(r))
		}
		if !tells(texts[1:], i < len(keys)-2) {
			continue
		}
		for n, text := range texts {
			lines[n] = append(lines[n], text)
		}
	}
	return markdown(lines)
}

// tells reports whether a column says anything. If all rows have the same key, it does not.
func tells(texts []string, key bool) bool {
	if key {
		return slices.ContainsFunc(texts, func(text string) bool { return text != texts[0] })
	}
	return slices.ContainsFunc(texts, func(text string) bool { return text != "-" && text != "1.00" })
}

// markdown formats lines as a table. The first one is its head.
func markdown(lines [][]string) string {
	var b strings.Builder
	escape := strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;")
	for i, cells := range lines {
		for _, text := range cells {
			b.WriteString("| " + escape.Replace(text) + " ")
		}
		b.WriteString("|\n")
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(cells)) + "|\n")
		}
	}
	return b.String()
}

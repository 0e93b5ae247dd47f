package render

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The marks in a document between which its figures are.
const (
	beginMark = "<!-- figures: begin -->\n"
	endMark   = "<!-- figures: end -->\n"
)

// CheckDocument says why [Report.Document] could not write there.
func CheckDocument(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, end := strings.Index(string(text), beginMark), strings.Index(string(text), endMark)
	if begin < 0 || end < begin {
		return fmt.Errorf("%s: no place for the figures: it needs the lines %q and %q", path, beginMark, endMark)
	}
	return nil
}

// Document replaces the figures in a Markdown document, and writes its chart beside it.
func (r *Report) Document(path string) error {
	if err := CheckDocument(path); err != nil {
		return err
	}
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, _ := strings.Cut(string(old), beginMark)
	_, after, _ := strings.Cut(rest, endMark)
	picture := strings.TrimSuffix(path, filepath.Ext(path)) + ".svg"
	text, svg := r.figures(filepath.Base(picture))
	if err := os.WriteFile(picture, []byte(svg), 0o644); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(before+beginMark+"\n"+text+"\n"+endMark+after), 0o644)
}

// figures returns the figures for the document, and the chart for the file of that name.
func (r *Report) figures(picture string) (text, svg string) {
	var b strings.Builder
	add := func(title string, cs []column, rs []*Row) {
		if len(rs) > 0 {
			fmt.Fprintf(&b, "\n### %s\n\n%s", title, table(cs, rs, r.rows).markdown())
		}
	}
	of := r.rowsOf
	b.WriteString(r.conditions())
	fmt.Fprintf(&b, "\n### Goals\n\n%s", r.goals().markdown())

	throughput := []column{callersColumn, peerColumn, rateColumn, floorColumn, redsyncColumn, clientColumn, serversColumn, allocsColumn}
	add("Free locks, each caller with a name of its own", throughput, of("uncontended"))
	add("Free locks, a new name each time", throughput, of("newnames"))
	add("A million names by Zipf's law", []column{
		callersColumn, peerColumn, rateColumn, queueColumn, redsyncColumn, clientColumn, serversColumn, allocsColumn,
	}, of("zipf"))
	chart := newChart("Free locks, a new name each time", "operations a second by callers", throughput, of("newnames"), r.rows, rate)
	fmt.Fprintf(&b, "\n![operations a second with new names, by callers](%s)\n", picture)

	near := slices.DeleteFunc(of("uncontended"), func(row *Row) bool {
		return row.Callers > 128 || row.Peer == "floor-group"
	})
	add("Latencies in milliseconds", []column{
		networkColumn, callersColumn, peerColumn,
		shown("acquire p50", acquire(p50)), shown("acquire p99", acquire(p99)),
		shown("release p50", release(p50)), shown("release p99", release(p99)),
	}, slices.Concat(near, of("network")))
	add("Forced pass", []column{
		callersColumn, peerColumn, shown("passes/s", rate), queueColumn, redsyncColumn,
		serversColumn, commandsColumn, shown("delay p50 ms", delay(p50)), shown("delay p99 ms", delay(p99)), sharesColumn,
	}, of("passes"))
	add("Waiting, a second and node", waitColumns, of("waiters"))
	add("Holding", columns("held")[:6], of("held"))
	add("Nodes that fail", []column{faultColumn, callersColumn, peerColumn, rateColumn, healthyColumn, acquireColumn}, of("faults"))
	add("The number of nodes", []column{nodesColumn, callersColumn, peerColumn, rateColumn, clientColumn, serversColumn}, of("nodes"))
	return b.String(), chart.svg()
}

package render

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/quorumlock/quorumlock/bench/cell"
	"github.com/quorumlock/quorumlock/bench/peer"
)

// Table is a table of text.
type Table struct {
	Head []string
	Rows [][]string
}

// column is one column of a table.
type column struct {
	head string
	text func(r *Row, all []*Row) string
	// key says that the column tells which cell a row is, apart from the peer.
	key bool
	// figures are the figures of a result that the column shows. The head names them, as in "acquire ms: p50 / p99".
	figures []figure
}

func key(head string, text func(*Row) string) column {
	return column{head: head, text: func(r *Row, _ []*Row) string { return text(r) }, key: true}
}

func shown(head string, of figure) column {
	return column{head: head, text: func(r *Row, _ []*Row) string { return r.stat(of).String() }, figures: []figure{of}}
}

// times is a figure relative to another peer's.
func times(head, peer string, of figure) column {
	return column{head: head, text: func(r *Row, all []*Row) string { return r.ratio(r.by(all, peer), of).median() }}
}

// medians shows the median of each figure, and worst its largest value.
func medians(head string, of ...figure) column { return several(head, Stat.median, of) }

func worst(head string, of ...figure) column {
	return several(head, func(s Stat) string {
		if s.Rounds == 0 {
			return "-"
		}
		return strconv.FormatFloat(s.Max, 'f', -1, 64)
	}, of)
}

func several(head string, format func(Stat) string, of []figure) column {
	return column{head: head, figures: of, text: func(r *Row, _ []*Row) string {
		var texts []string
		for _, f := range of {
			texts = append(texts, format(r.stat(f)))
		}
		return strings.Join(texts, " / ")
	}}
}

func distribution(head string, part func(func(*cell.Latency) float64) figure) column {
	return medians(head+" ms: p50 / p95 / p99 / p99.9 / max", part(p50), part(p95), part(p99), part(p999), part(most))
}

// names returns the names of the column's figures.
func (c column) names() []string {
	if len(c.figures) < 2 {
		return []string{c.head}
	}
	what, parts, _ := strings.Cut(c.head, ": ")
	var names []string
	for part := range strings.SplitSeq(parts, " / ") {
		names = append(names, what+": "+part)
	}
	return names
}

var (
	peerColumn    = column{head: "peer", text: func(r *Row, _ []*Row) string { return r.Peer }}
	callersColumn = key("callers", func(r *Row) string { return r.Size() })
	nodesColumn   = key("nodes", func(r *Row) string { return strconv.Itoa(r.Nodes) })
	faultColumn   = key("nodes that fail", func(r *Row) string { return r.Variant() })
	networkColumn = key("network", func(r *Row) string { return strings.Replace(r.Variant(), "healthy", "loopback", 1) })
	healthyColumn = column{head: "x healthy", text: func(r *Row, all []*Row) string {
		return r.ratio(r.healthy(all), rate).median()
	}}
	rateColumn       = shown("ops/s", rate)
	floorColumn      = times("x floor", "floor", rate)
	redsyncColumn    = times("x redsync", "redsync", rate)
	queueColumn      = times("x queue", "queue", rate)
	sharesColumn     = medians("shares: least / most", shareMin, shareMax)
	allocsColumn     = shown("allocs/op", allocs)
	clientColumn     = shown("client CPU us/op", client)
	serversColumn    = shown("server CPU us/op", servers)
	commandsColumn   = shown("commands/op", commands)
	acquireColumn    = distribution("acquire", acquire)
	releaseColumn    = distribution("release", release)
	goroutinesColumn = worst("goroutines: before / after / closed",
		func(x cell.Result) float64 { return float64(x.GoroutinesBefore) }, goroutines,
		func(x cell.Result) float64 { return float64(x.GoroutinesClosed) })
	keysColumn       = worst("keys left: at once / at last", func(x cell.Result) float64 { return float64(x.KeysAfter) }, keysLeft)
	lostColumn       = worst("leases lost", lost)
	violationsColumn = worst("violations", func(x cell.Result) float64 { return float64(x.Violations) })
	failuresColumn   = worst("calls: failed / unfinished",
		func(x cell.Result) float64 { return float64(x.Failures) }, func(x cell.Result) float64 { return float64(x.Unfinished) })
	errorColumn = column{head: "rounds not measured", text: func(r *Row, _ []*Row) string {
		if r.Failed == 0 {
			return "0"
		}
		return fmt.Sprintf("%d: %s", r.Failed, r.Error)
	}}
	costColumns = []column{
		allocsColumn, shown("bytes/op", func(r cell.Result) float64 { return perOp(r, float64(r.Bytes)) }), clientColumn, serversColumn, commandsColumn, shown("scripts/op", scripts),
		shown("sent/op", sent), goroutinesColumn, keysColumn, violationsColumn, failuresColumn, errorColumn,
	}
	waitColumns = []column{
		callersColumn, peerColumn,
		shown("commands sent a second and node", sentRate),
		shown("scripts", scriptRate), shown("commands run", commandRate),
		times("sent x redsync", "redsync", sentRate),
	}
)

func goroutines(r cell.Result) float64 { return float64(r.Goroutines) }
func keysLeft(r cell.Result) float64   { return float64(r.KeysLeft) }

// lost is not a number for a peer that holds no leases.
func lost(r cell.Result) float64 {
	if p, err := peer.Find(r.Peer); err != nil || !p.Renews {
		return math.NaN()
	}
	return float64(r.Lost)
}

// columns returns the columns of a scenario's table.
func columns(scenario string) (cs []column) {
	switch scenario {
	case "contended", "passes":
		cs = []column{
			callersColumn, peerColumn, rateColumn, redsyncColumn, queueColumn, shown("owner changes/s", switchRate),
			sharesColumn, distribution("release to next grant", delay),
		}
		return append(cs, costColumns...)
	case "waiters":
		return append(slices.Clip(waitColumns), goroutinesColumn, keysColumn, violationsColumn, failuresColumn, errorColumn)
	case "held":
		return []column{
			callersColumn, peerColumn, shown("heap bytes per lease", heapPerLease),
			shown("renewals", func(r cell.Result) float64 { return float64(r.Renewals) }),
			shown("commands per node and renewal", commandsPerRenewal),
			lostColumn, goroutinesColumn, keysColumn, failuresColumn, errorColumn,
		}
	case "nodes":
		cs = []column{nodesColumn, callersColumn, peerColumn, rateColumn, floorColumn, redsyncColumn}
	case "faults":
		cs = []column{faultColumn, callersColumn, peerColumn, rateColumn, healthyColumn, floorColumn, redsyncColumn}
	case "recovery":
		cs = []column{
			faultColumn, callersColumn, peerColumn, rateColumn,
			medians("ops/s: before / while it gives no locks / after",
				recovery(func(x *cell.Recovery) float64 { return x.Before }),
				recovery(func(x *cell.Recovery) float64 { return x.During }),
				recovery(func(x *cell.Recovery) float64 { return x.After })),
			shown("s until it answers", recovery(func(x *cell.Recovery) float64 { return x.Back })),
			shown("s more until it gives locks", recovery(gives)),
			shown("longest pause ms", func(r cell.Result) float64 { return float64(r.Pause) / 1e6 }), lostColumn,
		}
	case "network":
		cs = []column{networkColumn, callersColumn, peerColumn, rateColumn, floorColumn, redsyncColumn}
	case "kinds":
		cs = []column{callersColumn, peerColumn, rateColumn, times("x plain lock", "redlock", rate)}
	case "kinds-contended":
		cs = []column{callersColumn, peerColumn, rateColumn, times("x plain lock", "nohandover", rate), sharesColumn}
	default:
		cs = []column{callersColumn, peerColumn, rateColumn, floorColumn, redsyncColumn}
	}
	return append(append(cs, acquireColumn, releaseColumn), costColumns...)
}

// table returns a table of these rows.
func table(cs []column, rs, all []*Row) (t Table) {
	for _, c := range cs {
		t.Head = append(t.Head, c.head)
	}
	for _, r := range rs {
		var cells []string
		for _, c := range cs {
			cells = append(cells, c.text(r, all))
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

// plain formats the table for a terminal.
func (t Table) plain() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, cells := range append([][]string{t.Head}, t.Rows...) {
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush() // it writes to memory
	return b.String()
}

// markdown formats the table as Markdown.
func (t Table) markdown() string {
	var b strings.Builder
	escape := strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;")
	line := func(cells []string) {
		for _, text := range cells {
			b.WriteString("| " + escape.Replace(text) + " ")
		}
		b.WriteString("|\n")
	}
	line(t.Head)
	b.WriteString(strings.Repeat("|---", len(t.Head)) + "|\n")
	for _, r := range t.Rows {
		line(r)
	}
	return b.String()
}

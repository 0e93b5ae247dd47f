package render

import (
	"fmt"
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

// column is one column of a table. A key column says which cell a row is, but for the peer.
type column struct {
	head string
	text func(r *Row, all []*Row) string
	key  bool
}

func key(head string, text func(*Row) string) column {
	return column{head, func(r *Row, _ []*Row) string { return text(r) }, true}
}

func shown(head string, of figure) column {
	return column{head: head, text: func(r *Row, _ []*Row) string { return r.stat(of).String() }}
}

// times is a figure relative to another peer's.
func times(head, peer string, of figure) column {
	return column{head: head, text: func(r *Row, all []*Row) string { return r.ratio(r.by(all, peer), of).factor() }}
}

// counts shows the largest of each count over all rounds.
func counts(head string, of ...func(cell.Result) int64) column {
	return column{head: head, text: func(r *Row, _ []*Row) string {
		var texts []string
		for _, f := range of {
			texts = append(texts, strconv.FormatInt(r.most(f), 10))
		}
		return strings.Join(texts, " / ")
	}}
}

// medians shows the median of each figure.
func medians(head string, of ...figure) column {
	return column{head: head, text: func(r *Row, _ []*Row) string {
		var texts []string
		for _, f := range of {
			texts = append(texts, r.stat(f).median())
		}
		return strings.Join(texts, " / ")
	}}
}

func distribution(head string, part func(func(*cell.Latency) float64) figure) column {
	return medians(head+" ms: p50 / p95 / p99 / p99.9 / max", part(p50), part(p95), part(p99), part(p999), part(most))
}

var (
	peerColumn    = column{head: "peer", text: func(r *Row, _ []*Row) string { return r.Peer }}
	callersColumn = key("callers", func(r *Row) string { return r.Size() })
	nodesColumn   = key("nodes", func(r *Row) string { return strconv.Itoa(r.Nodes) })
	faultColumn   = key("nodes that fail", func(r *Row) string { return r.Variant() })
	networkColumn = key("network", func(r *Row) string { return strings.Replace(r.Variant(), "healthy", "loopback", 1) })
	healthyColumn = column{head: "x healthy", text: func(r *Row, all []*Row) string {
		return r.ratio(r.healthy(all), cell.Result.Rate).factor()
	}}
	rateColumn    = shown("ops/s", cell.Result.Rate)
	floorColumn   = times("x floor", "floor", cell.Result.Rate)
	redsyncColumn = times("x redsync", "redsync", cell.Result.Rate)
	queueColumn   = times("x queue", "queue", cell.Result.Rate)
	sharesColumn  = column{head: "shares: least - most", text: func(r *Row, _ []*Row) string {
		return r.stat(cell.Result.ShareMin).factor() + " - " + r.stat(cell.Result.ShareMax).factor()
	}}
	allocsColumn     = shown("allocs/op", cell.Result.Allocs)
	clientColumn     = shown("client CPU us/op", cell.Result.Client)
	serversColumn    = shown("server CPU us/op", cell.Result.Servers)
	commandsColumn   = shown("commands/op", cell.Result.Commands)
	acquireColumn    = distribution("acquire", acquire)
	releaseColumn    = distribution("release", release)
	goroutinesColumn = counts("goroutines: before / after / closed",
		func(x cell.Result) int64 { return x.GoroutinesBefore }, func(x cell.Result) int64 { return x.Goroutines },
		func(x cell.Result) int64 { return x.GoroutinesClosed })
	keysColumn = counts("keys left: at once / at last",
		func(x cell.Result) int64 { return int64(x.KeysAfter) }, func(x cell.Result) int64 { return int64(x.KeysLeft) })
	lostColumn = column{head: "leases lost", text: func(r *Row, _ []*Row) string {
		if p, err := peer.Find(r.Peer); err != nil || !p.Renews {
			return "-" // it holds none
		}
		return strconv.FormatInt(r.most(lost), 10)
	}}
	violationsColumn = counts("violations", func(x cell.Result) int64 { return x.Violations })
	failuresColumn   = column{head: "failures / unfinished", text: func(r *Row, _ []*Row) string {
		if r.Failed > 0 {
			return fmt.Sprintf("%d rounds not measured: %s", r.Failed, r.Error)
		}
		return fmt.Sprintf("%d / %d", r.most(func(x cell.Result) int64 { return x.Failures }),
			r.most(func(x cell.Result) int64 { return x.Unfinished }))
	}}
	costColumns = []column{
		allocsColumn, clientColumn, serversColumn, commandsColumn, shown("scripts/op", cell.Result.Scripts),
		shown("sent/op", cell.Result.Sent), goroutinesColumn, keysColumn, violationsColumn, failuresColumn,
	}
	waitColumns = []column{
		callersColumn, peerColumn,
		shown("commands sent a second and node", cell.Result.SentRate),
		shown("scripts", cell.Result.ScriptRate), shown("commands run", cell.Result.CommandRate),
		times("sent x redsync", "redsync", cell.Result.SentRate),
	}
)

func lost(r cell.Result) int64 { return r.Lost }

// columns returns the columns of a scenario's table.
func columns(scenario string) (cs []column) {
	switch scenario {
	case "contended", "passes":
		cs = []column{
			callersColumn, peerColumn, rateColumn, redsyncColumn, queueColumn, shown("owner changes/s", cell.Result.SwitchRate),
			sharesColumn, distribution("release to next grant", delay),
		}
		return append(cs, costColumns...)
	case "waiters":
		return append(waitColumns[:len(waitColumns):len(waitColumns)], goroutinesColumn, keysColumn, violationsColumn, failuresColumn)
	case "held":
		return []column{
			callersColumn, peerColumn, shown("heap bytes per lease", cell.Result.HeapPerLease),
			counts("renewals", func(r cell.Result) int64 { return r.Renewals }),
			shown("commands per node and renewal", cell.Result.CommandsPerRenewal),
			lostColumn, goroutinesColumn, keysColumn, failuresColumn,
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
		cs = []column{callersColumn, peerColumn, rateColumn, times("x plain lock", "redlock", cell.Result.Rate)}
	case "kinds-contended":
		cs = []column{callersColumn, peerColumn, rateColumn, times("x plain lock", "nohandover", cell.Result.Rate), sharesColumn}
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

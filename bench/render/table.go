package render

import (
	"fmt"
	"math"
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

// column is one column of the table of a load.
type column struct {
	head string
	text func(r *Row, all []*Row) string
}

var (
	peerColumn    = column{"peer", func(r *Row, _ []*Row) string { return r.Peer }}
	callersColumn = column{"callers", func(r *Row, _ []*Row) string { return strconv.Itoa(r.Callers) }}
	processColumn = column{"processes", func(r *Row, _ []*Row) string { return strconv.Itoa(r.Processes) }}
	nodesColumn   = column{"nodes", func(r *Row, _ []*Row) string { return strconv.Itoa(r.Nodes) }}
	healthyColumn = column{"x healthy", func(r *Row, all []*Row) string { return r.ratio(r.healthy(all), rate).factor() }}
	faultColumn   = column{"nodes that fail", func(r *Row, _ []*Row) string { return r.Variant() }}
	rateColumn    = column{"ops/s", figure(rate)}
	floorColumn   = column{"x floor", relative("floor", rate)}
	redsyncColumn = column{"x redsync", relative("redsync", rate)}
	plainColumn   = column{"x plain lock", relative("redlock", rate)}
	onNodesColumn = column{"x plain lock", relative("nohandover", rate)}
	sharesColumn  = column{"shares: least - most", func(r *Row, _ []*Row) string {
		return r.stat(func(x cell.Result) float64 { return x.ShareMin }).factor() + " - " +
			r.stat(func(x cell.Result) float64 { return x.ShareMax }).factor()
	}}
	allocsColumn   = column{"allocs/op", figure(func(r cell.Result) float64 { return r.Allocs })}
	clientColumn   = column{"client CPU us/op", figure(func(r cell.Result) float64 { return r.Client })}
	serversColumn  = column{"server CPU us/op", figure(func(r cell.Result) float64 { return r.Servers })}
	commandsColumn = column{"commands/op", figure(func(r cell.Result) float64 { return r.Commands })}
	scriptsColumn  = column{"scripts/op", figure(func(r cell.Result) float64 { return r.Scripts })}
	sentColumn     = column{"sent/op", figure(func(r cell.Result) float64 { return r.Sent })}
	acquireColumn  = column{"acquire us: p50 / p95 / p99 / p99.9 / max", distribution(acquire)}
	releaseColumn  = column{"release us: p50 / p95 / p99 / p99.9 / max", distribution(release)}
	delayColumn    = column{"release to next grant us: p50 / p95 / p99 / p99.9 / max", distribution(delay)}

	goroutinesColumn = column{"goroutines: before / after / closed", func(r *Row, _ []*Row) string {
		return fmt.Sprintf("%d / %d / %d",
			r.most(func(x cell.Result) int64 { return x.GoroutinesBefore }),
			r.most(func(x cell.Result) int64 { return x.GoroutinesAfter }),
			r.most(func(x cell.Result) int64 { return x.GoroutinesClosed }))
	}}
	keysColumn = column{"keys left: at once / at last", func(r *Row, _ []*Row) string {
		return fmt.Sprintf("%d / %d",
			r.most(func(x cell.Result) int64 { return int64(x.KeysAfter) }),
			r.most(func(x cell.Result) int64 { return int64(x.KeysLeft) }))
	}}
	violationsColumn = column{"violations", count(func(r cell.Result) int64 { return r.Violations })}
	failuresColumn   = column{"failures / unfinished", func(r *Row, _ []*Row) string {
		if r.Failed > 0 {
			return fmt.Sprintf("%d rounds not measured: %s", r.Failed, r.Error)
		}
		return fmt.Sprintf("%d / %d",
			r.most(func(x cell.Result) int64 { return x.Failures }),
			r.most(func(x cell.Result) int64 { return x.Unfinished }))
	}}
	costColumns = []column{
		allocsColumn, clientColumn, serversColumn, commandsColumn, scriptsColumn, sentColumn,
		goroutinesColumn, keysColumn, violationsColumn, failuresColumn,
	}
)

// recoveryColumns describe a restarted node.
var recoveryColumns = []column{
	{"ops/s: before / while it gives no locks / after", func(r *Row, _ []*Row) string {
		var texts []string
		for _, of := range []func(cell.Recovery) float64{
			func(x cell.Recovery) float64 { return x.Before },
			func(x cell.Recovery) float64 { return x.During },
			func(x cell.Recovery) float64 { return x.After },
		} {
			texts = append(texts, r.stat(recovery(of)).median())
		}
		return strings.Join(texts, " / ")
	}},
	{"s until it answers", figure(recovery(func(x cell.Recovery) float64 { return x.Back }))},
	{"s more until it gives locks", figure(recovery(gives))},
	{"longest pause ms", figure(recovery(func(x cell.Recovery) float64 { return x.Pause * 1000 }))},
	{"held leases lost", func(r *Row, all []*Row) string {
		if p, err := peer.Find(r.Peer); err != nil || !p.Renews {
			return "-" // it holds none
		}
		return count(lost)(r, all)
	}},
}

func lost(r cell.Result) int64 { return r.Lost }

// gives is not a number where a node gave no lock before the end.
func gives(x cell.Recovery) float64 {
	if x.Never {
		return math.NaN()
	}
	return x.Gives
}

// columns returns the columns of a scenario's table, which depend on the load.
func columns(scenario string, load cell.Load) []column {
	var cs []column
	switch load {
	case cell.Handoff, cell.Pass:
		if scenario == "kinds-contended" {
			cs = []column{callersColumn, processColumn, peerColumn, rateColumn, onNodesColumn, sharesColumn, acquireColumn, releaseColumn}
			return append(cs, costColumns...)
		}
		cs = []column{
			callersColumn, processColumn, peerColumn, rateColumn, redsyncColumn,
			{"owner changes/s", figure(switches)},
			sharesColumn, delayColumn,
		}
		return append(cs, costColumns...)
	case cell.Wait:
		return []column{
			callersColumn, processColumn, peerColumn,
			{"commands a second and node", figure(sentRate)},
			{"x redsync", relative("redsync", sentRate)},
			goroutinesColumn, keysColumn,
			{"granted while held", violationsColumn.text},
			failuresColumn,
		}
	case cell.Hold:
		return []column{
			{"leases", callersColumn.text},
			peerColumn,
			{"heap bytes per lease", figure(func(r cell.Result) float64 { return r.HeapPerLease })},
			{"renewals", count(func(r cell.Result) int64 { return r.Renewals })},
			{"commands per node and renewal", figure(func(r cell.Result) float64 { return r.CommandsPerRenewal })},
			{"leases lost", count(lost)},
			goroutinesColumn, keysColumn, failuresColumn,
		}
	}
	switch scenario {
	case "nodes":
		cs = []column{nodesColumn, callersColumn, peerColumn, rateColumn, floorColumn, redsyncColumn}
	case "faults":
		cs = []column{faultColumn, callersColumn, peerColumn, rateColumn, healthyColumn, floorColumn, redsyncColumn}
	case "recovery":
		cs = append([]column{faultColumn, callersColumn, peerColumn, rateColumn}, recoveryColumns...)
	case "kinds":
		cs = []column{callersColumn, peerColumn, rateColumn, plainColumn}
	default:
		cs = []column{callersColumn, peerColumn, rateColumn, floorColumn, redsyncColumn}
	}
	cs = append(cs, acquireColumn, releaseColumn)
	return append(cs, costColumns...)
}

// table returns the table of rows of one scenario and load.
func table(rs, all []*Row) Table {
	var t Table
	if len(rs) == 0 {
		return t
	}
	cs := columns(rs[0].Scenario, rs[0].Load)
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

func figure(of func(cell.Result) float64) func(*Row, []*Row) string {
	return func(r *Row, _ []*Row) string { return r.stat(of).String() }
}

func relative(to string, of func(cell.Result) float64) func(*Row, []*Row) string {
	return func(r *Row, all []*Row) string { return r.ratio(r.by(all, to), of).factor() }
}

func count(of func(cell.Result) int64) func(*Row, []*Row) string {
	return func(r *Row, _ []*Row) string { return strconv.FormatInt(r.most(of), 10) }
}

func distribution(part func(func(cell.Latency) float64) func(cell.Result) float64) func(*Row, []*Row) string {
	return func(r *Row, _ []*Row) string {
		var texts []string
		for _, of := range []func(cell.Latency) float64{p50, p95, p99, p999, most} {
			s := r.stat(part(of))
			if s.Rounds == 0 {
				return "-"
			}
			texts = append(texts, short(s.Median))
		}
		return strings.Join(texts, " / ")
	}
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
	line := func(cells []string) {
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	line(t.Head)
	rule := make([]string, len(t.Head))
	for i := range rule {
		rule[i] = "---"
	}
	line(rule)
	for _, r := range t.Rows {
		escaped := make([]string, len(r))
		for i, text := range r {
			escaped[i] = strings.ReplaceAll(strings.ReplaceAll(text, "|", `\|`), "\n", " ")
		}
		line(escaped)
	}
	return b.String()
}

package render

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/quorumlock/quorumlock/bench/cell"
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
	peerColumn     = column{"peer", func(r *Row, _ []*Row) string { return r.Peer }}
	callersColumn  = column{"callers", func(r *Row, _ []*Row) string { return strconv.Itoa(r.Callers) }}
	processColumn  = column{"processes", func(r *Row, _ []*Row) string { return strconv.Itoa(r.Processes) }}
	nodesColumn    = column{"nodes", func(r *Row, _ []*Row) string { return strconv.Itoa(r.Nodes) }}
	faultColumn    = column{"nodes that fail", func(r *Row, _ []*Row) string { return r.Variant() }}
	rateColumn     = column{"ops/s", figure(rate)}
	floorColumn    = column{"x floor", relative("floor", rate)}
	redsyncColumn  = column{"x redsync", relative("redsync", rate)}
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

// columns are those of a scenario, by what its callers do.
func columns(scenario string, load cell.Load) []column {
	var cs []column
	switch load {
	case cell.Handoff, cell.Pass:
		cs = []column{
			callersColumn, processColumn, peerColumn, rateColumn, redsyncColumn,
			{"owner changes/s", figure(switches)},
			{"shares: least - most", func(r *Row, _ []*Row) string {
				return r.stat(func(x cell.Result) float64 { return x.ShareMin }).factor() + " - " +
					r.stat(func(x cell.Result) float64 { return x.ShareMax }).factor()
			}},
			delayColumn,
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
			{"leases lost", count(func(r cell.Result) int64 { return r.Lost })},
			goroutinesColumn, keysColumn, failuresColumn,
		}
	}
	switch scenario {
	case "nodes":
		cs = []column{nodesColumn, callersColumn}
	case "faults", "recovery":
		cs = []column{faultColumn, callersColumn}
	default:
		cs = []column{callersColumn}
	}
	cs = append(cs, peerColumn, rateColumn)
	if scenario == "faults" || scenario == "recovery" {
		cs = append(cs, column{"x healthy", func(r *Row, all []*Row) string { return r.ratio(r.healthy(all), rate).factor() }})
	}
	cs = append(cs, floorColumn, redsyncColumn, acquireColumn, releaseColumn)
	return append(cs, costColumns...)
}

// table is that of rows of one scenario and load.
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

// markdown is the table as text.
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

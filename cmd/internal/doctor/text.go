package doctor

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/cmd/internal/text"
)

// PrintJSON prints a report for scripts, as the help of the command documents it. Names are never changed, only added.
func PrintJSON(w io.Writer, f *Facts, r *Report) error {
	out := struct {
		Severity Severity     `json:"severity"`
		Nodes    []nodeReport `json:"nodes"`
		Checks   []Check      `json:"checks"`
	}{Severity: r.Severity, Checks: r.Checks}
	for i := range f.Nodes {
		out.Nodes = append(out.Nodes, newNodeReport(&f.Nodes[i]))
	}
	return text.PrintJSON(w, out)
}

// nodeReport is what both reports say of a node. A time is nil if it is unknown.
type nodeReport struct {
	Node       string   `json:"node"`
	Reached    bool     `json:"reached"`
	Version    string   `json:"version"`
	Role       string   `json:"role"`
	User       string   `json:"user"`
	Clock      *float64 `json:"clock_ms"`
	ClockError *float64 `json:"clock_error_ms"`
	RoundTrip  *float64 `json:"round_trip_ms"`
	Slowest    *float64 `json:"slowest_ms"`
}

func newNodeReport(n *Node) nodeReport {
	d := nodeReport{Node: n.Name, Reached: n.Unreached == nil, User: n.User}
	if n.Unreached != nil {
		return d
	}
	ms := func(d time.Duration) *float64 { ms := text.Milliseconds(d); return &ms }
	d.Version, d.Role = n.version(), n.Info.Value.role()
	if n.Clock.Known() {
		d.Clock, d.ClockError = ms(n.Clock.Value.Ahead), ms(n.Clock.Value.Error)
	}
	if usual, slowest, ok := n.roundTrips(); ok {
		d.RoundTrip, d.Slowest = ms(usual), ms(slowest)
	}
	return d
}

// Print prints a report for people. It escapes text of servers for a terminal.
func Print(w io.Writer, f *Facts, r *Report) error {
	p := &printer{nodes: len(f.Nodes)}
	nodes := text.NewTable("NODE", "SERVER", "ROLE", "CLOCK", "ROUND TRIP", "SLOWEST")
	for i := range f.Nodes {
		nodes.Add(newNodeReport(&f.Nodes[i]).row()...)
	}
	p.WriteString(nodes.String())
	for _, s := range []Severity{Error, Warning, Note} {
		for _, c := range r.Checks {
			for _, finding := range c.Findings {
				if finding.Severity == s {
					p.finding(c.ID, finding)
				}
			}
		}
	}
	p.unknowns(r)
	p.fine(r)
	p.summary(r)
	_, err := io.WriteString(w, p.String())
	return err
}

func (d nodeReport) row() []string {
	clock := "-"
	if d.Clock != nil {
		ahead := math.Round(*d.Clock*10)/10 + 0 // or a little behind would be -0.0
		clock = fmt.Sprintf("%+.1fms ±%.1f", ahead, *d.ClockError)
	}
	return []string{d.Node, text.OrDash(d.Version), text.OrDash(d.Role), clock, briefly(d.RoundTrip), briefly(d.Slowest)}
}

// briefly formats a time for a table. A time that is too short for the format is still shown as more than 0.
func briefly(ms *float64) string {
	switch {
	case ms == nil:
		return "-"
	case *ms < 0.1:
		return "<0.1ms"
	default:
		return fmt.Sprintf("%.1fms", *ms)
	}
}

type printer struct {
	strings.Builder
	nodes int
}

// Indents of a finding: of its text below the heading, and of commands.
const (
	textIndent    = "      "
	commandIndent = textIndent + "       "
)

func (p *printer) finding(id string, f Finding) {
	where := ""
	if len(f.Nodes) > 0 {
		where = " on " + p.named(f.Nodes)
	}
	fmt.Fprintf(p, "\n%s %s%s\n", f.Severity, id, text.Escaped(where))
	p.field("", f.Found)
	p.field("why: ", f.Why)
	p.field("do:  ", f.Do)
	for _, command := range f.Commands {
		fmt.Fprintln(p, commandIndent+text.Escaped(command))
	}
}

// named names the nodes of a finding, unless it is about all of several nodes.
func (p *printer) named(nodes []string) string {
	if len(nodes) == p.nodes && p.nodes > 1 {
		return "all " + text.Nodes(p.nodes)
	}
	return text.Enumerated(nodes)
}

// field prints text behind a label, in lines of limited width.
func (p *printer) field(label, what string) {
	for _, line := range text.Folded(text.Escaped(what), text.Columns-len(textIndent)-len(label)) {
		fmt.Fprintln(p, textIndent+label+line)
		label = strings.Repeat(" ", len(label))
	}
}

// many is the number of checks from which on a common reason replaces the list: usually, the node is down.
const many = 5

// unknowns lists the checks that could not be made, in a line for each reason.
func (p *printer) unknowns(r *Report) {
	var reasons []string
	ids := make(map[string][]string)
	for _, c := range r.Checks {
		for _, f := range c.Findings {
			if f.Severity != Unknown {
				continue
			}
			reason := f.Found
			if len(f.Nodes) > 0 {
				reason = p.named(f.Nodes) + ": " + reason
			}
			if !slices.Contains(reasons, reason) {
				reasons = append(reasons, reason)
			}
			ids[reason] = append(ids[reason], c.ID)
		}
	}
	if len(reasons) > 0 {
		fmt.Fprintf(p, "\ncould not be checked\n")
	}
	for _, reason := range reasons {
		what := strings.Join(ids[reason], ", ")
		if len(ids[reason]) > many {
			what = "everything else"
		}
		p.field("", what+": "+reason)
	}
}

func (p *printer) fine(r *Report) {
	var ids []string
	for _, c := range r.Checks {
		if len(c.Findings) == 0 {
			ids = append(ids, c.ID)
		}
	}
	if len(ids) > 0 {
		fmt.Fprintf(p, "\nok\n")
		p.field("", strings.Join(ids, ", "))
	}
}

// otherLists is what no look at one list of nodes can tell.
const otherLists = "No check can see programs whose lists share no node with this one."

func (p *printer) summary(r *Report) {
	var counts []string
	for _, s := range []Severity{Error, Warning, Note} {
		if n := r.count(s); n > 0 {
			counts = append(counts, text.Plural(n, s.String()))
		}
	}
	if len(counts) == 0 {
		counts = []string{"nothing is wrong with them"}
	}
	sentence := text.Nodes(p.nodes) + ": " + text.Enumerated(counts)
	if r.count(Unknown) > 0 {
		sentence += "; not all could be checked"
	}
	fmt.Fprintf(p, "\n%s\n%s\n", sentence, otherLists)
}

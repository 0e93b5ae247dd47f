package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/doctor"
)

func printDoctorJSON(w io.Writer, facts *doctor.Facts, report *doctor.Report) error {
	d := doctorReport{Severity: report.Severity, Checks: report.Checks}
	for i := range facts.Nodes {
		d.Nodes = append(d.Nodes, newDoctorNode(&facts.Nodes[i]))
	}
	return printJSON(w, d)
}

// doctorText prints a report for people. It escapes text of servers for a terminal.
type doctorText struct {
	w      io.Writer
	colour bool
	// nodes is the number of nodes.
	nodes int
}

func (d *doctorText) print(facts *doctor.Facts, report *doctor.Report) error {
	d.nodes = len(facts.Nodes)
	nodes := newTable("NODE", "SERVER", "ROLE", "CLOCK", "ROUND TRIP", "SLOWEST")
	for i := range facts.Nodes {
		nodes.add("", doctorRow(&facts.Nodes[i])...)
	}
	if _, err := io.WriteString(d.w, nodes.text()); err != nil {
		return err
	}
	for _, s := range []doctor.Severity{doctor.Error, doctor.Warning, doctor.Note} {
		for _, c := range report.Checks {
			for _, f := range c.Findings {
				if f.Severity == s {
					d.finding(c.ID, f)
				}
			}
		}
	}
	d.unknowns(report)
	d.fine(report)
	d.summary(report)
	return nil
}

func doctorRow(n *doctor.Node) []string {
	if n.Unreached != nil {
		return []string{n.Name, "-", "-", "-", "-", "-"}
	}
	clock, usual, slowest := "-", "-", "-"
	if n.Clock.Known() {
		ahead := n.Clock.Value.Ahead.Round(100 * time.Microsecond) // or a little behind would be -0.0
		clock = fmt.Sprintf("%+.1fms ±%.1f", inMilliseconds(ahead), inMilliseconds(n.Clock.Value.Error))
	}
	if a, b, ok := n.RoundTrips(); ok {
		usual, slowest = briefly(a), briefly(b)
	}
	return []string{n.Name, orDash(n.Version()), orDash(n.Role()), clock, usual, slowest}
}

// briefly formats a time for a table. A time that is too short for the format is still shown as more than 0.
func briefly(d time.Duration) string {
	const least = 100 * time.Microsecond
	if d < least {
		return "<0.1ms"
	}
	return fmt.Sprintf("%.1fms", inMilliseconds(d))
}

// Indents of a finding: of its text below the heading, and of commands.
const (
	textIndent    = "      "
	commandIndent = textIndent + "       "
)

func (d *doctorText) finding(id string, f doctor.Finding) {
	fmt.Fprintln(d.w)
	where := ""
	if len(f.Nodes) > 0 {
		where = " on " + d.named(f.Nodes)
	}
	fmt.Fprintf(d.w, "%s %s%s\n", painted(f.Severity.String(), "1;"+severityColours[f.Severity], d.colour), id, escaped(where))
	d.field("", f.Found)
	d.field("why: ", f.Why)
	d.field("do:  ", f.Do)
	for _, command := range f.Commands {
		fmt.Fprintln(d.w, commandIndent+escaped(command))
	}
}

// named names the nodes of a finding, unless it is about all of several nodes.
func (d *doctorText) named(nodes []string) string {
	if len(nodes) == d.nodes && d.nodes > 1 {
		return "all " + nodeCount(d.nodes)
	}
	return enumerated(nodes)
}

// field prints text behind a label, in lines of at most helpColumns.
func (d *doctorText) field(label, text string) {
	indent := textIndent
	for _, line := range folded(escaped(text), helpColumns-len(indent)-len(label)) {
		fmt.Fprintln(d.w, indent+label+line)
		label = strings.Repeat(" ", len(label))
	}
}

var severityColours = map[doctor.Severity]string{doctor.Error: colourBad, doctor.Warning: colourUneasy, doctor.Note: colourNote}

// many is the number of checks from which on a common reason replaces the list: usually, the node is down.
const many = 5

// unknowns lists the checks that could not be made, in a line for each reason.
func (d *doctorText) unknowns(report *doctor.Report) {
	var reasons []string
	checks := make(map[string][]string)
	for _, c := range report.Checks {
		for _, f := range c.Findings {
			if f.Severity != doctor.Unknown {
				continue
			}
			reason := f.Found
			if len(f.Nodes) > 0 {
				reason = d.named(f.Nodes) + ": " + reason
			}
			if !slices.Contains(reasons, reason) {
				reasons = append(reasons, reason)
			}
			checks[reason] = append(checks[reason], c.ID)
		}
	}
	if len(reasons) > 0 {
		fmt.Fprintf(d.w, "\ncould not be checked\n")
	}
	for _, reason := range reasons {
		what := strings.Join(checks[reason], ", ")
		if len(checks[reason]) > many {
			what = "everything else"
		}
		d.field("", what+": "+reason)
	}
}

// fine lists the checks without findings, and their nodes.
func (d *doctorText) fine(report *doctor.Report) {
	everywhere, elsewhere := "ok", "ok where they could be made"
	ids := make(map[string][]string)
	for _, c := range report.Checks {
		switch {
		case len(c.Findings) == 0:
			ids[everywhere] = append(ids[everywhere], c.ID)
		case c.Severity == doctor.Unknown:
			var unknown []string
			noted := false
			for _, f := range c.Findings {
				unknown = append(unknown, f.Nodes...)
				noted = noted || f.Severity == doctor.Note
			}
			slices.Sort(unknown)
			if !noted && len(slices.Compact(unknown)) < d.nodes {
				ids[elsewhere] = append(ids[elsewhere], c.ID)
			}
		}
	}
	for _, heading := range []string{everywhere, elsewhere} {
		if len(ids[heading]) > 0 {
			fmt.Fprintf(d.w, "\n%s\n", heading)
			d.field("", strings.Join(ids[heading], ", "))
		}
	}
}

func (d *doctorText) summary(report *doctor.Report) {
	var counts []string
	for _, s := range []doctor.Severity{doctor.Error, doctor.Warning, doctor.Note} {
		if n := report.Count(s); n > 0 {
			counts = append(counts, plural(n, s.String()))
		}
	}
	if len(counts) == 0 {
		counts = []string{"nothing is wrong"}
	}
	text := nodeCount(d.nodes) + ": " + enumerated(counts)
	if report.Count(doctor.Unknown) > 0 {
		text += "; not all could be checked"
	}
	fmt.Fprintf(d.w, "\n%s\n", text)
}

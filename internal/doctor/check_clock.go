package doctor

import (
	"fmt"
	"slices"
	"time"
)

// checkClocks compares the nodes' clocks with each other, and with the clock of this machine. Two clocks that are
// MaxClockSkew apart cannot both be within half of it of a third. So each is compared with this machine's clock
// alone.
func checkClocks(f *Facts) []Finding {
	findings := f.notAsked()
	var told []*Node
	for i := range f.Nodes {
		n := &f.Nodes[i]
		switch {
		case n.Unreached != nil:
		case !n.Clock.Known():
			findings = append(findings, unknown(n.Clock.Err, "TIME").on(n))
		case n.Clock.Value.Error > f.Limits.MaxClockSkew/2:
			findings = append(findings, Finding{
				Severity: Unknown, Found: fmt.Sprintf("answers are slow, so its clock is known only to within %v", rounded(n.Clock.Value.Error)),
			}.on(n))
		default:
			told = append(told, n)
		}
	}
	if wrong := f.ownClock(told); wrong != nil {
		return append(findings, *wrong)
	}
	for _, n := range told {
		if wrong := f.clockOf(n); wrong != nil {
			findings = append(findings, wrong.on(n))
		}
	}
	return findings
}

// severityOf rates an offset. A node refuses clients that are ahead of it by more than MaxClockSkew, or behind by
// more than MaxTTL. Half of MaxClockSkew is close enough for a warning.
func (f *Facts) severityOf(o Offset) Severity {
	switch {
	case o.Ahead < 0 && o.Least() > f.Limits.MaxClockSkew, o.Ahead > 0 && o.Least() > f.Limits.MaxTTL:
		return Error
	case o.Ahead.Abs() > f.Limits.MaxClockSkew/2:
		return Warning
	default:
		return OK
	}
}

// clockWhy explains why clocks matter.
const clockWhy = "Fencing tokens are made of time, and keys on the nodes expire by time. A node refuses programs whose clock is ahead of its own by more " +
	"than MaxClockSkew, or behind by MaxTTL."

// clockOf checks the clock of one node.
func (f *Facts) clockOf(n *Node) *Finding {
	o := n.Clock.Value
	severity := f.severityOf(o)
	if severity == OK {
		return nil
	}
	return &Finding{
		Severity: severity, Found: fmt.Sprintf("the clock is %s this machine's; MaxClockSkew is %v", o, f.Limits.MaxClockSkew), Why: clockWhy,
		Do: "Correct the clock of the server's machine, by slewing: a step makes locks expire early, or late. If a step is necessary, stop the server first, " +
			"and start it afterwards.",
		Commands: []string{"chronyc tracking"},
	}
}

// ownClock returns a finding if all nodes agree with each other, but not with this machine.
func (f *Facts) ownClock(told []*Node) *Finding {
	if len(told) < 2 || spread(told) > f.Limits.MaxClockSkew/2 {
		return nil
	}
	nearest := told[0].Clock.Value
	for _, n := range told {
		if n.Clock.Value.Ahead.Abs() < nearest.Ahead.Abs() {
			nearest = n.Clock.Value
		}
	}
	severity := f.severityOf(nearest)
	if severity == OK {
		return nil
	}
	return &Finding{
		Severity: severity, Found: fmt.Sprintf("the nodes agree on the time, and are %s this machine; MaxClockSkew is %v", nearest, f.Limits.MaxClockSkew),
		Why: clockWhy, Do: "Correct the clock of this machine. Programs may run on while it is stepped.",
		Commands: []string{"chronyc tracking"},
	}
}

// spread is the smallest possible distance between the nodes' clocks.
func spread(nodes []*Node) time.Duration {
	var least, most []time.Duration
	for _, n := range nodes {
		o := n.Clock.Value
		least, most = append(least, o.Ahead-o.Error), append(most, o.Ahead+o.Error)
	}
	return max(0, slices.Max(least)-slices.Min(most))
}

// String formats direction, distance and error.
func (o Offset) String() string {
	direction := "ahead of"
	if o.Ahead < 0 {
		direction = "behind"
	}
	return fmt.Sprintf("%v (±%v) %s", rounded(o.Ahead.Abs()), rounded(o.Error), direction)
}

// checkTrips compares round trips with the programs' timeout.
func checkTrips(f *Facts, n *Node) []Finding {
	usual, slowest, ok := n.RoundTrips()
	if !ok {
		return []Finding{unknown(n.Clock.Err, "round trips")}
	}
	finding := Finding{
		Found: fmt.Sprintf("an answer takes %v, and %v at worst of %d; programs wait for %v", rounded(usual), rounded(slowest), len(n.Trips), f.Timeout),
		Why:   "An answer that comes too late does not count, and its effects are undone.",
		Do: fmt.Sprintf("Find out what is slow: the network, a busy server, swapping, or forks. If the delay is normal, raise NodeTimeoutMax "+
			"(--node-timeout) to %v, in all programs, with TTLs of at least three times that.", roundUp(4*slowest)),
		Commands: []string{"SLOWLOG GET 10", "LATENCY LATEST"},
	}
	switch {
	case usual >= f.Timeout:
		finding.Severity = Error
	case slowest >= f.Timeout/2:
		finding.Severity = Warning
	default:
		return nil
	}
	return []Finding{finding}
}

// rounded rounds a time to about three digits.
func rounded(d time.Duration) time.Duration {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond)
	default:
		return d.Round(time.Microsecond)
	}
}

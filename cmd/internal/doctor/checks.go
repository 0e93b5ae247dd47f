package doctor

import "slices"

// check checks one aspect: of each node that answers, or of the set of these nodes.
type check struct {
	id string
	// needs are the facts without which a node is not judged. Their absence is a finding.
	needs needs
	node  func(*judge, *Node)
	set   func(*judge)
}

type needs int

const (
	nothing needs = iota
	anAnswer
	info
)

var checks = []check{
	{id: "count", set: (*judge).count},
	{id: "reachable", set: (*judge).reachable},
	{id: "usable", needs: anAnswer, node: (*judge).usable},
	{id: "eviction", needs: info, node: (*judge).eviction},
	{id: "memory", needs: info, node: (*judge).memory},
	{id: "persistence", needs: info, node: (*judge).persistence},
	{id: "identity", needs: info, set: (*judge).identity},
	{id: "lists", needs: anAnswer, set: (*judge).lists},
	{id: "marker", needs: anAnswer, node: (*judge).marker},
	{id: "replication", needs: info, node: (*judge).replication},
	{id: "clock", needs: anAnswer, node: (*judge).clock},
	{id: "round-trip", needs: anAnswer, node: (*judge).trips},
	{id: "rights", needs: anAnswer, node: (*judge).rights},
}

// Report runs all checks on the facts.
func (f *Facts) Report() *Report {
	r := &Report{}
	for _, c := range checks {
		done := Check{ID: c.id, Findings: c.run(f)}
		for _, finding := range done.Findings {
			done.Severity = max(done.Severity, finding.Severity)
		}
		r.Severity = max(r.Severity, done.Severity)
		r.Checks = append(r.Checks, done)
	}
	return r
}

// run returns the findings of one check, the worst first.
func (c check) run(f *Facts) []Finding {
	j := &judge{Facts: f, findings: []Finding{}}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		switch {
		case c.needs >= anAnswer && n.Unreached != nil:
			j.unknown(n, nil, "the node could not be asked")
		case c.needs >= info && !n.Info.Known():
			j.unknown(n, n.Info.Err, "INFO")
		case c.node != nil:
			c.node(j, n)
		default:
			j.nodes = append(j.nodes, n)
		}
	}
	if c.set != nil {
		c.set(j)
	}
	slices.SortStableFunc(j.findings, func(a, b Finding) int { return int(b.Severity - a.Severity) })
	return j.findings
}

package doctor

import "slices"

// check checks one aspect: of each node that answers, or of the set of these nodes.
type check struct {
	id string
	// about describes the aspect if all is well.
	about string
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

// checks are all checks, in the order of the report.
var checks = []check{
	{id: "count", about: "an odd number of nodes", set: (*judge).count},
	{id: "reachable", about: "all nodes answer", set: (*judge).reachable},
	{id: "usable", about: "the library accepts all servers: their versions, roles and modes", needs: info, node: (*judge).usable},
	{id: "eviction", about: "no key is evicted", needs: info, node: (*judge).eviction},
	{id: "memory", about: "memory is left", needs: info, node: (*judge).memory},
	{id: "persistence", about: "what is on disk", needs: info, node: (*judge).persistence},
	{id: "identity", about: "each node is a server of its own", needs: info, set: (*judge).identity},
	{id: "marker", about: "all nodes give locks", needs: anAnswer, node: (*judge).marker},
	{id: "limits", about: "nodes are set up for these --max-ttl and --max-clock-skew", needs: anAnswer, node: (*judge).limits},
	{id: "replication", about: "no master goes on alone", needs: info, node: (*judge).replication},
	{id: "clock", about: "clocks agree", needs: anAnswer, node: (*judge).clock},
	{id: "round-trip", about: "answers are fast enough", needs: anAnswer, node: (*judge).trips},
	{id: "rights", about: "the user has all rights", needs: anAnswer, node: (*judge).rights},
}

// Report runs all checks on the facts.
func (f *Facts) Report() *Report {
	r := &Report{}
	for _, c := range checks {
		done := Check{ID: c.id, About: c.about, Findings: c.run(f)}
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

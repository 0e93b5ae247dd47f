package doctor

import (
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/cmd/internal/text"
	"github.com/quorumlock/quorumlock/cmd/internal/watch"
	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// lists compares the lists of nodes in use with the nodes here, and the limits of their programs with those given.
func (j *judge) lists() {
	var names []string
	for i := range j.Nodes {
		names = append(names, j.Nodes[i].Name)
	}
	own := wire.NewList(names)
	var others []watch.ListInUse
	for _, n := range j.nodes {
		if n.Lists.Value == nil {
			j.unknown(n, n.Lists.Err, "the lists of nodes in use")
			continue
		}
		own.IDs[slices.Index(own.Addresses, wire.Listable(n.Name))] = n.Lists.Value.ID
		for _, l := range n.Lists.Value.Others {
			others = append(others, watch.ListInUse{List: l, Known: 1})
		}
	}
	for _, l := range watch.InUse(others) {
		if !l.Terms.Speak(wire.TermsFor(wire.Limits{})) { // then its limits and addresses may mean something else
			j.find(nil, Error, fmt.Sprintf("%s speaks protocol %d; doctor speaks protocol %d", text.OrDash(l.Holder), l.Terms.Protocol, wire.Protocol),
				"Programs of versions as far apart must not use the same names, so nodes refuse those of one version.",
				"Run doctor of the version of your programs. If these have several versions, upgrade them by one at a time (docs/upgrading.md).")
			continue
		}
		if limits := l.Terms.Limits; !l.Terms.Limits.Allow(j.Limits) {
			j.find(nil, Error, fmt.Sprintf("%s has %v; doctor got %v", text.OrDash(l.Holder), limits, j.Limits),
				"A node that lost its memory could give a lock again before it has ended, so nodes refuse programs of one kind.",
				"If the programs have the same limits, pass them to doctor too (--max-ttl, --max-clock-skew, --recovery). If not, configure all alike, or "+
					"change the limits in steps (docs/on-call.md).")
		}
		common, _, _ := wire.CommonNodes(own, l.List)
		found := fmt.Sprintf("%s uses another list of nodes: %s; %s know it, for another %s", text.OrDash(l.Holder), text.Escaped(l.String()), text.Nodes(l.Known), text.Span(l.Left))
		switch {
		case common == len(own.IDs) && common == len(l.IDs):
		case decision.ListsAgree(len(own.IDs), len(l.IDs), common):
			j.find(nil, Note, found, "Until it has run out, nodes refuse lists that are a step further.",
				"Before the next step of a change, wait until no program uses it, and it has run out (docs/on-call.md).")
		default:
			j.find(nil, Error, found, "Majorities of the two lists need not share a node, so nodes refuse programs with one of them.",
				"Correct the list of that program, or the one here. To change it, add or remove one node at a time (quorumlock nodes plan).")
		}
	}
}

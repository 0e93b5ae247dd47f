package report

import (
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/cmd/internal/text"
	"github.com/quorumlock/quorumlock/cmd/internal/watch"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// OtherLists shows the lists of nodes in use, unless there is one with just the nodes that were asked.
func OtherLists(facts *watch.Facts, lists []watch.ListInUse) string {
	var names []string
	for _, n := range facts.Nodes {
		names = append(names, n.Name)
	}
	own := wire.NewList(names).Addresses
	if len(lists) < 2 && !slices.ContainsFunc(lists, func(l watch.ListInUse) bool { return !slices.Equal(l.Addresses, own) }) {
		return ""
	}
	table := text.NewTable("LIST OF NODES IN USE", "MAX TTL", "MAX SKEW", "RECOVERY", "LAST BY", "KNOWN TO", "COUNTS FOR")
	for _, l := range lists {
		limits := l.Terms.Limits
		table.Add(text.Escaped(l.String()), text.Span(limits.MaxTTL), text.Span(limits.MaxClockSkew), text.Span(limits.Recovery()), text.OrDash(l.Holder), fmt.Sprintf("%d/%d", l.Known, len(names)), text.Span(l.Left))
	}
	return "\n" + table.String()
}

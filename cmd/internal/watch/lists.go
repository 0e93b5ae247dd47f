package watch

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// Lists returns the lists of nodes in use among programs with this prefix that the node knows, and the id of the node.
func (p *Peer) Lists(ctx context.Context, prefix string) (*wire.ListReply, error) {
	reply := p.Run(ctx, wire.Op{Kind: wire.Enlist, List: &wire.ListOp{Key: wire.ListKey(prefix)}})
	return reply.List, reply.Err
}

// ListInUse is a list of nodes that programs use, and how many of the nodes that answer know it.
type ListInUse struct {
	wire.List
	Known int
}

// Lists returns the lists in use, the one first that counts for longest. A node that does not answer knows none.
func (w *Watcher) Lists(ctx context.Context) (lists []ListInUse) {
	var mu sync.Mutex
	w.each(func(_ int, a *asker) {
		if a.said.Err != nil {
			return
		}
		reply, err := a.Lists(ctx, a.prefix)
		if err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, l := range reply.Others {
			lists = append(lists, ListInUse{l, 1})
		}
	})
	return InUse(lists)
}

// InUse joins what several nodes know of one list.
func InUse(lists []ListInUse) (joined []ListInUse) {
	slices.SortStableFunc(lists, func(a, b ListInUse) int { return cmp.Compare(b.Left, a.Left) })
	for _, l := range lists {
		if i := slices.IndexFunc(joined, func(j ListInUse) bool { return j.Terms == l.Terms && slices.Equal(j.Addresses, l.Addresses) }); i >= 0 {
			joined[i].Known += l.Known
		} else {
			joined = append(joined, l)
		}
	}
	return joined
}

// String names the nodes.
func (l ListInUse) String() string { return strings.Join(l.Addresses, ", ") }

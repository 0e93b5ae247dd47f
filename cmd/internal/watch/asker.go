package watch

import (
	"context"
	"errors"
	"slices"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// batch is the number of names in one script call, and of commands in one exchange.
const batch = 200

type asker struct {
	*Peer
	limits node.Limits
	prefix string

	said Node
	// found are the locks that were found. searched is set unless some keys were not searched for locks.
	found    []string
	searched bool
}

// absentLock is a name without a holder, which every user may read.
const absentLock = "quorumlock:top"

func (a *asker) greet(ctx context.Context) {
	a.said, a.found = Node{Name: a.Name(), Locks: make(map[string]Lock), Kinds: make(map[string]Kinds)}, nil
	// The first exchange connects, so its time is no measure of a round trip.
	if identity, _ := a.Server(); identity == "" {
		if a.said.Err = a.Probe(ctx); a.said.Err != nil {
			return
		}
	}
	begun := clock.System().Now()
	reply := a.holders(ctx, []string{a.InSlot(absentLock)})
	a.said.Err, a.said.Recovering, a.said.Unmarked = reply.Err, reply.Recovering, reply.Unmarked
	if reply.Err == nil {
		a.said.Latency = clock.System().Now() - begun
	}
}

func (a *asker) holders(ctx context.Context, names []string) wire.Reply {
	return a.Run(ctx, wire.Op{Kind: wire.Inspect, Names: names, Limits: a.limits})
}

// HoldersOf returns the holders in a reply.
func HoldersOf(r wire.Reply) (holders []node.Holder) {
	for _, h := range r.Holders {
		holders = append(holders, node.Holder(h))
	}
	return holders
}

func (a *asker) inspect(ctx context.Context, names []string) {
	for few := range slices.Chunk(names, batch) {
		a.inspectSome(ctx, few)
	}
}

// inspectSome asks about a few names at once. The node refuses the whole call if the user may not read one name, or
// if one is no lock. In that case, inspectSome asks about each half.
func (a *asker) inspectSome(ctx context.Context, names []string) {
	if a.said.Err != nil {
		return
	}
	there := make([]string, len(names))
	for i, name := range names {
		there[i] = wire.WithPrefix(a.prefix, name)
	}
	reply := a.holders(ctx, there)
	switch {
	case reply.Err == nil:
		for _, h := range HoldersOf(reply) {
			h.Name = wire.WithoutPrefix(a.prefix, h.Name)
			l := a.said.Locks[h.Name]
			l.Holders = append(l.Holders, h)
			a.said.Locks[h.Name] = l
		}
	case IsOneOf(reply.Err, node.ErrTimeout, node.ErrUnreachable, node.ErrProtocol, node.ErrCanceled, node.ErrMisconfigured):
		// It is about the node, and not about a name. Earlier answers may be out of date.
		a.said.Err = reply.Err
		clear(a.said.Locks)
		clear(a.said.Kinds)
	case len(names) == 1:
		a.said.Locks[names[0]] = Lock{Err: reply.Err}
	default:
		a.inspectSome(ctx, names[:len(names)/2])
		a.inspectSome(ctx, names[len(names)/2:])
	}
}

// IsOneOf reports whether an error has one of these reasons.
func IsOneOf(err error, reasons ...error) bool {
	return slices.ContainsFunc(reasons, func(reason error) bool { return errors.Is(err, reason) })
}

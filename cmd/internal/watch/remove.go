package watch

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// maxTombstone limits how long nodes remember an owner from whom a name was taken. A key with a longer TTL is none of
// this library.
const maxTombstone = 365 * 24 * time.Hour

// ForceRelease takes a lock from its holder, or from all its readers, as quorumlock's Lock.ForceRelease does. It
// returns a reply for each node. It does not ask nodes again that did not answer in the last round.
func (w *Watcher) ForceRelease(ctx context.Context, name string, owners []string) []wire.Reply {
	op := w.removal(name)
	op.Buried = owners
	return w.remove(func(a *asker) wire.Reply { return a.Run(ctx, op) })
}

// Evict takes names from one owner: a lock, which it may hold as a reader, or permits of one semaphore. Other owners
// keep theirs. It returns a reply for each node.
func (w *Watcher) Evict(ctx context.Context, owner string, names []string, permits int) []wire.Reply {
	op := w.removal(names...)
	take, wake := wire.Eviction(owner, op.Names, op.TTL, wire.Pool{Size: permits})
	return w.remove(func(a *asker) wire.Reply {
		reply := a.Run(ctx, take)
		if wake.Pool.Name != "" && reply.Err == nil {
			a.Run(ctx, wake)
		}
		return reply
	})
}

func (w *Watcher) remove(from func(*asker) wire.Reply) []wire.Reply {
	replies := make([]wire.Reply, len(w.nodes))
	w.each(func(i int, a *asker) {
		if replies[i].Err = a.said.Err; replies[i].Err == nil {
			replies[i] = from(a)
		}
	})
	return replies
}

// removal is the operation that takes names. Nodes remember the owners as long as after a forced release by a client, and
// at least as long as any node keeps one of the names.
func (w *Watcher) removal(names ...string) wire.Op {
	op := wire.Op{Kind: wire.ForceRelease, TTL: w.cfg.Limits.LongestTTL()}
	for _, name := range names {
		op.Names = append(op.Names, wire.WithPrefix(w.cfg.Prefix, name))
		for _, a := range w.nodes {
			for _, h := range a.said.Locks[name].Holders {
				op.TTL = max(op.TTL, min(h.TTL, maxTombstone))
			}
		}
	}
	return op
}

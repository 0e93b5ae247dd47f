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
	return w.remove(func(a *asker) wire.Reply {
		return a.Run(ctx, wire.Op{Kind: wire.ForceRelease, Names: []string{wire.WithPrefix(w.cfg.Prefix, name)}, TTL: w.tombstone(name), Buried: owners})
	})
}

// Evict takes names from one owner: a lock, which it may hold as a reader, or permits of one semaphore. Other owners
// keep theirs. It returns a reply for each node.
func (w *Watcher) Evict(ctx context.Context, owner string, names []string, permits int) []wire.Reply {
	there := make([]string, len(names))
	for i, name := range names {
		there[i] = wire.WithPrefix(w.cfg.Prefix, name)
	}
	wake := wire.Op{Kind: wire.Release, Names: there, Owner: owner}
	semaphore, _, ok := wire.Permit(there[0])
	if ok {
		wake.Pool = wire.Pool{Name: wire.PoolName(semaphore), Size: permits}
		for _, name := range names {
			_, number, _ := wire.Permit(name)
			wake.Pool.Size = max(wake.Pool.Size, number+1)
		}
	}
	ttl := wire.Limits(w.cfg.Limits).LongestTTL()
	for _, name := range names {
		ttl = max(ttl, w.tombstone(name))
	}
	return w.remove(func(a *asker) wire.Reply {
		reply := a.Run(ctx, wire.Op{Kind: wire.ForceRelease, Names: there, Owner: owner, TTL: ttl})
		if ok && reply.Err == nil {
			a.Run(ctx, wake) // the waiters are in the queue of the pool
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

// tombstone returns how long nodes remember an owner of a name: as long as after a forced release by a client, and at
// least as long as any node keeps the name for it.
func (w *Watcher) tombstone(name string) time.Duration {
	longest := wire.Limits(w.cfg.Limits).LongestTTL()
	for _, a := range w.nodes {
		for _, h := range a.said.Locks[name].Holders {
			longest = max(longest, min(h.TTL, maxTombstone))
		}
	}
	return longest
}

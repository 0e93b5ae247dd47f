// Package quorumlock takes locks on several Redis servers that know nothing of each
// other, so that losing one loses neither the lock nor the exclusion.
//
//	client, err := quorumlock.New(quorumlock.Config{
//		Addresses: []string{"redis-a:6379", "redis-b:6379", "redis-c:6379"},
//	})
//	...
//	err = client.RedLock("nightly-report").Do(ctx, func(ctx context.Context) error {
//		return writeReport(ctx) // ctx ends if the lock is lost
//	})
//
// # Two rules, one engine
//
// [Client.RedLock] asks for a majority of the nodes and survives the loss of the
// others. [Client.MultiLock] asks for every node and takes several names at once.
// Every step is sent to all nodes in parallel, is decided by the rule as soon as the
// votes suffice, and is undone on every node that may have taken part if it fails.
//
// # The life of a lease
//
//	          Acquire                Release
//	(nothing) ───────► [ valid ] ─────────────────► released
//	              ▲        │ └── Close ───────────► closed
//	   renewal    │        ├──── MaxHold ─────────► over its limit
//	   each TTL/3 └────────┤
//	                       └──── no quorum in time ► lost
//
// What Acquire returns is a [Lease]. It renews itself on every node, also on those that
// were down before, until it ends. Its end is decided by this process alone, on a clock
// that no administrator can step and that counts suspends: ValidUntil is the earliest
// time at which enough nodes may have let go, counted from before each command was
// sent and less an allowance for drift. At that time, at the latest, the context of
// the lease ends, with the reason as its cause. Nothing revives it.
//
// # What is guaranteed
//
// At any instant at most one lease of a name is valid by its own clock, as long as
// clock rates differ by less than the drift allowance (1% of the TTL and 2 ms), node
// clocks do not step, no node forgets what it granted, and all clients list the same
// nodes, each once.
//
// # What is not guaranteed
//
//   - A process can be paused between looking at its lease and acting on it. No lock
//     can prevent that; only the resource can, with a fencing token.
//   - A node that restarts without its memory, or is flushed, may grant again what it
//     had granted. This version trusts nodes as they are: run them with appendfsync
//     always, or keep a restarted node away for the longest TTL in use.
//   - Waiters are served in no particular order.
package quorumlock

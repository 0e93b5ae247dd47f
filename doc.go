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
// [Client.RWLock] has many readers, or one writer, and asks for a majority.
// [Client.Semaphore] has so many permits, each of which is as a RedLock.
// Every step is sent to all nodes in parallel, is decided by the rule as soon as the
// votes suffice, and is undone on every node that may have taken part if it fails.
//
// [Client.Latch] counts down, [Join] takes several of these together, [Client.Striped] puts any
// number of names on a few locks, and package election has one of several processes lead.
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
// # Tokens
//
// [Lease.Token] is a number that is larger for every later lease of a name. What the lock
// protects should remember the largest that it has seen and refuse smaller ones: only so
// is it safe from a holder that was paused, and does not know that its lease is over.
// Package fence helps with that.
//
// # Nodes that lose their memory
//
// A node that restarts, fails over, or is flushed may have forgotten whom it granted what.
// It notices, with the first request after that, and gives nothing new for MaxTTL and
// MaxClockSkew together, 11 seconds by default. Holders renew there as ever, and keep their
// leases if enough nodes have known them all the time. Attempts fail with
// node.ErrRecovering meanwhile, and Acquire waits.
//
// A new node cannot be told from one that has lost everything. Whoever sets up the
// servers spares the programs the wait with "quorumlock init", or package admin; a program
// must not, as it cannot know. In tests, open in-memory nodes with admin.Init.
//
// # What happens
//
// [Hooks] tell of grants, failed attempts, renewals, losses, and of nodes that fail, come
// back, or recover. The Logger of the [Config] gets a warning of whatever somebody should
// look at; LogHooks tells it of the rest. The module otel makes metrics and traces of the hooks.
//
// # What is guaranteed
//
// At any instant at most one lease of a name is valid by its own clock, and a later one has
// the larger token, whatever nodes crash, hang, and forget, as long as
//
//   - clock rates differ by less than the drift allowance (1% of the TTL and 2 ms), and
//     the clocks of nodes do not step; those of clients may;
//   - when nodes forget, it shows, as after a restart: locks are not evicted or deleted
//     one by one (a lease that b nodes back, under a rule of q of N, survives b+q-N-1 of
//     those);
//   - all clients list the same nodes, each once, with the same MaxTTL and MaxClockSkew.
//
// # What is not guaranteed
//
//   - A process can be paused between looking at its lease and acting on it. No lock
//     can prevent that; only the resource can, with the token.
//   - Without a majority of nodes that answer, or after a majority has lost its memory,
//     nobody gets a lock for a time.
//   - Waiters are served in the order in which their clients came, as far as clocks agree; one
//     that is frozen when its turn comes loses it.
//
// docs/guarantees.md has the assumptions one by one, the proofs, and what happens when
// an assumption breaks; docs/handbook.md what every error and log line means, and
// docs/README.md is the index of all that.
package quorumlock

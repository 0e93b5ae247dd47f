// Package quorumlock takes locks on several independent Redis servers. The loss of one of them
// loses neither the lock nor the exclusion.
//
//	client, err := quorumlock.New(quorumlock.Config{
//		Addresses: []string{"redis-a:6379", "redis-b:6379", "redis-c:6379"},
//	})
//	...
//	err = client.RedLock("nightly-report").Do(ctx, func(ctx context.Context) error {
//		return writeReport(ctx) // ctx ends if the lock is lost
//	})
//
// # The six names you need
//
//   - [Config] lists the servers. All programs list the same ones.
//   - [New] makes a client of them. A process needs one, and closes it at its end.
//   - [Client.RedLock] names a lock. It sends nothing.
//   - [Lock.Do] waits for the lock, runs a function while it holds it, and releases it.
//   - [Lease] is for work that is not one function: [Lock.Acquire] and [Lock.TryAcquire] return it.
//     Work under a lease uses its Context, and Release ends it.
//   - [LostError] is the error if the lock was lost while the work ran; the context of the work has
//     then ended with it as its cause.
//
// The rest of this page explains them. Everything else is for special cases: other kinds of
// locks, options, hooks, and questions that operators ask.
//
// # Two rules, one engine
//
// [Client.RedLock] needs a majority of the nodes, and survives the loss of the others.
// [Client.MultiLock] needs every node, and takes several names at once. [Client.RWLock] has many
// readers or one writer, and needs a majority. [Client.Semaphore] has a number of permits, and each
// permit is like a RedLock.
//
// Every operation goes to all nodes in parallel. The rule decides as soon as there are enough
// votes. A failed attempt is undone on every node that may have granted it.
//
// [Client.Latch] counts down. [Join] takes several of these locks together. [Client.Striped] maps
// any number of names to a few locks. Package election elects one of several processes as leader.
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
// Acquire returns a [Lease]. Until it ends, the lease renews itself on every node, also on nodes
// that were down before. This process alone decides when the lease ends. It uses a clock that no
// administrator can step, and that counts suspends. The lease ends before enough nodes can have
// dropped the lock for another owner. Its time counts from before each command was sent, less an
// allowance for clock drift. When it is over, at the latest, the context of the lease ends, with the
// reason as its cause. Nothing revives a lease.
//
// # Tokens
//
// [Lease.Token] is a number that is larger for every later lease of a name. The resource that the
// lock protects should remember the largest token that it has seen, and refuse smaller ones. Only
// this protects it from a holder that was paused and does not know that its lease is over. Package
// fence helps with that.
//
// # Nodes that lose their memory
//
// A node that restarts, fails over, or is flushed may have forgotten its grants. It notices that
// with the next request. It then grants nothing new for MaxTTL + MaxClockSkew, 11 seconds by
// default. Holders renew there as before, and keep their leases if enough nodes remember them.
// Attempts fail with node.ErrRecovering meanwhile, and Acquire waits.
//
// A new node looks like one that has lost everything. When you set up servers, "quorumlock init" or
// package admin spares the programs the wait. A program must not do that, because it cannot know
// that the servers are new. In tests, open in-memory nodes with admin.Init.
//
// # What happens
//
// [Hooks] report grants, failed attempts, renewals and losses, and nodes that fail, come back, or
// recover. The Logger of the [Config] gets a warning of everything that an operator should look at;
// LogHooks logs every event except single votes. The module otel turns the hooks into metrics and traces.
//
// # What is guaranteed
//
// At any instant at most one lease of a name is valid by its own clock. A later lease has the
// larger token. Any number of nodes may crash, hang, or forget. This holds if
//
//   - clock rates differ by less than the drift allowance (1% of the TTL and 2 ms);
//   - the clocks of nodes do not step (the clocks of clients may);
//   - when a node forgets, it shows, as after a restart: locks are not evicted or deleted
//     one by one (of five nodes that all back a RedLock, two may still do that);
//   - all clients list the same nodes, each once, with the same MaxTTL and MaxClockSkew.
//
// # What is not guaranteed
//
//   - A process can be paused after it checked its lease and before it acts. No lock can prevent
//     that; only the resource can, with the token.
//   - Without a majority of nodes that answer, or after a majority has lost its memory,
//     no client gets a lock for a time.
//   - Waiters are served in the order in which their clients came, to the precision of the clocks.
//     A waiter that is frozen when its turn comes loses the turn.
//
// docs/guarantees.md has the assumptions one by one, the proofs, and the consequences of an
// assumption that breaks. docs/handbook.md explains every error and log line. docs/README.md is the
// index of all documents.
package quorumlock

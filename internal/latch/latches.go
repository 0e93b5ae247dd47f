// Package latch makes the calls of count-down latches: it sets, counts down, reads, awaits and deletes
// them on the nodes of one client.
//
// A [Call] is one call of a method. It asks the nodes in rounds, until enough of them agree. A
// round combines their answers with package quorum, and gives each node the ids that it lacks.
//
// The package returns facts, an [Outcome] for each call. The public face makes errors of them.
package latch

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// TokenClock proposes tokens, and knows the tokens of other clients that are ahead of its clock.
type TokenClock interface {
	// Propose returns a token that is larger than all that were seen with this name.
	Propose(name string) uint64
	// Observe records a token that was seen with this name.
	Observe(token uint64, name string)
	// Plausible reports whether a sound node can have accepted a token.
	Plausible(token uint64) bool
	// IsCurrent reports whether a token is the time, or was a moment ago.
	IsCurrent(token uint64) bool
}

// Subscriptions are the subscriptions of a client, as [inbox.Set] keeps them.
//
// [inbox.Set]: https://pkg.go.dev/github.com/quorumlock/quorumlock/internal/inbox#Set
type Subscriptions interface {
	// Use opens the subscriptions, and Done ends one Use.
	Use(names []string)
	Done(names []string)
	// Listening returns the nodes whose messages arrive, as a bit set. settled is false while
	// subscriptions are being opened.
	Listening() (nodes uint64, settled bool)
}

// Env has the parts of the client that its calls use. All fields are required.
type Env struct {
	Nodes         *dispatch.Nodes
	Clock         clock.Clock
	Tokens        TokenClock
	Subscriptions Subscriptions
	Limits        node.Limits
	// Inbox is the id under which nodes send messages to the client. A node keeps it for Keep.
	Inbox string
	Keep  time.Duration
	// Recheck is the longest pause between two glances of a waiter. SettleTime returns how long most
	// nodes need for an answer, with a margin.
	Recheck    time.Duration
	SettleTime func() time.Duration
	// RetryMin and RetryMax bound the pauses after a round without a quorum.
	RetryMin, RetryMax time.Duration
	// Jitter returns a random number in [0, 1).
	Jitter func() float64
	// Quit is closed when the client is closed.
	Quit <-chan struct{}
}

// Latches are the latches of one client. It is safe for concurrent use.
type Latches struct {
	env  Env
	need int

	// mu guards the fields below. No other mutex is locked while it is held.
	mu sync.Mutex
	// generations has the latest generation of latches that were deleted a moment ago. With it, the
	// next call on such a latch need not be refused first. Entries are useful while clocks may
	// differ; see Call.operationToken. sweepAt is the size at which useless ones are removed.
	generations map[string]uint64
	sweepAt     int
	// refilling are the latches for which a call gives ids back to nodes that forgot them.
	// postponed are the latches for which a round will do that in a moment.
	refilling, postponed map[string]struct{}
	// watchers are the watchers of each latch that has any, by its name.
	watchers map[string]map[*watcher]struct{}
	// batches has the last batch of count-downs of each latch, while any call is in it.
	batches map[latchKey]*batch
}

// New returns the latches of a client.
func New(env Env) *Latches {
	return &Latches{
		env:         env,
		need:        quorum.Majority().Need(env.Nodes.Len()),
		generations: make(map[string]uint64),
		refilling:   make(map[string]struct{}),
		postponed:   make(map[string]struct{}),
		watchers:    make(map[string]map[*watcher]struct{}),
		batches:     make(map[latchKey]*batch),
	}
}

// Call returns a call on the latch with this name and TTL.
func (l *Latches) Call(ctx context.Context, name string, ttl time.Duration) *Call {
	return &Call{latches: l, ctx: ctx, name: name, ttl: ttl, seen: l.generationOf(name)}
}

// minSweep is the least number of generations for which a sweep is worth its cost.
const minSweep = 64

// observeGeneration records a generation of a latch. Generations up to passed are no longer useful.
func (l *Latches) observeGeneration(name string, generation, passed uint64) {
	if generation <= passed {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.generations) >= max(l.sweepAt, minSweep) {
		maps.DeleteFunc(l.generations, func(_ string, old uint64) bool { return old <= passed })
		l.sweepAt = 2 * len(l.generations)
	}
	l.generations[name] = max(l.generations[name], generation)
}

// generationOf returns the latest known generation of a latch; 0 if none is known.
func (l *Latches) generationOf(name string) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.generations[name]
}

// beginRefill reports whether the caller may give ids of a latch back: no other call does.
// endRefill must follow.
func (l *Latches) beginRefill(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, busy := l.refilling[name]
	_, later := l.postponed[name]
	if busy || later {
		return false
	}
	l.refilling[name] = struct{}{}
	return true
}

func (l *Latches) endRefill(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.refilling, name)
}

// postponeRefill reports whether the caller may give ids of a latch back later: no other round will.
// endPostponement must follow.
func (l *Latches) postponeRefill(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, later := l.postponed[name]
	l.postponed[name] = struct{}{}
	return !later
}

func (l *Latches) endPostponement(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.postponed, name)
}

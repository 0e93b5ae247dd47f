// Package latch makes the calls of count-down latches: it sets, counts down, reads, awaits and deletes
// them on the nodes of one client.
//
// A [Call] is one call of a method. It asks the nodes in rounds, until enough of them agree. A
// round combines their answers with package decision, and gives each node the ids that it lacks.
//
// The package returns facts, an [Outcome] for each call. The public face makes errors of them.
//
// Each file uses only files before it: env, latches, answers, round, call.
package latch

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/internal/wire"
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
	Use()
	Done()
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
	Limits        wire.Limits
	// Inbox is the id under which nodes send messages to the client. A node keeps it for Keep.
	Inbox string
	Keep  time.Duration
	// Recheck is the longest pause between two rounds of a waiter. SettleTime returns how long most
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

// A result counts only if enough nodes held it at one moment. A round collects answers of different
// moments. Suppose that a node answers, loses its memory, and gets back the ids of the others. Then it
// counts again, without the result. A late answer of another node completes a majority that never was.
//
// A prompt round excludes that: no client gives a node its ids back so soon after a loss. A round
// that takes longer is confirmed. It asks the nodes once more whether they still have the memory
// with which they answered.

// maxPrompt bounds promptWithin.
const maxPrompt = time.Second / 2

// promptWithin is how long a round may take and needs no confirmation. It depends on the limits alone: no other client
// recovers for less, so none has a shorter refillAfter.
func promptWithin(l wire.Limits) time.Duration { return promptIn(l.MaxTTL + l.MaxClockSkew) }

func promptIn(recovery time.Duration) time.Duration { return min(recovery/8, maxPrompt) }

// refillAfter is how old a loss must be before a client reads the ids that the node has forgotten. By
// then each prompt round of any client that began before the loss has ended. The margin is for the rates of clocks,
// and for the millisecond to which a node rounds the rest of its recovery.
func refillAfter(l wire.Limits) time.Duration { return promptIn(l.Recovery())*5/4 + time.Millisecond }

// Outcome is how a call ended.
type Outcome struct {
	Result Result
	// Count is, for OtherCount and Open, the number to which the latch is set. Chosen is set if a
	// majority of the nodes agrees on it.
	Count  int
	Chosen bool
	// Left is how many ids must still count down, for Open and for a Count that succeeded.
	Left int
	// Shortage says why too few nodes agreed, for NoQuorum.
	Shortage *Shortage
	// Stopped is set if the call ended before it had another result, and CutShort if that was in
	// the middle of a round.
	Stopped  Stop
	CutShort bool
}

// ok reports whether the call succeeded.
func (o *Outcome) ok() bool { return o.Result == Done && o.Stopped == NotStopped }

// Result is the last result of the nodes.
type Result uint8

// The results. With Done, an Outcome that was not stopped is a success.
const (
	Done Result = iota
	// NotSet: the latch is not set. Deleted: it was deleted during the call.
	NotSet
	Deleted
	// OtherCount: it is set to another number.
	OtherCount
	// NoQuorum: too few nodes agreed.
	NoQuorum
	// Open: too few ids have counted down.
	Open
)

// Stop is what ended a call early.
type Stop uint8

// The reasons to stop.
const (
	NotStopped Stop = iota
	// ByContext: the context ended. ByClose: the client was closed.
	ByContext
	ByClose
)

// Shortage says why too few nodes agreed in a round.
type Shortage struct {
	// Need of Total nodes had to agree. Agreed nodes did, and Pending nodes had not answered yet.
	Need, Total, Agreed, Pending int
	// Refusals says why the other nodes did not agree.
	Refusals []Refusal
}

// Refusal is why the node with this index did not agree.
type Refusal struct {
	Node int
	Err  error
}

// wait waits for an event or a signal; either may be nil. It says if the context or the client ends first.
func (env *Env) wait(ctx context.Context, event, signals <-chan struct{}) Stop {
	select {
	case <-event:
		return NotStopped
	case <-signals:
		return NotStopped
	case <-ctx.Done():
		return ByContext
	case <-env.Quit:
		return ByClose
	}
}

// sleep waits for d, or until a signal. It says if the context or the client ends first.
func (env *Env) sleep(ctx context.Context, d time.Duration, signals <-chan struct{}) Stop {
	late := make(chan struct{})
	timer := env.Clock.AfterFunc(max(d, 0), func() { close(late) })
	defer timer.Stop()
	return env.wait(ctx, late, signals)
}

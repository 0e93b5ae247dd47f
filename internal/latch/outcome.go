package latch

import (
	"context"
	"time"
)

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

// wait waits for an event. It says if the context or the client ends first.
func (env *Env) wait(ctx context.Context, event <-chan struct{}) Stop {
	select {
	case <-event:
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
	select {
	case <-late:
		return NotStopped
	case <-signals:
		return NotStopped
	case <-ctx.Done():
		return ByContext
	case <-env.Quit:
		return ByClose
	}
}

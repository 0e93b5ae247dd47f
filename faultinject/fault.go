package faultinject

import "fmt"

// Fault is one way to break something, a node in memory or a real server.
type Fault string

// Faults of a node. They begin at an instant, and all but Flush end at another.
const (
	// Stop shuts a node down in an orderly way. It comes back with what it had.
	Stop Fault = "stop"
	// Kill ends a node at once (SIGKILL). It comes back with what had reached its disk.
	Kill Fault = "kill"
	// Wipe is Kill, and the node comes back with nothing.
	Wipe Fault = "wipe"
	// Lose kills a node when the amount has passed, and it comes back without what was
	// written meanwhile, as when a machine fails before that reached the disk: its marker
	// is there, and its latest locks are not.
	Lose Fault = "lose"
	// Flush has a node that runs forget everything (FLUSHALL).
	Flush Fault = "flush"
	// Pause stops a node without ending it (SIGSTOP): connections stand, nothing answers,
	// and what arrives meanwhile is run when it wakes.
	Pause Fault = "pause"
	// Clock has the wall clock of a node off by the amount, from an instant on: it steps,
	// and steps back at the end.
	Clock Fault = "clock"
	// Memory leaves a node no memory for writes.
	Memory Fault = "memory"
)

// Faults on the way between clients and nodes.
const (
	// Part cuts the way both ways: nothing arrives, and nobody is told.
	Part Fault = "part"
	// Deafen loses what clients send; what nodes send arrives.
	Deafen Fault = "deafen"
	// Mute loses what nodes send; they run what clients ask of them.
	Mute Fault = "mute"
	// Slow delays everything by the amount, each way.
	Slow Fault = "slow"
)

// Faults of a client.
const (
	// Freeze stops a client process without ending it (SIGSTOP). Its clock runs on.
	Freeze Fault = "freeze"
	// Murder ends a client process at once (SIGKILL). Another starts in its place.
	Murder Fault = "murder"
)

// scope is what a fault is about.
type scope uint8

const (
	ofNode scope = iota + 1
	ofLink
	ofClient
)

// kinds lists every fault, and what a step with it needs.
var kinds = map[Fault]struct {
	scope
	amount, instant bool
}{
	Stop:   {scope: ofNode},
	Kill:   {scope: ofNode},
	Wipe:   {scope: ofNode},
	Lose:   {scope: ofNode, amount: true},
	Flush:  {scope: ofNode, instant: true},
	Pause:  {scope: ofNode},
	Clock:  {scope: ofNode, amount: true},
	Memory: {scope: ofNode},
	Part:   {scope: ofLink},
	Deafen: {scope: ofLink},
	Mute:   {scope: ofLink},
	Slow:   {scope: ofLink, amount: true},
	Freeze: {scope: ofClient},
	Murder: {scope: ofClient},
}

// check reports whether there is such a fault.
func (f Fault) check() error {
	if _, ok := kinds[f]; !ok {
		return fmt.Errorf("no fault is called %q", string(f))
	}
	return nil
}

package faultinject

import "fmt"

// Fault is one way to break something, a node in memory or a real server.
type Fault string

// Faults of a node. They begin at one instant, and all but Flush and Replicate end at another.
const (
	// Stop shuts a node down in an orderly way. It keeps its data.
	Stop Fault = "stop"
	// Kill ends a node at once (SIGKILL). It comes back with the data that had reached its disk.
	Kill Fault = "kill"
	// Wipe is Kill, and the node comes back empty.
	Wipe Fault = "wipe"
	// Lose kills a node after the amount of time. It comes back without the writes of that time, as if a machine had
	// failed before they reached the disk: its marker is there, and its latest locks are not.
	Lose Fault = "lose"
	// Flush makes a running node forget everything (FLUSHALL).
	Flush Fault = "flush"
	// Pause stops a node without ending it (SIGSTOP). Connections stay open without answers, and commands that arrive
	// meanwhile run when it wakes.
	Pause Fault = "pause"
	// Readdress leads the address of a node to another server, and back at the end. Neither of them restarts. Only the
	// simulation has it.
	Readdress Fault = "readdress"
	// Replicate attaches the first replica to a node. The node gets another identity, and keeps its process, its memory and its
	// connections. Only the simulation has it.
	Replicate Fault = "replicate"
	// Clock steps the wall clock of a node by the amount, and back at the end.
	Clock Fault = "clock"
	// Memory leaves a node no memory for writes.
	Memory Fault = "memory"
)

// Faults of a node that is a slot of a Redis Cluster: see [Shard]. Another server then owns the slot. Failover and Move
// are of an instant.
const (
	// Failover makes the replica of the slot's owner take over from it, in an orderly way.
	Failover Fault = "failover"
	// Move moves the slot to another master, with its keys.
	Move Fault = "move"
	// Isolate cuts the owner off from the other servers of the cluster. Clients still reach it.
	Isolate Fault = "isolate"
)

// Faults on the way between clients and nodes.
const (
	// Part cuts the way in both directions, silently.
	Part Fault = "part"
	// Deafen loses data from clients; data from nodes arrives.
	Deafen Fault = "deafen"
	// Mute loses data from nodes; the nodes still run the clients' commands.
	Mute Fault = "mute"
	// Slow delays everything by the amount, each way.
	Slow Fault = "slow"
	// ArriveLate keeps what clients write on the connections that are open at its beginning. Nodes receive it at its end, behind
	// newer requests, whatever has become of the connection and of the client. New connections work meanwhile. ArriveLate and
	// ArriveTwice need a [Proxy]: see [Proxy.Detain].
	ArriveLate Fault = "late"
	// ArriveTwice makes nodes receive again, at its end and in any order, what clients wrote during it.
	ArriveTwice Fault = "twice"
)

// Faults of a client.
const (
	// Freeze stops a client process without ending it (SIGSTOP). Its clock runs on.
	Freeze Fault = "freeze"
	// Murder ends a client process at once (SIGKILL). Another starts in its place.
	Murder Fault = "murder"
)

type scope uint8

const (
	ofNode scope = iota + 1
	ofLink
	ofClient
)

// kinds lists every fault, and the fields that its steps need.
var kinds = map[Fault]struct {
	scope
	amount, instant bool
}{
	Stop:      {scope: ofNode},
	Kill:      {scope: ofNode},
	Wipe:      {scope: ofNode},
	Lose:      {scope: ofNode, amount: true},
	Flush:     {scope: ofNode, instant: true},
	Pause:     {scope: ofNode},
	Readdress: {scope: ofNode},
	Replicate: {scope: ofNode, instant: true},
	Clock:     {scope: ofNode, amount: true},
	Memory:    {scope: ofNode},

	Failover: {scope: ofNode, instant: true},
	Move:     {scope: ofNode, instant: true},
	Isolate:  {scope: ofNode},

	Part:        {scope: ofLink},
	Deafen:      {scope: ofLink},
	Mute:        {scope: ofLink},
	Slow:        {scope: ofLink, amount: true},
	ArriveLate:  {scope: ofLink},
	ArriveTwice: {scope: ofLink},
	Freeze:      {scope: ofClient},
	Murder:      {scope: ofClient},
}

func (f Fault) check() error {
	if _, ok := kinds[f]; !ok {
		return fmt.Errorf("no fault is called %q", string(f))
	}
	return nil
}

package faultinject

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Nemesis draws plans with all kinds of trouble for nodes and clients. Episodes follow each other, and some overlap.
// Peaceful moments lie between them, because a system under permanent trouble shows nothing.
//
// Nodes and TTL must be set. Seed 0 is a seed like any other.
type Nemesis struct {
	Seed uint64
	// Nodes and Clients are how many there are. Without clients, faults are limited to those that [Nodes] support:
	// faults of nodes, and paths that are cut for all clients.
	Nodes, Clients int
	// TTL is the TTL of the locks. Episodes are shorter and longer than it.
	TTL time.Duration
	// ClockStep is the largest step of a node's wall clock: less than the drift that locks allow for, unless the test
	// wants more. 0 means no steps.
	ClockStep time.Duration
	// Losses allows the fault Lose, which needs servers that are a [Loser].
	Losses bool
	// Shards is how many of the nodes, from the first on, are slots of clusters. They have the faults of a [Shard],
	// and no clock steps and pauses. Locks tolerate no long pause of the slot's owner.
	Shards int
	// Episodes are the episodes to choose from; none means all.
	Episodes []Episode
}

// Episode is a kind of trouble.
type Episode string

// The episodes.
const (
	// Minority kills as many nodes as can be spared. Nodes that have other faults already count, too. Other
	// episodes may follow at the same time.
	Minority Episode = "minority"
	// Majority kills enough nodes at once to prevent every acquisition.
	Majority Episode = "majority"
	// Everything kills all nodes.
	Everything Episode = "everything"
	// Rolling restarts all nodes in turn.
	Rolling Episode = "rolling"
	// Hang pauses some nodes, sometimes for longer than the TTL.
	Hang Episode = "hang"
	// Amnesia makes a quorum forget, in less time than a holder takes to renew. Then only their recovery keeps other
	// clients out.
	Amnesia Episode = "amnesia"
	// Forget flushes some nodes.
	Forget Episode = "forget"
	// Partition cuts a client off from some or all nodes, one way or both.
	Partition Episode = "partition"
	// Isolation cuts a node off from all clients and nodes.
	Isolation Episode = "isolation"
	// Flapping cuts a node off repeatedly, for short moments.
	Flapping Episode = "flapping"
	// Slowness delays messages to and from a node.
	Slowness Episode = "slowness"
	// Lateness delays requests of a client by up to the TTL, whatever becomes of it, or makes nodes run them twice.
	Lateness Episode = "lateness"
	// WrongClock steps the clock of a node.
	WrongClock Episode = "wrong-clock"
	// NoMemory leaves a node no memory.
	NoMemory Episode = "no-memory"
	// Sleeper freezes a client, sometimes for longer than the TTL.
	Sleeper Episode = "sleeper"
	// Crash kills a client.
	Crash Episode = "crash"
	// OwnerChange gives the slot of a cluster another owner.
	OwnerChange Episode = "owner-change"
)

// Episodes returns all episodes.
func Episodes() []Episode {
	return []Episode{
		Minority, Majority, Everything, Rolling, Hang, Amnesia, Forget, Partition, Isolation, Flapping, Slowness,
		Lateness, WrongClock, NoMemory, Sleeper, Crash, OwnerChange,
	}
}

// Plan draws a plan that ends within the duration. The same Nemesis draws the same plan. The seed determines the
// episodes and their number: a short plan has only a few.
//
// An error says which field of the Nemesis is invalid, or that no episode fits into the duration, so that a test
// would test nothing.
func (n Nemesis) Plan(duration time.Duration) (Plan, error) {
	if len(n.Episodes) == 0 {
		n.Episodes = Episodes()
	}
	if err := n.check(); err != nil {
		return nil, err
	}
	n.Episodes = slices.DeleteFunc(slices.Clone(n.Episodes), n.impossible)
	d := &drawing{Nemesis: n, rng: rand.New(rand.NewPCG(n.Seed, 5)), end: duration, free: make(map[string]time.Duration)}
	for at := d.upTo(n.TTL / 2); at < duration && len(n.Episodes) > 0; {
		d.draw(n.Episodes[d.rng.IntN(len(n.Episodes))], at)
		switch d.rng.IntN(8) {
		case 0, 1, 2: // the next episode begins in the middle of this one
			at += d.upTo(n.TTL/2) + time.Millisecond
		case 3: // long enough to acquire locks again
			at = max(at, d.last) + n.TTL + d.upTo(n.TTL)
		default:
			at = max(at, d.last) + d.upTo(n.TTL/2) + time.Millisecond
		}
	}
	if len(d.plan) == 0 {
		return nil, fmt.Errorf("faultinject: nemesis: with a TTL of %v, no episode of %v fits into %v", n.TTL, n.Episodes, duration)
	}
	return d.plan, nil
}

func (n Nemesis) check() error {
	var errs []error
	bad := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf("faultinject: nemesis: "+format, args...))
		}
	}
	bad(n.Nodes < 1, "%d nodes: at least one is needed", n.Nodes)
	bad(n.Clients < 0, "%d clients", n.Clients)
	bad(n.TTL < time.Millisecond, "a TTL of %v: set it to the TTL of the locks", n.TTL)
	bad(n.Shards < 0 || n.Shards > n.Nodes, "%d of %d nodes cannot be slots of clusters", n.Shards, n.Nodes)
	bad(n.ClockStep < 0, "clocks step by %v: it is the most they step, either way", n.ClockStep)
	for _, e := range n.Episodes {
		bad(!slices.Contains(Episodes(), e), "no episode is called %q", e)
	}
	return errors.Join(errs...)
}

func (n Nemesis) impossible(e Episode) bool {
	switch e {
	case WrongClock:
		return n.ClockStep == 0
	case OwnerChange:
		return n.Shards == 0
	case Partition, Slowness, Lateness, Sleeper, Crash:
		return n.Clients == 0
	default:
		return false
	}
}

type drawing struct {
	Nemesis
	rng  *rand.Rand
	plan Plan
	end  time.Duration
	// last is the end of the last step. free has the time when each target can be broken again.
	last time.Duration
	free map[string]time.Duration
}

// add adds a step, unless its target is still broken, or the step would end too late.
func (d *drawing) add(s Step) {
	if d.isShard(s) {
		fault, ok := ofShard(s.Fault)
		if !ok {
			return
		}
		s.Fault = fault
	}
	switch s.Fault {
	case Flush, Failover, Move:
		s.For = 0
	case Lose:
		s.Amount = (d.TTL / 2).Round(time.Millisecond)
		s.For += s.Amount
	}
	s.At, s.For = s.At.Round(time.Millisecond), s.For.Round(time.Millisecond)
	if s.At < d.free[s.Target()] || s.End() > d.end {
		return
	}
	d.plan = append(d.plan, s)
	d.last = max(d.last, s.End())
	// The pause lets a server that starts slowly be ready for the next step.
	d.free[s.Target()] = s.End() + d.TTL/4
}

// isShard reports whether a step is about a node that is a slot of a cluster.
func (d *drawing) isShard(s Step) bool { return s.Node >= 0 && s.Node < d.Shards }

// ofShard returns the fault of a slot of a cluster instead of a fault of any node, if there is one.
func ofShard(fault Fault) (instead Fault, ok bool) {
	switch fault {
	case Wipe, Lose:
		return Kill, true // its servers have no disk
	case Pause, Clock:
		return "", false
	default:
		return fault, true
	}
}

func (d *drawing) draw(e Episode, at time.Duration) {
	nodes := d.rng.Perm(d.Nodes)
	spare := (d.Nodes - 1) / 2
	switch e {
	case Minority:
		length := d.length()
		d.each(nodes[:max(spare-d.broken(at, at+d.TTL/10+length), 0)], at, d.death(), length)
	case Majority:
		d.each(nodes[:spare+1], at, d.death(), d.length())
	case Everything:
		d.each(nodes, at, d.death(), d.length())
	case Rolling:
		d.roll(nodes, at)
	case Hang:
		d.each(nodes[:d.some(spare+1)], at, Pause, d.length())
	case Amnesia:
		// A lock must be held for this episode, so earlier episodes and their recoveries must be over.
		at = max(at, d.last+2*d.TTL)
		d.each(nodes[:spare+d.some(d.Nodes-spare)], at, d.loss(), d.upTo(d.TTL/10))
	case Forget:
		d.each(nodes[:d.some(spare+1)], at, Flush, 0)
	case Partition:
		d.partition(nodes, at)
	case Isolation:
		d.add(Step{At: at, For: d.length(), Fault: d.cut(), Node: nodes[0], Client: All})
	case Flapping:
		d.flap(nodes[0], at)
	case Slowness:
		d.add(Step{At: at, For: d.length(), Fault: Slow, Node: nodes[0], Client: All, Amount: d.upTo(d.TTL / 8).Round(time.Millisecond)})
	case Lateness:
		d.delay(nodes, at)
	case WrongClock:
		d.step(nodes[0], at)
	case NoMemory:
		d.each(nodes[:d.some(spare+1)], at, Memory, d.length())
	case Sleeper:
		d.add(Step{At: at, For: d.length(), Fault: Freeze, Node: All, Client: d.rng.IntN(d.Clients)})
	case Crash:
		d.add(Step{At: at, For: d.upTo(d.TTL), Fault: Murder, Node: All, Client: d.rng.IntN(d.Clients)})
	case OwnerChange:
		fault := []Fault{Failover, Move, Isolate, Kill}[d.rng.IntN(4)]
		d.add(Step{At: at, For: d.TTL + d.upTo(2*d.TTL), Fault: fault, Node: d.rng.IntN(d.Shards), Client: All})
	}
}

// broken counts the nodes that have a fault at some time of a span.
func (d *drawing) broken(from, to time.Duration) int {
	nodes := make(map[int]bool)
	for _, s := range d.plan {
		if kinds[s.Fault].scope != ofClient && s.At <= to && from <= s.End() {
			nodes[s.Node] = true
		}
	}
	return len(nodes)
}

// each adds one fault to several nodes within a short time.
func (d *drawing) each(nodes []int, at time.Duration, fault Fault, length time.Duration) {
	for _, node := range nodes {
		d.add(Step{At: at + d.upTo(d.TTL/10), For: length, Fault: fault, Node: node, Client: All})
	}
}

func (d *drawing) roll(nodes []int, at time.Duration) {
	fault, gap := d.death(), d.TTL/2+d.upTo(d.TTL)
	for _, node := range nodes {
		d.add(Step{At: at, For: d.TTL / 10, Fault: fault, Node: node, Client: All})
		at += gap
	}
}

func (d *drawing) partition(nodes []int, at time.Duration) {
	fault, client, length := d.cut(), d.rng.IntN(d.Clients), d.length()
	if d.rng.IntN(3) > 0 {
		nodes = nodes[:d.some(d.Nodes)]
	} else {
		length = d.TTL + d.upTo(d.TTL) // cut off from all nodes, and for longer than any lease
	}
	for _, node := range nodes {
		d.add(Step{At: at, For: length, Fault: fault, Node: node, Client: client})
	}
}

func (d *drawing) flap(node int, at time.Duration) {
	fault := d.cut()
	for range 3 + d.rng.IntN(5) {
		length := d.upTo(d.TTL / 4)
		d.add(Step{At: at, For: length, Fault: fault, Node: node, Client: All})
		at += length + d.TTL/4 + d.upTo(d.TTL/4)
	}
}

// delay makes requests of clients late, or run twice. Late are those of one client to some or all nodes; sometimes it is killed
// meanwhile, and a new process is at work when they arrive. Twice run all requests of some periods that follow each other,
// because it takes many of them until one arrives at a moment that matters.
func (d *drawing) delay(nodes []int, at time.Duration) {
	client := d.rng.IntN(d.Clients)
	if d.rng.IntN(3) > 0 {
		for range 2 + d.rng.IntN(4) {
			length := d.upTo(d.TTL)
			d.add(Step{At: at, For: length, Fault: ArriveTwice, Node: All, Client: []int{client, All}[d.rng.IntN(2)]})
			at += length + d.TTL/4 + d.upTo(d.TTL/8)
		}
		return
	}
	length := d.upTo(d.TTL)
	if d.rng.IntN(2) == 0 {
		nodes = nodes[:d.some(d.Nodes)]
	}
	for _, node := range nodes {
		d.add(Step{At: at, For: length, Fault: ArriveLate, Node: node, Client: client})
	}
	if d.rng.IntN(4) == 0 {
		d.add(Step{At: at + d.upTo(length), For: d.upTo(d.TTL / 4), Fault: Murder, Node: All, Client: client})
	}
}

func (d *drawing) step(node int, at time.Duration) {
	by := max(d.upTo(d.ClockStep).Round(time.Millisecond), time.Millisecond)
	if d.rng.IntN(2) == 0 {
		by = -by
	}
	d.add(Step{At: at, For: d.length(), Fault: Clock, Node: node, Client: All, Amount: by})
}

func (d *drawing) loss() Fault {
	ways := []Fault{Flush, Wipe, Lose}
	if !d.Losses {
		ways = ways[:2]
	}
	return ways[d.rng.IntN(len(ways))]
}

func (d *drawing) death() Fault { return []Fault{Stop, Kill, Wipe}[d.rng.IntN(3)] }

func (d *drawing) cut() Fault {
	if d.Clients == 0 {
		return Part
	}
	return []Fault{Part, Deafen, Mute}[d.rng.IntN(3)]
}

// length returns a duration: shorter than the TTL half of the time, and at most two TTLs.
func (d *drawing) length() time.Duration {
	if d.rng.IntN(2) == 0 {
		return d.upTo(d.TTL / 2)
	}
	return d.TTL + d.upTo(d.TTL)
}

// some returns a number from one to most.
func (d *drawing) some(most int) int { return 1 + d.rng.IntN(max(most, 1)) }

func (d *drawing) upTo(most time.Duration) time.Duration {
	return time.Duration(d.rng.Int64N(int64(most) + 1))
}

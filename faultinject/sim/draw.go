package sim

import (
	"math/rand/v2"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/node"
)

// The settings of every run. All times are small, so that much happens in little time.
const (
	ttl       = time.Second
	maxSkew   = 400 * time.Millisecond
	span      = 6 * time.Second // how long there are faults and tasks
	nodeBound = 300 * time.Millisecond
)

var limits = node.Limits{MaxTTL: ttl, MaxClockSkew: maxSkew}

// settings is the configuration of every client, but for its clock and nodes.
func settings() quorumlock.Config {
	return quorumlock.Config{
		TTL: ttl, MaxTTL: limits.MaxTTL, MaxClockSkew: limits.MaxClockSkew,
		NodeTimeoutMin: 30 * time.Millisecond, NodeTimeoutMax: 100 * time.Millisecond,
		RetryMin: 5 * time.Millisecond, RetryMax: 100 * time.Millisecond,
		AllowEven: true,
	}
}

// Draw makes the case of a seed.
//
// Each case has some kinds of trouble only, and more of those: a run in which everything
// is broken all the time shows nothing.
func Draw(seed uint64) *Case {
	d := drawer{rand.New(rand.NewPCG(seed, 0))}
	c := &Case{
		Seed:    seed,
		Nodes:   make([]Clock, []int{1, 3, 3, 3, 3, 4, 5, 5}[d.IntN(8)]),
		Clients: make([]Clock, 2+d.IntN(3)),
		Opened:  d.IntN(10) > 0,
		Weather: d.weather(),
	}
	d.clocks(c, d.IntN(4) == 0)
	c.Tasks = d.tasks(len(c.Clients))
	c.Faults = d.faults(len(c.Nodes), len(c.Clients))
	return c
}

type drawer struct{ *rand.Rand }

// clocks are wrong within what the protocol puts up with: rates within half of the drift
// allowance, so that two may differ by all of it; the wall clocks of clients ahead of
// nodes by less than MaxClockSkew, and behind by less than MaxTTL.
func (d drawer) clocks(c *Case, exact bool) {
	if exact {
		c.exact()
		return
	}
	for i := range c.Nodes {
		c.Nodes[i] = Clock{Rate: d.rate(), Wall: d.upTo(maxSkew / 4)}
	}
	for i := range c.Clients {
		c.Clients[i] = Clock{Rate: d.rate(), Wall: d.between(-ttl/2, 3*maxSkew/4)}
	}
}

func (d drawer) rate() float64 {
	const most = 0.00495
	return 1 + []float64{-most, 0, most, most * (2*d.Float64() - 1)}[d.IntN(4)]
}

func (d drawer) weather() Weather {
	w := Weather{Least: 100 * time.Microsecond}
	w.Most = w.Least + d.upTo([]time.Duration{time.Millisecond, 10 * time.Millisecond, 60 * time.Millisecond}[d.IntN(3)])
	w.Lose = []float64{0, 0, 0.02, 0.15}[d.IntN(4)]
	w.Double = []float64{0, 0, 0.1}[d.IntN(3)]
	w.Stray = d.upTo(2 * ttl)
	w.Unordered = d.IntN(4) == 0
	return w
}

// tasks are on one name mostly, as it takes two to clash.
func (d drawer) tasks(clients int) []Task {
	tasks := make([]Task, 6+d.IntN(20))
	names := [][]string{{"a"}, {"a"}, {"a"}, {"b"}, {"a", "b"}}
	holds := []time.Duration{time.Millisecond, ttl / 4, 3 * ttl}
	for i := range tasks {
		t := Task{
			At:       d.upTo(span),
			Client:   d.IntN(clients),
			Names:    names[d.IntN(len(names))],
			Fixed:    d.IntN(3) == 0,
			Patience: d.upTo(3 * ttl),
			Hold:     d.upTo(holds[d.IntN(len(holds))]),
			Careless: d.IntN(4) == 0,
			Extend:   d.IntN(8) == 0,
		}
		t.All = len(t.Names) > 1 || d.IntN(12) == 0
		tasks[i] = t
	}
	return tasks
}

var (
	losses  = []faultinject.Fault{faultinject.Stop, faultinject.Kill, faultinject.Wipe, faultinject.Flush}
	onWays  = []faultinject.Fault{faultinject.Part, faultinject.Deafen, faultinject.Mute, faultinject.Slow}
	clients = []faultinject.Fault{faultinject.Freeze, faultinject.Murder}
)

// faults are of a few kinds, each with its own frequency.
func (d drawer) faults(nodes, processes int) faultinject.Plan {
	var plan faultinject.Plan
	add := func(chance int, kinds []faultinject.Fault, most int) {
		if d.IntN(4) >= chance {
			return
		}
		for range d.IntN(most + 1) {
			plan = append(plan, d.step(kinds[d.IntN(len(kinds))], nodes, processes))
		}
	}
	add(3, losses, 8)
	add(2, []faultinject.Fault{faultinject.Pause}, 5)
	add(2, onWays, 8)
	add(2, clients, 5)
	return plan
}

func (d drawer) step(fault faultinject.Fault, nodes, processes int) faultinject.Step {
	lengths := []time.Duration{10 * time.Millisecond, ttl / 2, 2 * ttl}
	s := faultinject.Step{
		At:     d.upTo(span - ttl),
		Fault:  fault,
		Node:   d.IntN(nodes),
		Client: d.IntN(processes),
	}
	s.For = min(d.upTo(lengths[d.IntN(len(lengths))]), span-ttl/2-s.At-d.upTo(time.Millisecond))
	switch fault {
	case faultinject.Flush:
		s.For, s.Client = 0, faultinject.All
	case faultinject.Freeze, faultinject.Murder:
		s.Node = faultinject.All
	case faultinject.Part, faultinject.Deafen, faultinject.Mute, faultinject.Slow:
		s.Amount = d.upTo(150 * time.Millisecond)
		switch d.IntN(4) {
		case 0:
			s.Client = faultinject.All
		case 1:
			s.Node = faultinject.All
		}
	default:
		s.Client = faultinject.All
	}
	if fault != faultinject.Slow {
		s.Amount = 0
	}
	return s
}

// upTo is a random length of time, to the nanosecond: no two things happen at one instant.
func (d drawer) upTo(most time.Duration) time.Duration {
	return time.Duration(d.Int64N(int64(most) + 1))
}

func (d drawer) between(least, most time.Duration) time.Duration {
	return least + d.upTo(most-least)
}

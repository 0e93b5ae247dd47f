package sim

import (
	"math/rand/v2"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/node"
)

// Settings of every run. All times are short, so that much happens in little time.
const (
	ttl       = time.Second
	maxSkew   = 400 * time.Millisecond
	span      = 6 * time.Second // how long there are faults and tasks
	nodeBound = 400 * time.Millisecond
)

var limits = node.Limits{MaxTTL: ttl, MaxClockSkew: maxSkew}

// settings is the configuration of every client, except for its clock and nodes.
func (c *Case) settings() quorumlock.Config {
	return quorumlock.Config{
		Holder: quorumlock.NoHolder,
		TTL:    ttl, MaxTTL: limits.MaxTTL, MaxClockSkew: limits.MaxClockSkew,
		NodeTimeoutMin: c.Timeout - 70*time.Millisecond, NodeTimeoutMax: c.Timeout,
		RetryMin: 5 * time.Millisecond, RetryMax: 100 * time.Millisecond,
		AllowEven: true,
		Handover:  c.Handover,
	}
}

// Draw makes the case of a seed.
//
// Each case has only some kinds of trouble, and more of those: a run in which everything is broken all the time shows
// nothing.
func Draw(seed uint64) *Case {
	d := drawer{Rand: rand.New(rand.NewPCG(seed, 0))}
	for range d.IntN(4) {
		d.moments = append(d.moments, d.upTo(span-ttl))
	}
	if d.IntN(3) == 0 {
		d.moments = append(d.moments, span-d.upTo(ttl/4))
	}
	c := &Case{
		Seed:    seed,
		Nodes:   make([]Clock, []int{1, 3, 3, 3, 3, 4, 5, 5}[d.IntN(8)]),
		Clients: make([]Clock, 2+d.IntN(3)),
		Opened:  d.IntN(10) > 0,
		Timeout: []time.Duration{ttl / 10, ttl / 3}[d.IntN(2)],
	}
	c.Weather = d.weather(c.Timeout)
	d.clocks(c, d.IntN(4) == 0)
	c.Tasks = d.tasks(len(c.Clients))
	c.Faults = d.faults(len(c.Nodes), len(c.Clients))
	if d.IntN(4) == 0 {
		d.drill(c)
	}
	// From a source of its own, so that cases without a crowd stay the same.
	crowd := drawer{rand.New(rand.NewPCG(seed, 6)), d.moments}
	if crowd.IntN(2) == 0 {
		crowd.crowd(c)
	}
	crowd.waits(c)
	drawer{rand.New(rand.NewPCG(seed, 8)), d.moments}.readers(c)
	return c
}

type drawer struct {
	*rand.Rand
	// moments are times of many events: defects of a protocol show when events coincide.
	moments []time.Duration
}

// clocks have errors within the protocol's assumptions. Rates differ by up to half of the drift allowance, so two may
// differ by all of it. The wall clocks of nodes differ by a part of MaxClockSkew.
func (d drawer) clocks(c *Case, exact bool) {
	if exact {
		c.exact()
		return
	}
	for i := range c.Nodes {
		c.Nodes[i] = Clock{Rate: d.rate(), Wall: d.upTo(maxSkew / 4)}
	}
	for i := range c.Clients {
		c.Clients[i] = Clock{Rate: d.rate(), Wall: d.wall()}
	}
}

// The wall clocks of clients whose tokens every node accepts, at any time of a run.
const (
	mostBehind = ttl * 3 / 4
	mostAhead  = 3 * maxSkew / 4
)

// wall returns the offset of a client's clock. Mostly, nodes accept its tokens, or just about. Sometimes the offset
// is so large that the client gets errors, without harm to others.
func (d drawer) wall() time.Duration {
	switch d.IntN(8) {
	case 0:
		return mostAhead - d.upTo(10*time.Millisecond)
	case 1:
		return -d.between(mostBehind, ttl)
	case 2:
		return []time.Duration{-time.Hour, -3 * ttl, 3 * ttl, time.Hour}[d.IntN(4)] + d.upTo(ttl)
	default:
		return d.between(-mostBehind, mostAhead)
	}
}

func (d drawer) rate() float64 {
	const most = 0.00495
	return 1 + []float64{-most, 0, most, most * (2*d.Float64() - 1)}[d.IntN(4)]
}

func (d drawer) weather(timeout time.Duration) Weather {
	w := Weather{Least: 100 * time.Microsecond}
	w.Most = w.Least + d.upTo([]time.Duration{time.Millisecond, 10 * time.Millisecond, min(timeout/2, ttl/8)}[d.IntN(3)])
	w.Lose = []float64{0, 0, 0.02, 0.15}[d.IntN(4)]
	w.Double = []float64{0, 0, 0, 0.1, 0.5}[d.IntN(5)]
	w.Stray = d.upTo(2 * ttl)
	w.Unordered = d.IntN(4) == 0
	w.Forget = []float64{0, 0, 0, 0.02, 0.1}[d.IntN(5)]
	return w
}

// wanted has mostly one name, so that tasks conflict.
var wanted = [][]string{{"a"}, {"a"}, {"a"}, {"b"}, {"a", "b"}}

// tasks are single attempts to acquire a lock.
func (d drawer) tasks(clients int) []Task {
	tasks := make([]Task, 6+d.IntN(20))
	holds := []time.Duration{time.Millisecond, ttl / 4, 3 * ttl}
	for i := range tasks {
		t := Task{
			At:       d.when(span),
			Client:   d.IntN(clients),
			Names:    wanted[d.IntN(len(wanted))],
			Fixed:    d.IntN(3) == 0,
			Patience: d.upTo(3 * ttl),
			Hold:     d.upTo(holds[d.IntN(len(holds))]),
			Careless: d.IntN(4) == 0,
			Extend:   d.IntN(8) == 0,
			TTL:      []time.Duration{0, 0, 0, ttl * 7 / 10}[d.IntN(4)],
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
	if d.IntN(4) == 0 {
		for range 1 + d.IntN(3) {
			plan = append(plan, d.split(nodes, processes)...)
		}
	}
	if d.IntN(8) == 0 {
		plan = append(plan, d.storm(nodes, processes)...)
	}
	return plan
}

// split cuts a client off from some of the nodes between two approximate instants. The others continue without it.
func (d drawer) split(nodes, processes int) faultinject.Plan {
	fault, client := onWays[d.IntN(len(onWays)-1)], d.IntN(processes)
	at, length := d.when(span-ttl), d.between(ttl/4, 2*ttl)
	var plan faultinject.Plan
	for _, i := range d.Perm(nodes)[:1+d.IntN(max(nodes-1, 1))] {
		s := faultinject.Step{At: at + d.upTo(ttl/4), Fault: fault, Node: i, Client: client}
		s.For = min(length+d.upTo(ttl/4), d.rest(s.At))
		plan = append(plan, s)
	}
	return plan
}

// storm makes nodes lose their memory one after the other.
func (d drawer) storm(nodes, processes int) faultinject.Plan {
	at, gap := d.when(span-2*ttl), d.upTo(ttl/2)
	var plan faultinject.Plan
	for k, i := range d.Perm(nodes) {
		s := d.step(losses[d.IntN(len(losses))], nodes, processes)
		s.At, s.Node = min(at+time.Duration(k)*gap+d.upTo(time.Millisecond), span-ttl), i
		s.For = min(s.For, d.rest(s.At))
		plan = append(plan, s)
	}
	return plan
}

// rest is the longest duration of a fault that begins then.
func (drawer) rest(at time.Duration) time.Duration { return span - at - time.Duration(at%1009) }

func (d drawer) step(fault faultinject.Fault, nodes, processes int) faultinject.Step {
	lengths := []time.Duration{10 * time.Millisecond, ttl / 2, ttl, 2 * ttl}
	s := faultinject.Step{
		At:     d.when(span - ttl),
		Fault:  fault,
		Node:   d.IntN(nodes),
		Client: d.IntN(processes),
	}
	s.For = min(d.upTo(lengths[d.IntN(len(lengths))]), d.rest(s.At))
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

// upTo returns a random duration, to the nanosecond, so that no two events coincide exactly.
func (d drawer) upTo(most time.Duration) time.Duration {
	return time.Duration(d.Int64N(int64(most) + 1))
}

// when is an instant before most: at random, or soon after one of the moments.
func (d drawer) when(most time.Duration) time.Duration {
	at, soon := d.upTo(most), d.upTo([]time.Duration{5 * time.Millisecond, 100 * time.Millisecond}[d.IntN(2)])
	if k := d.IntN(2*len(d.moments) + 1); k < len(d.moments) {
		return min(d.moments[k]+soon, at/1000+most-most/1000)
	}
	return at
}

func (d drawer) between(least, most time.Duration) time.Duration {
	return least + d.upTo(most-least)
}

package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/workload"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Settings of every run. All times are short, so that much happens in little time.
const (
	ttl       = time.Second
	span      = 6 * time.Second // how long there are faults and tasks
	nodeBound = 400 * time.Millisecond
)

// limits returns the limits of all clients, if these have no others.
func (c *Case) limits() wire.Limits {
	if c.Long {
		return wire.Limits{MaxTTL: 2 * ttl, MaxClockSkew: ttl}
	}
	return wire.Limits{MaxTTL: ttl, MaxClockSkew: 400 * time.Millisecond}
}

// ttlOf returns the TTL of a client's locks, if they have no other.
func (c *Case) ttlOf(client int) time.Duration { return c.settingsOf(c.Settings[client]).TTL }

// settingsOf is the configuration of a client, except for its clock and nodes. A short TTL needs short timeouts.
func (c *Case) settingsOf(s Settings) quorumlock.Config {
	if s.TTL < 3*c.Timeout {
		s.TTL = 0
	}
	own := cmp.Or(s.Limits, c.limits())
	return quorumlock.Config{
		Holder: cmp.Or(s.Holder, "-"),
		TTL:    cmp.Or(s.TTL, s.Limits.MaxTTL, ttl), MaxHold: s.MaxHold,
		MaxTTL: own.MaxTTL, MaxClockSkew: own.MaxClockSkew, Recovery: own.Longer,
		NodeTimeoutMin: c.Timeout - 70*time.Millisecond, NodeTimeoutMax: c.Timeout,
		RetryMin: 5 * time.Millisecond, RetryMax: 100 * time.Millisecond,
		AllowEven: true,
		Handover:  c.Handover,
	}
}

// drawLocks makes the case of a seed.
//
// Each case has only some kinds of trouble, and more of those: a run in which everything is broken all the time shows
// nothing.
func drawLocks(seed uint64) *Case {
	d := drawer{Drawer: workload.NewDrawer(seed, 0)}
	for range d.IntN(4) {
		d.moments = append(d.moments, d.UpTo(span-ttl))
	}
	if d.IntN(3) == 0 {
		d.moments = append(d.moments, span-d.UpTo(ttl/4))
	}
	c := &Case{
		Seed:    seed,
		Nodes:   make([]Clock, []int{1, 3, 3, 3, 3, 4, 5, 5}[d.IntN(8)]),
		Clients: make([]Clock, 2+d.IntN(3)),
		Opened:  d.IntN(10) > 0,
		Long:    seed%5 < 2,
		Timeout: []time.Duration{ttl / 10, ttl / 3}[d.IntN(2)],
	}
	c.Weather = d.weather(c.Timeout)
	d.clocks(c, d.IntN(4) == 0)
	c.Tasks = d.tasks(len(c.Clients))
	c.Faults = d.faults(len(c.Nodes), len(c.Clients))
	if d.IntN(4) == 0 {
		d.directedCase(c)
	}
	// From a source of its own, so that cases without a crowd stay the same.
	crowd := drawer{workload.NewDrawer(seed, 6), d.moments}
	if crowd.IntN(2) == 0 {
		crowd.crowd(c)
	}
	crowd.waits(c)
	drawer{workload.NewDrawer(seed, 8), d.moments}.readers(c)
	switch own := (drawer{workload.NewDrawer(seed, 10), d.moments}); seed % 16 {
	case 5:
		own.formerHolderCase(c)
	case 11:
		if len(c.Nodes) == 3 {
			own.movedAddressCase(c)
		}
	case 7:
		if len(c.Nodes) == 5 {
			own.shortListCase(c)
		}
	case 3:
		own.changeCase(c)
	case 9:
		own.limitsCase(c)
	case 13:
		own.demand(c)
	case 15:
		own.outageCase(c)
	}
	drawer{workload.NewDrawer(seed, 16), d.moments}.replicas(c)
	c.neighbours()
	c.lateReleases()
	c.extendedLeases()
	drawer{workload.NewDrawer(seed, 14), d.moments}.options(c)
	return c
}

type drawer struct {
	workload.Drawer
	// moments are times of many events: defects of a protocol show when events coincide.
	moments []time.Duration
}

// clocks have errors within the protocol's assumptions. Rates differ by up to half of the drift allowance, so two may
// differ by all of it. The wall clocks of nodes differ by a part of MaxClockSkew.
func (d drawer) clocks(c *Case, exact bool) {
	if exact {
		c.Exact()
		return
	}
	for i := range c.Nodes {
		c.Nodes[i] = Clock{Rate: d.rate(), Wall: d.UpTo(c.limits().MaxClockSkew / 4)}
	}
	for i := range c.Clients {
		c.Clients[i] = Clock{Rate: d.rate(), Wall: d.wall(c)}
	}
}

// mostBehind and mostAhead bound the wall clocks of clients whose tokens every node accepts, at any time of a run.
func (c *Case) mostBehind() time.Duration { return c.limits().MaxTTL * 3 / 4 }
func (c *Case) mostAhead() time.Duration  { return c.limits().MaxClockSkew * 3 / 4 }

// wall returns the offset of a client's clock. Mostly, nodes accept its tokens, or just about. Sometimes the offset
// is so large that the client gets errors, without harm to others.
func (d drawer) wall(c *Case) time.Duration {
	switch d.IntN(8) {
	case 0:
		return c.mostAhead() - d.UpTo(10*time.Millisecond)
	case 1:
		return -d.Between(c.mostBehind(), c.limits().MaxTTL)
	case 2:
		return []time.Duration{-time.Hour, -3 * c.limits().MaxTTL, 3 * c.limits().MaxTTL, time.Hour}[d.IntN(4)] + d.UpTo(ttl)
	default:
		return d.Between(-c.mostBehind(), c.mostAhead())
	}
}

func (d drawer) rate() float64 {
	const most = 0.00495
	return 1 + []float64{-most, 0, most, most * (2*d.Float64() - 1)}[d.IntN(4)]
}

func (d drawer) weather(timeout time.Duration) Weather {
	w := Weather{Least: 100 * time.Microsecond}
	// Two round trips are in time. Few operations need a third.
	w.Most = w.Least + d.UpTo([]time.Duration{time.Millisecond, 10 * time.Millisecond, min(timeout/4, ttl/8)}[d.IntN(3)])
	w.Lose = []float64{0, 0, 0.02, 0.15}[d.IntN(4)]
	w.Double = []float64{0, 0, 0, 0.1, 0.5}[d.IntN(5)]
	w.Stray = d.UpTo(2 * ttl)
	w.Unordered = d.IntN(4) == 0
	w.Forget = []float64{0, 0, 0, 0.02, 0.1}[d.IntN(5)]
	w.Late = []float64{0, 0, 0, 0, 0.02, 0.1}[d.IntN(6)]
	w.Unordered = w.Unordered || w.Late > 0
	return w
}

// neighbour is a name that shares the place of its fence with "a" on each node. In one of three cases it replaces "b".
const neighbour = "a229734"

// neighbours replaces a name. It draws nothing, so that all else in a case stays the same.
func (c *Case) neighbours() {
	if c.Seed%3 != 0 {
		return
	}
	for i := range c.Tasks {
		t := &c.Tasks[i]
		t.Names = slices.Clone(t.Names)
		for j, name := range t.Names {
			if name == "b" {
				t.Names[j] = neighbour
			}
		}
	}
}

// lateReleases makes holders release leases that do not renew themselves in their last moments, in one of four cases.
// Such a release may reach a node after the lock has expired there. It draws nothing either.
func (c *Case) lateReleases() {
	if c.Seed%4 != 1 {
		return
	}
	for i := range c.Tasks {
		t := &c.Tasks[i]
		t.Late = t.Fixed && !t.Careless
	}
}

// extendedLeases makes holders of Fixed leases acquire for a short time and extend that by hand, in one of four cases
// with short timeouts. So the operations of one owner have different TTLs, and some arrive late. It draws nothing either.
func (c *Case) extendedLeases() {
	if c.Seed%4 != 2 || c.Timeout > ttl/10 {
		return
	}
	c.Weather.Unordered, c.Weather.Double = true, max(c.Weather.Double, 0.3)
	again := c.Seed%8 == 2
	if again { // each request arrives twice, often while the longer lease lasts
		c.Weather.Double, c.Weather.Stray = 1, ttl
	}
	for i := range c.Tasks {
		t := &c.Tasks[i]
		if t.Fixed = t.Fixed || i%2 == 0; t.Fixed {
			t.TTL, t.Lengthen, t.Extend, t.Hold = 3*c.Timeout+ttl/50, c.limits().MaxTTL, true, 2*t.Hold
			if again {
				t.Hold = max(t.Hold, ttl)
			}
		}
	}
}

// options draws what clients set differently, and in half of the cases the options of tasks: in the others, waiters are
// woken when a lease is over.
func (d drawer) options(c *Case) {
	c.Settings = make([]Settings, len(c.Clients))
	c.moved()
	for i := range c.Short {
		c.Settings[rival].List = append(c.Settings[rival].List, i)
	}
	if c.moves() || c.Demand || c.Short > 0 || c.Limits != nil {
		return
	}
	for i := range c.Settings {
		s := &c.Settings[i]
		if c.Timeout <= ttl/10 && d.One(2) {
			s.TTL = d.Between(4*c.Timeout, c.limits().MaxTTL).Truncate(time.Millisecond)
		}
		if d.One(6) {
			s.MaxHold = d.Between(ttl, 3*ttl)
		}
		if d.One(4) && !c.orderly() {
			c.spin(i)
		}
		s.Holder = workload.Pick(d.Drawer, "", "host")
	}
	if d.One(2) {
		return
	}
	for i := range c.Tasks {
		t := &c.Tasks[i]
		lengthen := t.Lengthen
		d.Options(&t.Use, ttl)
		t.Lengthen = cmp.Or(lengthen, t.Lengthen)
		if t.Fixed {
			t.MinHold = min(t.MinHold, c.ttlOf(t.Client)*9/10)
		}
		if t.Nested {
			t.Ending = workload.Release
			continue
		}
		d.forms(c, t)
	}
}

// forms draws the form in which a task holds its lock, or a question that it asks instead.
func (d drawer) forms(c *Case, t *Task) {
	if d.One(12) {
		t.Asks = workload.InspectLock
		switch c.Seed % 12 {
		case 1, 4, 7:
			t.Asks = workload.ListLocks
		case 2:
			t.Asks = workload.Connect
		case 5:
			t.Asks = workload.AskReady
		case 8:
			t.Asks = workload.AskLeader
		case 10:
			t.Asks = workload.WatchLeader
		}
		return
	}
	t.Form = workload.Pick(d.Drawer, append(slices.Repeat([]workload.Form{workload.AsLease}, 8),
		workload.InDo, workload.InJoin, workload.InJoinDo, workload.AsLeader, workload.InOnce, workload.AsOnce)...)
	if t.Form == workload.AsLease || t.Form == workload.InDo {
		return
	}
	t.Careless, t.Downgrade, t.Fixed = false, false, false
	if t.Form != workload.AsLeader && t.Form != workload.InOnce && t.Form != workload.AsOnce && len(t.Names) > 1 {
		t.Form = workload.AsLease
	}
	if t.Form == workload.InJoin || t.Form == workload.InJoinDo {
		other := workload.Use{Names: []string{"b"}, Reads: d.One(2), MaxOutage: t.MaxOutage}
		if d.One(2) {
			other.MaxOutage = 2 * t.MaxOutage
		}
		if t.Names[0] != "a" {
			other.Names[0] = "a"
		} else if c.Seed%3 == 0 {
			other.Names[0] = neighbour
		}
		t.Other = &other
	}
}

// wanted has mostly one name, so that tasks conflict.
var wanted = [][]string{{"a"}, {"a"}, {"a"}, {"b"}, {"a", "b"}}

// habits are the habits of single attempts to acquire a lock.
var habits = workload.Habits{
	Names: wanted, Fixed: 3, Patience: 3 * ttl, Holds: []time.Duration{time.Millisecond, ttl / 4, 3 * ttl},
	Careless: 4, Short: []time.Duration{0, 0, 0, ttl * 7 / 10},
}

// tasks are single attempts to acquire a lock.
func (d drawer) tasks(clients int) []Task {
	tasks := make([]Task, 6+d.IntN(20))
	for i := range tasks {
		tasks[i] = Task{At: d.when(span), Client: d.IntN(clients), Use: d.Lock(habits)}
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
		plan = append(plan, d.memoryLosses(nodes, processes)...)
	}
	return plan
}

// split cuts a client off from some of the nodes between two approximate instants. The others continue without it.
func (d drawer) split(nodes, processes int) faultinject.Plan {
	fault, client := onWays[d.IntN(len(onWays)-1)], d.IntN(processes)
	at, length := d.when(span-ttl), d.Between(ttl/4, 2*ttl)
	var plan faultinject.Plan
	for _, i := range d.Perm(nodes)[:1+d.IntN(max(nodes-1, 1))] {
		s := faultinject.Step{At: at + d.UpTo(ttl/4), Fault: fault, Node: i, Client: client}
		s.For = min(length+d.UpTo(ttl/4), d.rest(s.At))
		plan = append(plan, s)
	}
	return plan
}

func (d drawer) memoryLosses(nodes, processes int) faultinject.Plan {
	at, gap := d.when(span-2*ttl), d.UpTo(ttl/2)
	var plan faultinject.Plan
	for k, i := range d.Perm(nodes) {
		s := d.step(losses[d.IntN(len(losses))], nodes, processes)
		s.At, s.Node = min(at+time.Duration(k)*gap+d.UpTo(time.Millisecond), span-ttl), i
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
	s.For = min(d.UpTo(lengths[d.IntN(len(lengths))]), d.rest(s.At))
	switch fault {
	case faultinject.Flush:
		s.For, s.Client = 0, faultinject.All
	case faultinject.Freeze, faultinject.Murder:
		s.Node = faultinject.All
	case faultinject.Part, faultinject.Deafen, faultinject.Mute, faultinject.Slow:
		s.Amount = d.UpTo(150 * time.Millisecond)
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

// when is an instant before most: at random, or soon after one of the moments.
func (d drawer) when(most time.Duration) time.Duration {
	at, soon := d.UpTo(most), d.UpTo([]time.Duration{5 * time.Millisecond, 100 * time.Millisecond}[d.IntN(2)])
	if k := d.IntN(2*len(d.moments) + 1); k < len(d.moments) {
		return min(d.moments[k]+soon, at/1000+most-most/1000)
	}
	return at
}

// replicas gives some nodes their first replica, in a part of the cases in which other faults end connections too: only then a
// client learns of the other identity, long after the node did.
func (d drawer) replicas(c *Case) {
	if c.Seed%2 != 0 || len(c.Faults) == 0 || d.One(2) {
		return
	}
	for range 1 + d.IntN(2) {
		c.Faults = append(c.Faults, faultinject.Step{At: d.when(span - ttl), Fault: faultinject.Replicate, Node: d.IntN(len(c.Nodes)), Client: faultinject.All})
	}
}

// crowd makes several goroutines of some clients acquire the same locks, at about the same time and repeatedly, each
// for a moment. This tests waiting. In some cases nothing else goes wrong, and then waiters must be woken at once.
func (d drawer) crowd(c *Case) {
	switch d.IntN(8) {
	case 0:
		d.raceReleases(c)
		return
	case 1, 2:
		d.quiet(c)
	}
	locks := wanted[:1]
	if d.IntN(2) == 0 {
		locks = wanted
	} else if c.undisturbed() {
		c.Tasks = nil // no other task may delay the waiters with a second name
	}
	nested, careless := d.IntN(2) == 0, d.IntN(2) == 0
	longest := []time.Duration{time.Millisecond, 30 * time.Millisecond, ttl / 4}[d.IntN(3)]
	came := d.UpTo(span - 2*ttl)
	for range 1 + d.IntN(5) {
		client, at := d.IntN(len(c.Clients)), came+d.UpTo(ttl/4)
		for range 1 + d.IntN(5) {
			t := Task{At: at + d.UpTo(workload.Pick(d.Drawer, time.Millisecond, ttl/2)), Client: client}
			t.Names = workload.Pick(d.Drawer, locks...)
			t.Patience = d.UpTo(workload.Pick(d.Drawer, 30*time.Millisecond, ttl/2, 3*ttl))
			t.Hold = d.UpTo(longest)
			t.Endless = d.One(2)
			t.Try = d.One(8)
			t.Again = d.IntN(5)
			t.Nested = nested && d.One(3)
			t.Swapped = d.One(2)
			t.Careless = careless && d.One(6)
			t.Fixed = d.One(6)
			t.All = len(t.Names) > 1 || d.IntN(12) == 0
			c.Tasks = append(c.Tasks, t)
		}
	}
}

// demand makes many goroutines of each client want one lock at about the same time, most of them for no longer than a round
// trip or two. Some attempts are given up before they are sent, some while they are under way, some after nodes have granted
// them. A few callers are patient.
func (d drawer) demand(c *Case) {
	d.quiet(c)
	c.Tasks, c.Demand = nil, true
	c.Handover = quorumlock.Handover{Off: d.One(2)}
	for at := ttl / 10; at < span-2*ttl; at += ttl {
		for range 20 + d.IntN(20) {
			t := Task{At: at + d.UpTo(2*c.Weather.Most), Client: d.IntN(len(c.Clients))}
			t.Use = workload.Use{Names: wanted[0], Patience: d.UpTo(3 * c.Weather.Most), Hold: d.UpTo(time.Millisecond), Try: d.One(8)}
			if d.One(8) {
				t.Patience, t.Endless, t.Try = 3*ttl, d.One(2), false
			}
			c.Tasks = append(c.Tasks, t)
		}
	}
}

// raceReleases make one client release the lock when the request of another arrives, so that one node processes them in
// either order.
func (d drawer) raceReleases(c *Case) {
	d.quiet(c)
	c.Tasks = nil
	all := d.IntN(4) == 0
	for at := ttl / 10; at < span-ttl; at += ttl * 6 / 10 {
		held := d.Between(ttl/20, ttl/4)
		asks := at + held + d.Between(-2*c.Weather.Most, 2*c.Weather.Most)
		c.Tasks = append(c.Tasks,
			Task{At: at, Client: holder, Endless: true, Use: workload.Use{Names: wanted[0], All: all, Hold: held}},
			Task{At: asks, Client: rival, Endless: true, Use: workload.Use{Names: wanted[0], All: all, Hold: d.UpTo(time.Millisecond)}})
	}
}

func (d drawer) quiet(c *Case) {
	c.Opened, c.Faults = true, nil
	c.Weather = Weather{Least: c.Weather.Least, Most: min(c.Weather.Most, mostPrompt*2/3)}
	for i := range c.Clients {
		c.Clients[i].Wall = max(min(c.Clients[i].Wall, c.limits().MaxClockSkew/2), -c.limits().MaxTTL/2)
	}
}

// waits draws how all tasks wait: mostly in one way, or each in its own.
func (d drawer) waits(c *Case) {
	all, mixed := d.One(4), d.One(4)
	c.Handover = quorumlock.Handover{
		Off:      d.IntN(4) == 0,
		MaxCount: []int{0, 0, 1, 3}[d.IntN(4)],
		MaxTime:  []time.Duration{0, 0, 10 * time.Millisecond, ttl / 2, 5 * ttl}[d.IntN(5)],
	}
	inTurn := c.undisturbed() && !c.overlapping() && d.IntN(2) == 0
	if inTurn {
		all, mixed, c.Handover.Off = false, false, true
	}
	for i := range c.Tasks {
		t := &c.Tasks[i]
		t.Try = t.Try && !inTurn
		t.Spin, t.NoHandover = all, d.IntN(8) == 0
		if mixed {
			t.Spin = d.One(4)
		}
	}
}

func (c *Case) spin(client int) {
	for i := range c.Tasks {
		c.Tasks[i].Spin = c.Tasks[i].Spin || c.Tasks[i].Client == client
	}
}

// readers turns some tasks of a case into readers, and some writers into downgraders.
func (d drawer) readers(c *Case) {
	if !d.One(4) {
		return
	}
	most := 1 + d.IntN(3)
	for i := range c.Tasks {
		if t := &c.Tasks[i]; !t.All && len(t.Names) == 1 {
			d.Share(&t.Use, most)
		}
	}
}

// forgets reports whether nodes may lose their memory. Then they may also forget the number of permits, which is then the
// one that clients are configured with.
func (c *Case) forgets() bool {
	return c.Weather.Forget > 0 || slices.ContainsFunc(c.Faults, func(s faultinject.Step) bool { return slices.Contains(losses, s.Fault) })
}

// drawPermits draws a case in which most tasks that want one lock acquire permits of a semaphore instead. A holder of
// permits holds slots, each of which has one holder, and there are no more slots than permits.
func drawPermits(seed uint64) *Case {
	c := drawLocks(seed)
	d := workload.NewDrawer(seed, 7)
	c.Kind, c.Permits = OfPermits, 1+d.IntN(4)
	if c.Short > 0 {
		c.listAll()
	}
	for i := range c.Tasks {
		t := &c.Tasks[i]
		if t.All || d.IntN(8) == 0 {
			continue
		}
		d.Permits(&t.Use, c.Permits)
		t.Names, t.Nested = wanted[0], false
		if t.Asks != "" {
			t.Asks = workload.Pick(d, workload.InspectPermits, workload.InspectPermits, workload.InspectPermits, workload.Resize)
			if t.Asks == workload.Resize && (c.forgets() || len(c.Moves) > 0) { // the next list but one does not know it
				t.Asks = workload.InspectPermits
			}
		}
		if t.Endless {
			t.Endless, t.Patience = false, 3*ttl
		}
	}
	return c
}

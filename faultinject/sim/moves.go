package sim

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/workload"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// Move is the end of a client's process, whose next one uses another of the [Case.Lists] or of the [Case.Limits], by its index.
type Move struct {
	At           time.Duration
	Client, Step int
}

// oldListsCount is how long nodes count a list that no program uses any more, by any clock.
func (c *Case) oldListsCount() time.Duration { return 3 * c.limits().Recovery() * 102 / 100 }

// changeCase: the nodes change by one, and by one more after the documented wait. At each step the programs move one after
// the other.
func (d drawer) changeCase(c *Case) {
	c.Long = false // the wait would outlast the run
	n := 1 + d.IntN(3)
	lists := func(order []int) [][]int { return [][]int{order[:n], order[:n+1], order[:n+2]} } // nodes are added
	size := n + 2
	switch d.IntN(3) {
	case 0:
		lists = func(order []int) [][]int { return [][]int{order, order[:n+1], order[:n]} } // removed
	case 1:
		size = n + 1
		lists = func(order []int) [][]int { return [][]int{order[:n], order, order[1:]} } // exchanged
	}
	c.Opened, c.Nodes, c.Clients = true, make([]Clock, size), make([]Clock, 3)
	c.Lists = lists(d.Perm(size))
	d.clocks(c, d.IntN(4) == 0)
	c.Tasks = append(d.tasks(len(c.Clients)), d.tasks(len(c.Clients))...)
	c.Faults = d.faults(size, len(c.Clients))
	for client := range c.Clients { // so that programs have different majorities
		for _, i := range d.Perm(size)[:n/2] {
			c.breaks(faultinject.Part, d.UpTo(ttl/5), d.Between(ttl, 2*ttl), i, client)
		}
	}
	if d.IntN(2) == 0 {
		c.Weather, c.Faults = Weather{Least: c.Weather.Least, Most: c.Weather.Least + d.UpTo(ttl/100)}, nil
	}
	var left time.Duration
	for client := range c.Clients {
		m := Move{d.Between(ttl/5, ttl), client, 1}
		c.Moves, left = append(c.Moves, m), max(left, m.At)
	}
	for client := range c.Clients {
		c.Moves = append(c.Moves, Move{left + c.oldListsCount() + d.UpTo(ttl/2), client, 2})
	}
}

// limitsCase: programs change, one after the other, to limits beside which the recovery of the former ones suffices, upwards or
// downwards. Holders keep locks as long as they may without a renewal, and all nodes forget these. In some cases the limits do not
// fit instead: a node forgets the lock of one program, and another asks for it.
func (d drawer) limitsCase(c *Case) {
	limits := c.limits()
	longest := limits.MaxTTL
	small := wire.Limits{MaxTTL: longest / 2, MaxClockSkew: limits.MaxClockSkew / 2}
	prepared := small
	prepared.Longer = limits.Recovery()
	c.Limits = [][]wire.Limits{{small, prepared}, {prepared, limits}, {limits, prepared}, {prepared, small}, {small, limits}, {small, limits}}[d.IntN(6)]
	c.Opened, c.Timeout, c.Nodes, c.Clients, c.Short = true, ttl/10, make([]Clock, 3), make([]Clock, 3), 0
	c.Exact()
	c.Weather = Weather{Least: c.Weather.Least, Most: c.Weather.Least + d.UpTo(ttl/200)}
	c.Tasks, c.Faults = nil, nil
	wants := func(client int, at, hold time.Duration) {
		c.wants(client, at, hold)
		c.Tasks[len(c.Tasks)-1].Fixed = true
	}
	if c.Limits[0] == small && c.Limits[1] == limits {
		c.Clients = c.Clients[:2]
		began := d.Between(ttl/5, ttl)
		c.Tasks = append(c.Tasks, Task{At: began + ttl/10, Client: holder, Use: workload.Use{Names: []string{"b"}, Patience: ttl}}) // it tells the list
		asked := began + d.Between(ttl/2, ttl)
		c.Moves = []Move{{began, holder, 1}, {asked + longest + ttl, rival, 1}}
		wants(holder, asked, 2*longest)
		c.breaks(faultinject.Part, asked-ttl/10, asked+longest+ttl, 2, holder)
		d.loses(c, asked+d.Between(ttl/50, ttl/10), 1)
		wants(rival, asked+d.Between(ttl/10, ttl/5), ttl/4)
		return
	}
	for i := range c.Clients { // tokens of one client are ahead, as far as the smaller limit allows
		c.Clients[i].Wall = []time.Duration{0, limits.MaxClockSkew*3/8 - ttl/100, -d.UpTo(ttl / 3)}[i]
		c.Moves = append(c.Moves, Move{d.Between(ttl/2, 4*ttl), i, 1})
	}
	for at := d.UpTo(ttl / 2); at < 5*ttl; at += d.Between(longest*3/2, 2*longest) {
		order := d.Perm(len(c.Clients))
		wants(order[0], at, 2*longest)
		lost := at + d.Between(ttl/50, ttl/10)
		for i := range c.Nodes {
			d.loses(c, lost+d.UpTo(ttl/100), i)
		}
		wants(order[1], lost+d.UpTo(ttl/10), ttl/10)
	}
}

// listOf returns the servers that a client lists, by the moves so far; nil for all.
func (w *world) listOf(client int) []int {
	list := w.c.Settings[client].List
	for _, m := range w.c.Moves {
		if m.Client == client && m.At <= w.now() && w.c.Lists != nil {
			list = w.c.Lists[m.Step]
		}
	}
	return list
}

// limitsOf returns the limits of a client, by the moves so far.
func (w *world) limitsOf(client int) wire.Limits {
	limits := w.c.Settings[client].Limits
	for _, m := range w.c.Moves {
		if m.Client == client && m.At <= w.now() && w.c.Limits != nil {
			limits = w.c.Limits[m.Step]
		}
	}
	return limits
}

// lastSettings are those of all clients in the end.
func (w *world) lastSettings() (s Settings) {
	if n := len(w.c.Lists); n > 0 {
		s.List = w.c.Lists[n-1]
	}
	if n := len(w.c.Limits); n > 0 {
		s.Limits = w.c.Limits[n-1]
	}
	return s
}

// move replaces a client's process. One that is dead already begins with the next list in any case.
func (w *world) move(m Move) {
	w.apart.Sleep(m.At)
	if !w.kill(m.Client) {
		return
	}
	w.start(m.Client)
	w.note("%s starts with %v and %v", w.process(m.Client).label, w.listOf(m.Client), w.limitsOf(m.Client))
}

// notMisled checks that no program is refused because of its list, where no message and no request of an older program is
// late.
func (w *world) notMisled(p *process, names []string, err error) {
	weather := w.c.Weather
	if len(w.c.Moves) > 0 && len(w.c.Faults) == 0 && weather.Lose == 0 && weather.Double == 0 && !weather.Unordered && errors.Is(err, node.ErrLists) {
		w.violated(Losses, "%s is refused %s while the nodes change: %v", p.label, strings.Join(names, " "), err)
	}
}

// moved gives all clients the first list and the first limits of a change.
func (c *Case) moved() {
	for i := range c.Settings {
		if len(c.Lists) > 0 {
			c.Settings[i].List = c.Lists[0]
		}
		if len(c.Limits) > 0 {
			c.Settings[i].Limits = c.Limits[0]
		}
	}
}

// stay takes a change of nodes or limits out of a case.
func (c *Case) stay() {
	c.Lists, c.Limits, c.Moves = nil, nil, nil
	for i := range c.Settings {
		c.Settings[i].List, c.Settings[i].Limits = nil, wire.Limits{}
	}
}

// opens reports whether a server is set up before the run. One that is added may be, if it was in use before.
func (c *Case) opens(server int) bool {
	return c.Opened && (len(c.Lists) == 0 || c.Seed%32 < 16 || slices.Contains(c.Lists[0], server))
}

// need returns how many nodes of the process must grant a lock.
func (p *process) need(all bool) int {
	if all {
		return p.listed
	}
	return quorum.Majority().Need(p.listed)
}

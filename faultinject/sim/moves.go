package sim

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// Move is the end of a client's process, whose next one uses another of the lists of [Case.Lists], by its index.
type Move struct {
	At           time.Duration
	Client, List int
}

// oldListsCount is how long nodes count a list that no program uses any more, by any clock.
var oldListsCount = 3 * limits.Recovery() * 102 / 100

// changeCase: the nodes change by one, and by one more after the documented wait. At each step the programs move one after
// the other.
func (d drawer) changeCase(c *Case) {
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
		c.Moves = append(c.Moves, Move{left + oldListsCount + d.UpTo(ttl/2), client, 2})
	}
}

// listOf returns the servers that a client lists, by the moves so far; nil for all.
func (w *world) listOf(client int) []int {
	list := w.c.Settings[client].List
	for _, m := range w.c.Moves {
		if m.Client == client && m.At <= w.now() {
			list = w.c.Lists[m.List]
		}
	}
	return list
}

// lastList has the servers that all clients list in the end; nil for all.
func (w *world) lastList() []int {
	if len(w.c.Lists) == 0 {
		return nil
	}
	return w.c.Lists[len(w.c.Lists)-1]
}

// move replaces a client's process. One that is dead already begins with the next list in any case.
func (w *world) move(m Move) {
	w.apart.Sleep(m.At)
	if !w.kill(m.Client) {
		return
	}
	w.start(m.Client)
	w.note("%s starts with %v", w.process(m.Client).label, w.c.Lists[m.List])
}

// notMisled checks that no program is refused because of its list, where no message and no request of an older program is
// late.
func (w *world) notMisled(p *process, names []string, err error) {
	weather := w.c.Weather
	if len(w.c.Moves) > 0 && len(w.c.Faults) == 0 && weather.Lose == 0 && weather.Double == 0 && !weather.Unordered && errors.Is(err, node.ErrLists) {
		w.violated(Losses, "%s is refused %s while the nodes change: %v", p.label, strings.Join(names, " "), err)
	}
}

// moved gives all clients the first list of a change of nodes.
func (c *Case) moved() {
	if len(c.Lists) == 0 {
		return
	}
	for i := range c.Settings {
		c.Settings[i].List = c.Lists[0]
	}
}

// stay takes a change of nodes out of a case.
func (c *Case) stay() {
	c.Lists, c.Moves = nil, nil
	for i := range c.Settings {
		c.Settings[i].List = nil
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

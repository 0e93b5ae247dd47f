package sim

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/workload"
	"github.com/quorumlock/quorumlock/quorum"
)

// The clients of a directed case.
const (
	holder = 0
	rival  = 1
)

// directedCase makes the case one of the cases that are known to break a protocol which lacks a rule. They hardly happen by
// chance: they need several events in one order, within a fraction of a TTL. The exact times are still random, and
// most of these cases miss.
func (d drawer) directedCase(c *Case) {
	c.Opened, c.Timeout = true, ttl/3
	c.Clients[holder].Wall, c.Clients[rival].Wall = 0, 0
	c.Weather.Lose, c.Weather.Forget, c.Weather.Late = 0, 0, 0
	c.Tasks, c.Faults = nil, nil
	if d.IntN(4) == 0 {
		d.freezeCase(c)
		return
	}
	c.Weather.Most = min(c.Weather.Most, ttl/100)
	switch {
	case d.IntN(4) == 0:
		d.skewCase(c)
	case len(c.Nodes)%2 == 0:
	case len(c.Nodes) == 1 || d.IntN(3) == 0:
		d.relapseCase(c)
	default:
		d.healCase(c)
	}
}

// healCase: a holder is cut off from two nodes, one renewal sooner from the first than from the second. A rival
// acquires on the first, which forgets that while the rival's request to the second is in flight; and the holder
// reaches the first again. Of five nodes, one more is the rival's.
//
// A renewal is due every third of a TTL, which determines the times.
func (d drawer) healCase(c *Case) {
	nodes := d.Perm(len(c.Nodes))
	first, second := nodes[0], nodes[1]
	began := d.Between(ttl/100, 3*ttl/2)
	lapse := began + ttl*5/3 - d.UpTo(ttl/20) // when the second lets go
	asked := lapse - d.Between(ttl/20, ttl/3)
	lost := asked + d.Between(ttl/50, ttl/5)
	c.wants(holder, began, 3*ttl)
	c.wants(rival, began+ttl/2+d.UpTo(ttl/2), ttl)
	c.breaks(faultinject.Part, began+ttl*4/10+d.UpTo(ttl/6), lost+d.Between(-ttl/50, ttl/20), first, holder)
	c.breaks(faultinject.Part, began+ttl*7/10+d.UpTo(ttl/6), lapse+d.UpTo(ttl), second, holder)
	c.breaks(faultinject.Deafen, asked, lapse+d.UpTo(ttl/10), second, rival)
	if len(nodes) == 5 {
		c.breaks(faultinject.Part, began+ttl*4/10+d.UpTo(ttl/6), lapse+d.UpTo(ttl), nodes[2], holder)
	}
	d.loses(c, lost, first)
}

// relapseCase: a node loses its memory, the holder re-asserts its claim there, and the node loses that too while it
// recovers. Then the holder cannot reach it any more. The rival's other nodes have not been the holder's for long.
func (d drawer) relapseCase(c *Case) {
	nodes := d.Perm(len(c.Nodes))
	began := d.Between(ttl/100, ttl)
	lost := began + d.Between(ttl/4, ttl)
	again := lost + d.Between(ttl*8/10, c.limits().Recovery()-ttl/50)
	c.wants(holder, began, 4*ttl)
	c.wants(rival, began+ttl/2+d.UpTo(ttl/2), ttl)
	d.loses(c, lost, nodes[0])
	c.breaks(faultinject.Kill, again, again+d.UpTo(time.Millisecond), nodes[0], faultinject.All)
	c.breaks(faultinject.Part, again-d.UpTo(ttl/50), again+ttl, nodes[0], holder)
	for _, i := range nodes[quorum.Majority().Need(len(nodes)):] {
		c.breaks(faultinject.Part, began+d.Between(ttl/50, ttl/4), again+ttl, i, holder)
	}
}

// skewCase: a client with a fast clock holds the lock briefly, and all nodes forget that. A client with a slow clock
// acquires the lock when they have recovered.
func (d drawer) skewCase(c *Case) {
	c.Clients[holder].Wall = c.mostAhead() - d.UpTo(c.limits().MaxClockSkew/10)
	c.Clients[rival].Wall = -d.Between(c.mostBehind(), c.limits().MaxTTL*9/10)
	if c.Long && d.One(2) { // nodes refuse one of them, whose token is too far off by less than a second
		client := d.IntN(2)
		c.Clients[client].Wall += []time.Duration{ttl, -ttl}[client] * 3 / 4
	}
	began := d.Between(ttl/100, 2*ttl)
	lost := began + c.Weather.Most*4 + d.UpTo(ttl/50)
	c.wants(holder, began, time.Millisecond)
	c.wants(rival, lost+d.UpTo(ttl/20), ttl)
	for i := range c.Nodes {
		d.loses(c, lost+d.UpTo(ttl/100), i)
	}
}

// freezeCase: the holder freezes while its renewal is in flight. It wakes when its lease is over, but the
// confirmations of nodes are not. Or it freezes during its acquire, and wakes after another client has held the lock.
func (d drawer) freezeCase(c *Case) {
	began := d.Between(ttl/100, 2*ttl)
	if d.IntN(2) == 0 {
		at := began + d.UpTo(2*c.Weather.Most)
		c.wants(holder, began, ttl)
		c.wants(rival, began+d.UpTo(ttl/2), ttl/4)
		c.breaks(faultinject.Freeze, at, at+d.Between(ttl, 2*ttl), faultinject.All, holder)
		return
	}
	at := began + ttl*3/10 + d.UpTo(ttl/10)
	c.wants(holder, began, 2*ttl)
	c.wants(rival, began+d.UpTo(ttl/2), ttl)
	c.breaks(faultinject.Freeze, at, at+d.Between(ttl/2, ttl), faultinject.All, holder)
}

// formerHolderCase: a holder renews, and releases the lock. A rival gets it, and all nodes forget that. Then the
// renewal arrives a second time, and puts the former holder back. The rival must not lose the lock to it.
func (d drawer) formerHolderCase(c *Case) {
	c.Opened, c.Timeout = true, ttl/3
	c.Clients[holder].Wall, c.Clients[rival].Wall = 0, 0
	c.Weather = Weather{Least: c.Weather.Least, Most: c.Weather.Least + d.UpTo(ttl/100), Double: 1, Stray: ttl / 2, Unordered: true}
	c.Tasks, c.Faults = nil, nil
	began := d.Between(ttl/100, ttl)
	released := began + d.Between(ttl*35/100, ttl/2)
	c.wants(holder, began, released-began)
	c.wants(rival, began+d.Between(ttl/50, ttl/5), 3*ttl)
	for i := range c.Nodes {
		lost := released + d.Between(ttl/50, ttl/10)
		c.breaks(faultinject.Flush, lost, lost, i, faultinject.All)
	}
}

// movedAddressCase: the address of a node leads to another server, and often back. All clients have met each of the servers,
// since they ask for another lock. The holder has the lock on the server that then does not answer any more, and the rival
// asks the one that does. Neither server restarts, so only the clients can notice it.
func (d drawer) movedAddressCase(c *Case) {
	c.Opened, c.Timeout, c.Clients = true, ttl/3, c.Clients[:2]
	c.Clients[holder].Wall, c.Clients[rival].Wall = 0, 0
	c.Weather = Weather{Least: c.Weather.Least, Most: c.Weather.Least + d.UpTo(ttl/500)}
	c.Tasks, c.Faults = nil, nil
	nodes := d.Perm(3)
	at, other, third := nodes[0], nodes[1], nodes[2]
	meet := func(from time.Duration) {
		for client := range c.Clients {
			c.Tasks = append(c.Tasks, Task{At: from + d.UpTo(ttl/10), Client: client, Use: workload.Use{Names: []string{"b"}, Patience: 3 * ttl}})
		}
	}
	began := d.Between(ttl/100, ttl/5)
	meet(began)
	moved := began + ttl/5 + d.UpTo(ttl/10)
	asked := moved - d.UpTo(ttl/20)
	switched := moved
	if back := d.One(2); back {
		meet(moved + ttl/50)
		asked = moved + c.limits().Recovery() + d.Between(ttl/4, ttl/2)
		switched = asked + d.Between(ttl/50, ttl/4)
		c.breaks(faultinject.Readdress, moved, switched, at, faultinject.All)
	} else {
		c.breaks(faultinject.Readdress, moved, span-ttl, at, faultinject.All)
	}
	c.breaks(faultinject.Part, asked-ttl/100, switched+ttl, third, holder)
	c.wants(holder, asked, 2*ttl)
	c.breaks(faultinject.Part, switched, switched+ttl, at, holder)
	c.breaks(faultinject.Part, asked-ttl/100, switched+ttl, other, rival)
	c.wants(rival, switched+d.UpTo(ttl/4), ttl)
}

// shortListCase: a rival lists three of the five nodes. The holder is cut off from two of these, a majority of the rival's
// list, after it has told them its own list.
func (d drawer) shortListCase(c *Case) {
	c.Opened, c.Timeout, c.Clients = true, ttl/3, c.Clients[:2]
	c.Clients[holder].Wall, c.Clients[rival].Wall = 0, 0
	c.Weather = Weather{Least: c.Weather.Least, Most: c.Weather.Least + d.UpTo(ttl/500)}
	c.Short = 3
	c.Tasks, c.Faults = nil, nil
	began := d.Between(ttl/100, ttl/5)
	c.Tasks = append(c.Tasks, Task{At: began, Client: holder, Use: workload.Use{Names: []string{"b"}, Patience: 3 * ttl}})
	cut := began + ttl/5 + d.UpTo(ttl/10)
	c.breaks(faultinject.Part, cut, cut+2*ttl, 0, holder)
	c.breaks(faultinject.Part, cut, cut+2*ttl, 1, holder)
	c.wants(holder, cut+ttl/50, 2*ttl)
	c.Tasks = append(c.Tasks, Task{At: cut + ttl/2 + d.UpTo(ttl), Client: rival, Use: workload.Use{Names: []string{"a"}, Patience: ttl, Hold: ttl, Try: true}})
}

// listAll makes all clients list all nodes, for cases in which other operations than those of shortListCase come first, or that keep what does not move.
func (c *Case) listAll() {
	c.Short = 0
	c.stay()
}

// moves reports whether an address leads to another server for a while.
func (c *Case) moves() bool {
	return slices.ContainsFunc(c.Faults, func(s faultinject.Step) bool { return s.Fault == faultinject.Readdress })
}

func (c *Case) wants(client int, at, hold time.Duration) {
	c.Tasks = append(c.Tasks, Task{
		At: at, Client: client, Use: workload.Use{Names: []string{"a"}, Patience: 2*ttl + c.limits().MaxTTL, Hold: hold},
	})
}

func (c *Case) breaks(fault faultinject.Fault, at, end time.Duration, node, client int) {
	c.Faults = append(c.Faults, faultinject.Step{At: at, For: max(end-at, 0), Fault: fault, Node: node, Client: client})
}

// loses makes a node lose its memory, in a random way.
func (d drawer) loses(c *Case, at time.Duration, node int) {
	loss, end := []faultinject.Fault{faultinject.Kill, faultinject.Kill, faultinject.Wipe, faultinject.Flush}[d.IntN(4)], at
	if loss != faultinject.Flush {
		end += d.UpTo(time.Millisecond)
	}
	c.breaks(loss, at, end, node, faultinject.All)
}

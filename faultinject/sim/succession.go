package sim

import (
	"time"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/workload"
)

// succession is how a task leaves its lease to other clients, which resume it.
type succession struct {
	// Ends is how the lease ends for the task.
	Ends ending
	// Forced is when a client releases the owner by force, counted from the grant; 0 if none does.
	Forced     time.Duration
	By         int
	Successors []successor
}

// successor is a client that resumes a lease.
type successor struct {
	Client int
	// After is the time of its first attempt, counted from the grant. Again is how often it tries again after an error.
	After time.Duration
	Again int
	// Wrong is set if it has another token than the lease.
	Wrong bool
	// Hold is how long it keeps the lease, and Ends how it ends it then. Extend is set if it extends the lease meanwhile.
	Hold   time.Duration
	Extend bool
	Ends   ending
}

// ending is how a client ends a lease that others may resume.
type ending int

const (
	detaches ending = iota
	releases
	// dies leaves the lock on the nodes, too.
	dies
	// expires keeps the lease until its time is over.
	expires
)

// DrawResuming draws a case in which clients take over the leases of others: in time or too late, with the right
// token or a wrong one, several at once, after a release by force, and while the first client still has the lease.
func DrawResuming(seed uint64) *Case {
	c := Draw(seed)
	d := drawer{Drawer: workload.NewDrawer(seed, 11)}
	c.Kind = OfResuming
	switch d.IntN(8) {
	case 0:
		d.putBackCase(c)
	case 1:
		d.broughtBackCase(c)
	case 2:
		d.sharedCase(c)
	default:
		for i := range c.Tasks {
			if d.IntN(3) > 0 {
				d.drawSuccession(c, &c.Tasks[i])
			}
		}
	}
	return c
}

// drawSuccession makes a task leave its lease to successors. A task of a directed case has no successors by itself.
func (d drawer) drawSuccession(c *Case, t *Task) {
	t.Fixed, t.TTL, t.Careless = true, workload.Pick(d.Drawer, 0, 0, 0, ttl*7/10), false
	t.Reads, t.Downgrade, t.Nested, t.Late, t.MinHold = false, false, false, false, 0
	t.Hold = d.UpTo(workload.Pick(d.Drawer, time.Millisecond, ttl/4, ttl*9/10))
	if t.Endless { // its lock would block others for a TTL, after the faults too
		t.Endless, t.Patience = false, 3*ttl
	}
	t.Left = &succession{Ends: workload.Pick(d.Drawer, detaches, detaches, detaches, d.ending())}
	if d.One(6) {
		t.Left.Forced, t.Left.By = d.UpTo(2*ttl), d.IntN(len(c.Clients))
	}
	after := t.Hold
	if d.One(6) {
		after = d.UpTo(t.Hold) // it resumes a lease that the first client still has
	}
	for range 1 + d.IntN(3) {
		h := d.successor(c)
		after += d.UpTo(workload.Pick(d.Drawer, 5*time.Millisecond, ttl/10, ttl/4, 3*ttl/2))
		h.After = after
		if d.IntN(3) > 0 {
			after += h.Hold
		}
		t.Left.Successors = append(t.Left.Successors, h)
	}
}

func (d drawer) successor(c *Case) successor {
	return successor{
		Client: d.IntN(len(c.Clients)), Again: d.IntN(3), Wrong: d.One(12),
		Hold: d.UpTo(workload.Pick(d.Drawer, time.Millisecond, ttl/2, 2*ttl)), Extend: d.One(2), Ends: d.ending(),
	}
}

func (d drawer) ending() ending {
	return workload.Pick(d.Drawer, detaches, detaches, detaches, releases, dies, expires)
}

// putBackCase: a holder releases the lock, and a rival has it for a moment. Then the holder's requests arrive a second
// time, and put the holder back. A successor must not resume that. Or the holder is released by force, and its requests
// arrive again.
func (d drawer) putBackCase(c *Case) {
	c.Opened, c.Timeout = true, ttl/3
	c.Clients[holder].Wall, c.Clients[rival].Wall = 0, 0
	c.Weather = Weather{Least: c.Weather.Least, Most: c.Weather.Least + d.UpTo(ttl/100), Double: 1, Stray: ttl / 2, Unordered: true}
	c.Tasks, c.Faults = nil, nil
	began, held := d.Between(ttl/100, ttl), d.Between(ttl/50, ttl/10)
	c.wants(holder, began, held)
	c.Tasks[0].Extend = d.IntN(4) > 0
	left, spread := &succession{Ends: releases}, ttl*6/10
	if d.One(3) {
		left.Ends, left.Forced, left.By = dies, held, rival
		spread = 2 * ttl // beyond the end of the locks
	} else {
		c.wants(rival, began+d.Between(ttl/50, ttl/10), d.UpTo(ttl/20))
	}
	d.leavesTo(c, left, held+d.UpTo(ttl/5), spread)
}

// broughtBackCase: a holder releases the lock, and a rival has it for a moment. Then nodes restart with old data, which
// have the holder's lock. A successor must not resume that.
func (d drawer) broughtBackCase(c *Case) {
	c.Opened, c.Timeout = true, ttl/3
	c.Clients[holder].Wall, c.Clients[rival].Wall = 0, 0
	c.Weather = Weather{Least: c.Weather.Least, Most: min(c.Weather.Most, ttl/100)}
	c.Tasks, c.Faults = nil, nil
	began, held := d.Between(ttl/100, ttl), d.Between(ttl/10, ttl/2)
	c.wants(holder, began, held)
	c.wants(rival, began+d.UpTo(held), d.UpTo(ttl/50))
	lost := began + held + d.Between(4*c.Weather.Most, 4*c.Weather.Most+ttl/10)
	for i := range c.Nodes {
		if !d.One(4) {
			at := lost + d.UpTo(ttl/50)
			c.breaks(faultinject.Kill, at, at+d.UpTo(time.Millisecond), i, faultinject.All)
		}
	}
	d.leavesTo(c, &succession{Ends: releases}, lost-began, ttl*6/10)
}

// sharedCase: a successor resumes a lease and releases it, and the holder goes on and extends it. That must put nothing
// back which another successor could resume.
func (d drawer) sharedCase(c *Case) {
	c.Opened, c.Timeout = true, ttl/3
	c.Clients[holder].Wall, c.Clients[rival].Wall = 0, 0
	c.Weather = Weather{Least: c.Weather.Least, Most: min(c.Weather.Most, ttl/50)}
	c.Tasks, c.Faults = nil, nil
	c.wants(holder, d.Between(ttl/100, ttl), d.Between(ttl, 2*ttl))
	c.Tasks[0].Extend = true
	after := d.Between(ttl/20, ttl/2)
	d.leavesTo(c, &succession{Ends: d.ending()}, after+ttl/10, ttl*6/10)
	first := &c.Tasks[0].Left.Successors[0]
	first.After, first.Hold, first.Ends = after, d.UpTo(ttl/20), releases
}

// leavesTo makes the first task leave its lease to successors. They try from some time on, counted from its grant.
func (d drawer) leavesTo(c *Case, left *succession, after, spread time.Duration) {
	for range 4 {
		h := d.successor(c)
		h.After, h.Wrong, h.Again, h.Hold = after+d.UpTo(spread), false, 2, d.UpTo(ttl/4)
		left.Successors = append(left.Successors, h)
	}
	c.Tasks[0].Fixed, c.Tasks[0].Left = true, left
}

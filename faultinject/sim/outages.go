package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/workload"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// outage says when enough nodes answer a client: the last time at which they were not certain to, and the time since which
// too few can.
type outage struct{ before, since time.Duration }

// lack is a client, and the number of nodes that it needs.
type lack struct{ client, need int }

// noteOutages notes which clients can get answers of enough nodes now.
func (w *world) noteOutages() {
	var grants []bool
	for _, s := range w.servers {
		grants = append(grants, s.grants())
	}
	w.waiters.mu.Lock()
	defer w.waiters.mu.Unlock()
	for client := range w.c.Clients {
		sure, possible, asks := 0, 0, w.waiters.ask(client, w.now()-patienceAfter)
		for i, s := range w.servers {
			clear, open := w.paths[client][i].state()
			if grants[i] && clear && (asks || !w.paths[client][i].broken.Load()) {
				sure++
			}
			if s.runs() && open {
				possible++
			}
		}
		p := w.process(client)
		asleep := p == nil || !p.settled()
		for _, need := range []int{quorum.Majority().Need(len(w.servers)), len(w.servers)} {
			o := w.waiters.outages[lack{client, need}]
			if sure < need || asleep {
				o.before = w.now()
			}
			if possible >= need || asleep {
				o.since = w.now()
			}
			w.waiters.outages[lack{client, need}] = o
		}
	}
}

// ask reports whether a client has waited since an instant. One that wants nothing does not notice that a server is back.
func (ws *waiters) ask(client int, since time.Duration) bool {
	asks := func(one *waiting) bool { return one.task.Client == client && one.began < since }
	return slices.ContainsFunc(ws.list, asks) || slices.ContainsFunc(ws.bounded, asks)
}

func (w *world) outageOf(one *waiting) outage {
	w.waiters.mu.Lock()
	defer w.waiters.mu.Unlock()
	return w.waiters.outages[lack{one.task.Client, one.need}]
}

// bounded records that a task waits for permits, or in another form than for a lease: only what its MaxOutage says is judged.
func (w *world) bounded(p *process, t Task, cancel context.CancelFunc) *waiting {
	one := &waiting{process: p, task: t, need: w.needOf(t), began: w.now(), cancel: cancel}
	w.waiters.mu.Lock()
	defer w.waiters.mu.Unlock()
	w.waiters.bounded = append(w.waiters.bounded, one)
	return one
}

func (w *world) needOf(t Task) int {
	if t.All {
		return len(w.servers)
	}
	return quorum.Majority().Need(len(w.servers))
}

// outageBounds returns after how long an outage a task may give up, and after how long it must; 0 if it never does. One of two
// joined locks gives up for both. The other may be the one that waits.
func (t *Task) outageBounds() (least, most time.Duration) {
	least, most = t.MaxOutage, t.MaxOutage
	if t.Other == nil {
		return least, most
	}
	other := t.Other.MaxOutage
	if least == 0 || other != 0 && other < least {
		least = other
	}
	if other == 0 || most != 0 && other > most {
		most = other
	}
	return least, most
}

// mayEnd reports whether the simulation can judge how a waiter ends: its process lives, and nodes accept its tokens.
func (w *world) mayEnd(one *waiting) bool {
	return w.process(one.task.Client) == one.process && w.c.timely(one.task.Client)
}

// endsOutage checks that a waiter gives up after its MaxOutage. It asks every second at the latest. A lease of its own client,
// which it waits for, ends within MaxTTL. So does the part of a joint lease that it has, and then it asks for that one anew.
func (w *world) endsOutage(one *waiting) {
	since := max(one.began, w.outageOf(one).since)
	_, most := one.task.outageBounds()
	patience := patienceAfter + w.c.limits().MaxTTL
	if one.task.Other != nil {
		patience += w.c.limits().MaxTTL
	}
	if most == 0 || one.over || !w.mayEnd(one) || w.now()-since <= max(most, 0)+patience {
		return
	}
	w.violated(Progress, "%s still waits for %v %s since %v, with a MaxOutage of %v, and too few nodes answer since %v",
		one.process.label, one.task.Names, one.task.Form, one.began, most, since)
	one.over = true
	one.cancel()
}

// endedByOutage checks that a waiter that gives up before its context ends has a MaxOutage, and may have lacked a quorum. On slow
// links the three round trips that an operation may need exceed the timeout.
func (w *world) endedByOutage(one *waiting, err error) {
	w.noteOutages() // this one may have begun since the last look
	if short := (*quorumlock.NoQuorumError)(nil); errors.As(err, &short) && short.Op == "resize" {
		return // Acquire asks once for the number of permits if it knows of fewer than it needs, and does not wait for answers
	}
	c, before, held := w.c, w.outageOf(one).before, errors.Is(err, quorumlock.ErrHeld)
	if !held && !errors.Is(err, quorumlock.ErrNoQuorum) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		!w.mayEnd(one) || !c.Opened || c.Weather.Lose > 0 || c.Weather.Forget > 0 || c.Weather.Late > 0 || c.moves() ||
		c.Limits != nil && errors.Is(err, node.ErrSettings) {
		return
	}
	if slices.ContainsFunc(one.task.Names, func(name string) bool { return w.tampering.touchedSince(name, one.began) }) {
		return // a node may lose the lock between two rounds of one attempt, and too few agree
	}
	least, _ := one.task.outageBounds()
	early := w.now()-one.began < least*98/100
	inTime := 6*c.Weather.Most <= c.Timeout
	if held || early || least == 0 || inTime && (c.undisturbed() || w.now()-before > patienceAfter) {
		w.violated(Progress, "%s gives up %v %s since %v, with a MaxOutage of %v, and enough nodes answer since %v: %v",
			one.process.label, one.task.Names, one.task.Form, one.began, least, before, err)
	}
}

// outageCase: tasks with a MaxOutage wait while a client is cut off from a majority, once for longer and once for less time,
// or while nodes hang.
func (d drawer) outageCase(c *Case) {
	c.Opened, c.Timeout = true, ttl/10
	c.Weather = Weather{Least: c.Weather.Least, Most: c.Weather.Least + d.UpTo(ttl/100)}
	c.Tasks, c.Faults = nil, nil
	for range 4 + d.IntN(4) {
		t := Task{At: d.UpTo(ttl), Client: d.IntN(len(c.Clients)), Use: workload.Use{Names: wanted[0], Patience: span, Hold: d.UpTo(2 * ttl)}}
		t.MaxOutage = d.Between(-ttl/8, ttl)
		if d.One(3) {
			d.Share(&t.Use, 2)
		}
		c.Tasks = append(c.Tasks, t)
	}
	at, client := d.UpTo(ttl), d.IntN(len(c.Clients))
	fault := workload.Pick(d.Drawer, onWays[0], onWays[1], onWays[2], faultinject.Pause)
	for _, length := range []time.Duration{d.UpTo(ttl / 2), d.Between(3*ttl, 5*ttl)} {
		for _, i := range d.Perm(len(c.Nodes))[:len(c.Nodes)/2+1] {
			c.breaks(fault, at+d.UpTo(ttl/10), min(at+length, span-ttl/10), i, client)
		}
		at += length + d.Between(ttl/5, ttl)
	}
}

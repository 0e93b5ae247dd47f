package sim

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/workload"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// mostUnseen is how long a waiter may not notice that too few nodes answer, or that enough do again. It asks every second at
// the latest. A lease of its own client, which it waits for, ends within a TTL.
const mostUnseen = ttl + patienceAfter

// watchOutage notes since when enough nodes can answer a waiter, and since when too few can. It checks that the waiter gives
// up after its MaxOutage.
func (w *world) watchOutage(one *waiting, states map[int]wire.Reply) {
	sure, possible := 0, 0
	for i, s := range w.servers {
		clear, open := w.paths[one.task.Client][i].state()
		if _, grants := states[i]; grants && clear {
			sure++
		}
		if s.runs() && open {
			possible++
		}
	}
	now, awake := w.now(), one.process.settled()
	if sure < one.need || !awake {
		one.outage.before = now
	}
	if possible >= one.need || !awake {
		one.outage.since = now
	}
	most := max(one.task.MaxOutage, 0) + mostUnseen
	if one.task.MaxOutage != 0 && now-one.outage.since > most && !one.over && w.process(one.task.Client) == one.process && w.c.timely(one.task.Client) {
		w.violated(Progress, "%s still waits for %v since %v, with a MaxOutage of %v, and too few nodes answer since %v",
			one.process.label, one.task.Names, one.began, one.task.MaxOutage, one.outage.since)
		one.over = true
		one.cancel()
	}
}

// outage has what the simulation knows of the answers that a waiter can get: the last time at which too few nodes were certain
// to answer, and the time since which too few can.
type outage struct{ before, since time.Duration }

// endedByOutage checks that a waiter that gives up for lack of a quorum has a MaxOutage, and may have lacked one.
func (w *world) endedByOutage(one *waiting, err error) {
	c := w.c
	if !errors.Is(err, quorumlock.ErrNoQuorum) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		w.process(one.task.Client) != one.process || !c.timely(one.task.Client) || c.Weather.Lose > 0 || c.Weather.Forget > 0 || c.Weather.Late > 0 || c.moves() {
		return
	}
	if one.task.MaxOutage == 0 || c.undisturbed() || w.now()-one.outage.before > mostUnseen {
		w.violated(Progress, "%s gives up %v since %v, with a MaxOutage of %v, and enough nodes answer since %v: %v",
			one.process.label, one.task.Names, one.began, one.task.MaxOutage, one.outage.before, err)
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

package sim

import (
	"time"

	"github.com/quorumlock/quorumlock"
)

// crowd makes several goroutines of some clients acquire the same locks, at about the same time and repeatedly, each
// for a moment. This tests waiting. In some cases nothing else goes wrong, and then waiters must be woken at once.
func (d drawer) crowd(c *Case) {
	switch d.IntN(8) {
	case 0:
		d.duels(c)
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
	came := d.upTo(span - 2*ttl)
	for range 1 + d.IntN(5) {
		client, at := d.IntN(len(c.Clients)), came+d.upTo(ttl/4)
		for range 1 + d.IntN(5) {
			t := Task{
				At:       at + d.upTo([]time.Duration{time.Millisecond, ttl / 2}[d.IntN(2)]),
				Client:   client,
				Names:    locks[d.IntN(len(locks))],
				Patience: d.upTo([]time.Duration{30 * time.Millisecond, ttl / 2, 3 * ttl}[d.IntN(3)]),
				Hold:     d.upTo(longest),
				Endless:  d.IntN(2) == 0,
				Try:      d.IntN(8) == 0,
				Again:    d.IntN(5),
				Nested:   nested && d.IntN(3) == 0,
				Swapped:  d.IntN(2) == 0,
				Careless: careless && d.IntN(6) == 0,
				Fixed:    d.IntN(6) == 0,
			}
			t.All = len(t.Names) > 1 || d.IntN(12) == 0
			c.Tasks = append(c.Tasks, t)
		}
	}
}

// duels make one client release the lock when the request of another arrives, so that one node processes them in
// either order.
func (d drawer) duels(c *Case) {
	d.quiet(c)
	c.Tasks = nil
	all := d.IntN(4) == 0
	for at := ttl / 10; at < span-ttl; at += ttl * 6 / 10 {
		held := d.between(ttl/20, ttl/4)
		asks := at + held + d.between(-2*c.Weather.Most, 2*c.Weather.Most)
		c.Tasks = append(c.Tasks,
			Task{At: at, Client: holder, Names: wanted[0], All: all, Endless: true, Hold: held},
			Task{At: asks, Client: rival, Names: wanted[0], All: all, Endless: true, Hold: d.upTo(time.Millisecond)})
	}
}

// quiet removes all faults from a case.
func (d drawer) quiet(c *Case) {
	c.Opened, c.Faults = true, nil
	c.Weather = Weather{Least: c.Weather.Least, Most: min(c.Weather.Most, mostPrompt*2/3)}
	for i := range c.Clients {
		c.Clients[i].Wall = max(min(c.Clients[i].Wall, maxSkew/2), -ttl/2)
	}
}

// waits draws how all tasks wait: mostly in one way, or each in its own.
func (d drawer) waits(c *Case) {
	ways := []quorumlock.Waiting{quorumlock.WaitDefault, quorumlock.WaitQueued, quorumlock.WaitFair, quorumlock.WaitSpin}
	all, mixed := ways[d.IntN(len(ways))], d.IntN(4) == 0
	c.Handover = quorumlock.Handover{
		Off:      d.IntN(4) == 0,
		MaxCount: []int{0, 0, 1, 3}[d.IntN(4)],
		MaxTime:  []time.Duration{0, 0, 10 * time.Millisecond, ttl / 2, 5 * ttl}[d.IntN(5)],
	}
	inTurn := c.undisturbed() && !c.overlapping() && d.IntN(2) == 0
	if inTurn {
		all, mixed = quorumlock.WaitFair, false
	}
	for i := range c.Tasks {
		t := &c.Tasks[i]
		t.Try = t.Try && !inTurn
		t.Waiting, t.NoHandover = all, d.IntN(8) == 0
		if mixed {
			t.Waiting = ways[d.IntN(len(ways))]
		}
	}
}

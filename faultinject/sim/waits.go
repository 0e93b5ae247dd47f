package sim

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/workload"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Bounds of a wait for a lock that is free.
const (
	// patienceAfter applies after faults: the attempt every second suffices.
	patienceAfter = 1500 * time.Millisecond
	// patienceWithout applies if nothing has ever gone wrong: then the waiter is woken.
	patienceWithout = 400 * time.Millisecond
	// roundTrips is the number of further round trips that a waiter may need: several waiters may delay each other.
	roundTrips = 20
	// look is the interval of checks.
	look = 20 * time.Millisecond
)

// waiters is the state of all tasks that wait for a lock.
type waiters struct {
	mu   sync.Mutex
	list []*waiting
	// bounded are further ones, of which only the MaxOutage is judged.
	bounded []*waiting
	// turns has the former waiters whose client has its turn, by their leases.
	turns map[*quorumlock.Lease]*waiting
	// outages has the latest outage of each client, for a majority and for all nodes.
	outages map[lack]outage
}

type waiting struct {
	process *process
	task    Task
	need    int
	began   time.Duration
	// ticket is its place in the queues, by the clock of its client: when it began, or when its client last had the
	// lock.
	ticket time.Duration
	// first is the time since which no earlier waiter of its client queues before it, and its client does not have the
	// lock. Only then it enters the queues of the nodes. It is 0 before that.
	first time.Duration
	// free is the time since which nothing delays it. lawful is how long others have held the lock since the faults
	// were over.
	free, lawful time.Duration
	grants       int
	// passed is the time since which a later reader reads, or a later call has permits, if one does: this one must be told
	// soon. It is 0 while an earlier writer waits: its clock may be behind, so that it comes after the later reader.
	passed time.Duration
	// unplaced is when an earlier call for permits of its client got some or gave up: this one may have entered the queues
	// only then, after calls of other clients.
	unplaced time.Duration
	// over is set once its wait has failed, or was too long.
	over   bool
	cancel context.CancelFunc
}

func (w *world) waits(p *process, t Task, cancel context.CancelFunc) *waiting {
	one := &waiting{process: p, task: t, need: w.needOf(t), began: w.now(), free: w.now(), cancel: cancel}
	one.ticket = w.ticketNow(one)
	w.waiters.mu.Lock()
	defer w.waiters.mu.Unlock()
	w.waiters.list = append(w.waiters.list, one)
	w.waiters.markFirst(w.now())
	return one
}

// waitsNoMore records that a task has the lock, or has given up.
func (w *world) waitsNoMore(one *waiting) {
	w.waiters.mu.Lock()
	defer w.waiters.mu.Unlock()
	is := func(other *waiting) bool { return other == one }
	w.waiters.list, w.waiters.bounded = slices.DeleteFunc(w.waiters.list, is), slices.DeleteFunc(w.waiters.bounded, is)
	w.waiters.markFirst(w.now())
}

// turnBegins records that a waiter has the lock.
func (w *world) turnBegins(lease *quorumlock.Lease, holder *waiting) {
	w.waiters.mu.Lock()
	defer w.waiters.mu.Unlock()
	w.waiters.turns[lease] = holder
}

// turnOver records that a client no longer has the lock, or only reads: other clients have their turn before it. Only the
// first call for a lease counts.
func (w *world) turnOver(lease *quorumlock.Lease) {
	w.waiters.mu.Lock()
	defer w.waiters.mu.Unlock()
	holder := w.waiters.turns[lease]
	if holder == nil {
		return
	}
	delete(w.waiters.turns, lease)
	for _, one := range w.waiters.list {
		if !one.task.Reads && !holder.task.Reads && one.process == holder.process && one.need == holder.need {
			one.ticket = w.ticketNow(one)
			if one.first != 0 {
				one.first = w.now()
			}
		}
	}
}

// markFirst records which waiters are the first of their client now. Each reader is. Requires ws.mu.
func (ws *waiters) markFirst(now time.Duration) {
	for i, one := range ws.list {
		behind := slices.ContainsFunc(ws.list[:i], func(before *waiting) bool {
			return before.process == one.process && !before.task.Reads && before.need == one.need
		})
		if one.first == 0 && (one.task.Reads || !behind) {
			one.first = now
		}
	}
}

// watchWaits checks from time to time that no wait is too long, until all tasks are done.
func (w *world) watchWaits(done <-chan struct{}) {
	bounded := slices.ContainsFunc(w.c.Tasks, func(t Task) bool { return t.MaxOutage != 0 })
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-done:
			return
		}
		w.waiters.mu.Lock()
		list, others := slices.Clone(w.waiters.list), slices.Clone(w.waiters.bounded)
		w.waiters.mu.Unlock()
		if len(list) == 0 && !bounded {
			continue
		}
		if bounded {
			w.noteOutages()
		}
		// Most locks have a holder, and then nobody needs to know what the servers hold.
		looks := make([]func() ([]wire.Holder, bool), len(w.servers))
		for i, s := range w.servers {
			looks[i] = sync.OnceValues(s.holders)
		}
		for _, one := range list {
			w.examine(one, looks)
		}
		for _, one := range append(list, others...) {
			w.endsOutage(one)
		}
	}
}

// blocked reports whether another holder has, or just had, a name that the waiter needs.
func (w *world) blocked(one *waiting, looks []func() ([]wire.Holder, bool)) bool {
	leased, grants := w.standing(one.task.Names)
	if leased && w.now() > span {
		one.lawful += look
	}
	before := one.grants
	one.grants = grants
	if w.c.Demand { // what is left of attempts that were given up is no excuse
		return leased || grants != before
	}
	return leased || grants != before || !isFree(one.task.Names, one.need, looks)
}

func (w *world) examine(one *waiting, looks []func() ([]wire.Holder, bool)) {
	now := w.now()
	if w.blocked(one, looks) {
		one.free = now
	}
	patience, settled := patienceAfter, span+w.c.limits().Recovery()
	if w.c.undisturbed() {
		settled = 0
		if !w.c.overlapping() && !w.c.keepsLocks() {
			patience = patienceWithout
		}
	}
	passed := w.waiters.passedSince(one)
	timely := w.process(one.task.Client) == one.process && w.c.timely(one.task.Client)
	switch since := max(one.free, settled); {
	case one.over:
	case timely && now-since > patience:
		w.violated(Waking, "%s waits for %v since %v, and nothing blocks it since %v", one.process.label, one.task.Names, one.began, since)
		one.over = true
	case passed > 0 && now-passed > mostLate:
		w.violated(Order, "%s still waits for %v since %v, and later readers read it since %v", one.process.label, one.task.Names, one.began, passed)
		one.over = true
	case one.task.Endless && now-one.lawful > span+w.c.limits().Recovery()+w.progressAfter(one):
		if timely {
			w.violated(Progress, "%s still waits for %v since %v; others held it for %v since the faults", one.process.label, one.task.Names, one.began, one.lawful)
		}
		one.over = true
	}
	if one.over {
		one.cancel()
	}
}

// progressAfter is how long a waiter may need once nodes have recovered. One that spins pauses for up to eight latencies, as
// Config.RetryMax says: the median that its client measured, perhaps while nodes stood still. Two such pauses may pass: one
// before it finds a node that lost its memory, whose recovery begins only then, and one after the recovery.
func (w *world) progressAfter(one *waiting) time.Duration {
	patience := 2*time.Second + roundTrips*w.c.Weather.Most
	if n := len(w.servers); one.task.Spin && w.c.slowed() >= n-n/2 {
		patience += 2 * 8 * w.c.Timeout
	}
	return patience
}

// slowed returns how many nodes a fault may slow down, so that their answers come late.
func (c *Case) slowed() int {
	nodes := map[int]bool{}
	for _, step := range c.Faults {
		switch {
		case slices.Contains(losses, step.Fault):
		case step.Node == faultinject.All:
			return len(c.Nodes)
		default:
			nodes[step.Node] = true
		}
	}
	return len(nodes)
}

// inTurn checks that no earlier waiter is passed over, if all waiters want the lock in FIFO order. Readers are woken
// together, so their order does not matter.
func (w *world) inTurn(next *waiting) {
	t := next.task
	w.waiters.mu.Lock()
	defer w.waiters.mu.Unlock()
	for _, other := range w.waiters.list {
		lead := next.ticket - other.ticket
		if !t.Reads {
			other.passed = 0 // no reader has the lock now
		}
		switch {
		case other.first == 0 || min(lead, w.now()-other.first) <= mostLate:
		case t.Reads && other.task.Reads:
			other.passed = cmp.Or(other.passed, w.now())
		default:
			w.violated(Order, "%s has %v, and it was the turn of %s %v before", next.process.label, t.Names, other.process.label, lead)
		}
	}
}

// permitsInTurn checks that no call for permits goes on waiting when a later one has got some, be it for fewer. Two may get
// permits at once. Then either answer may come first. The calls of one client ask in their order. A call of another client may
// pass one that enters the queues of the nodes just then.
func (w *world) permitsInTurn(next *waiting, granted bool) {
	w.waiters.mu.Lock()
	defer w.waiters.mu.Unlock()
	now, place := w.now(), func(one *waiting) time.Duration { return one.began + w.c.Clients[one.task.Client].Wall }
	if next.passed > 0 && now-next.passed > mostLate {
		w.violated(Order, "%s waited for %d permits, and a later call got some %v before", next.process.label, next.task.Permits, now-next.passed)
	}
	for _, other := range w.waiters.bounded {
		lead, together, placed := place(next)-place(other), mostLate, now-other.unplaced > 6*w.c.Weather.Most
		if other.task.Client == next.task.Client {
			together, placed = 4*w.c.Weather.Most, true
			if lead <= 0 {
				other.unplaced, other.passed = now, 0 // it has had its turn, or left
			}
		}
		switch {
		case other.task.Permits == 0, !granted:
		case lead <= together:
			other.passed = 0
		case placed && now-other.began > mostLate:
			other.passed = cmp.Or(other.passed, now)
		}
	}
}

// ticketNow returns the place in the queues of a waiter that gets it now.
func (w *world) ticketNow(one *waiting) time.Duration {
	return w.now() + w.c.Clients[one.task.Client].Wall
}

// passedSince returns the time since which a later reader reads and this one could too, or 0.
func (ws *waiters) passedSince(reader *waiting) time.Duration {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if slices.ContainsFunc(ws.list, func(other *waiting) bool {
		return !other.task.Reads && other.ticket-reader.ticket <= mostLate
	}) {
		reader.passed = 0
	}
	return reader.passed
}

// mostLate is the tolerance of that check. It takes some round trips to enter the queues, clocks run at different
// rates, and the privilege of a woken waiter expires. If a waiter gives up just when it is granted the lock, the next
// of its client has no place in the queues yet.
const mostLate = 250 * time.Millisecond

// orderly reports whether nothing goes wrong in a run, and all tasks want one lock in FIFO order, one lease a turn.
func (c *Case) orderly() bool {
	return c.undisturbed() && c.Handover.Off && !c.overlapping() && !c.keepsLocks() && !slices.ContainsFunc(c.Tasks, func(t Task) bool {
		return t.Spin || t.Try || t.Form != "" || !slices.Equal(t.Names, c.Tasks[0].Names)
	})
}

// permitsInOrder is orderly for the permits of a semaphore.
func (c *Case) permitsInOrder() bool {
	return c.undisturbed() && !slices.ContainsFunc(c.Tasks, func(t Task) bool {
		return t.Permits > 0 && (t.Spin || t.Form != "" || t.MinHold > 0 || t.Ending.Detaches()) || t.Asks == workload.Resize
	})
}

// isFree reports whether as many servers as needed grant locks, and hold none of the names. It asks no more than it must.
func isFree(names []string, need int, looks []func() ([]wire.Holder, bool)) bool {
	for i, look := range looks {
		if need == 0 || need > len(looks)-i {
			break
		}
		holders, grants := look()
		if grants && !slices.ContainsFunc(holders, func(h wire.Holder) bool { return slices.Contains(names, h.Name) }) {
			need--
		}
	}
	return need == 0
}

// undisturbed reports whether nothing goes wrong in a run: then waiters are woken in time.
func (c *Case) undisturbed() bool {
	w := c.Weather
	for i := range c.Clients {
		if !c.timely(i) {
			return false
		}
	}
	return c.Opened && len(c.Faults) == 0 && len(c.Tampers) == 0 && w.Lose == 0 && w.Double == 0 && w.Forget == 0 && !w.Unordered && w.Most < mostPrompt
}

// overlapping reports whether some tasks want several names. A woken one may have to leave a name to others, which
// then come without a wake.
func (c *Case) overlapping() bool {
	return slices.ContainsFunc(c.Tasks, func(t Task) bool { return len(t.Names) > 1 || t.Other != nil })
}

// keepsLocks reports whether nodes keep some locks when their leases are over. No node tells the next waiter of such an end,
// which looks by itself.
func (c *Case) keepsLocks() bool {
	return slices.ContainsFunc(c.Tasks, func(t Task) bool { return t.MinHold > 0 || t.Ending.Detaches() })
}

// mostPrompt bounds the delay of messages where waiters must be woken promptly.
const mostPrompt = 15 * time.Millisecond

// timely reports whether every node accepts the tokens of a client, at any time of a run.
func (c *Case) timely(client int) bool {
	wall := c.Clients[client].Wall
	return wall >= -c.limits().MaxTTL/2 && wall <= c.limits().MaxClockSkew/2 && (client >= len(c.Settings) || c.Settings[client].List == nil)
}

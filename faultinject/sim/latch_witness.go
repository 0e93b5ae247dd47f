package sim

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/faultinject/history"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// latchWitness sees every call of the latch in true time, and what nodes forget of it.
type latchWitness struct {
	mu    sync.Mutex
	list  []*latchCall
	ended bool
	// set is set once somebody has begun to set it.
	set bool
	// forgot are the nodes that have lost their memory since, and were not given it back;
	// unaware those that have at any time, and were not told since that the latch is set.
	forgot, unaware []bool
	// excused is set if so many have forgotten that the latch may have, and stuck if nobody can
	// say, as so many are unaware.
	excused, stuck bool
}

// latchCall is one call.
type latchCall struct {
	history.Event
	client int
	err    error
}

// calls notes that a call begins, and what comes of it when what it returns is called.
func (l *latchWitness) calls(w *world, p *process, client, worker int, do *LatchCall) (over func(left int, err error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := &latchCall{client: client, Event: history.Event{
		Client: p.label, Worker: worker, Op: uint64(len(l.list) + 1), Kind: do.Kind, Of: history.Latch,
		Names: []string{latchName}, ID: do.ID, Count: do.Count, Call: w.now() + 1,
	}}
	l.list = append(l.list, one)
	l.set = l.set || do.Kind == history.Set
	return func(left int, err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		one.Return, one.err = w.now()+1, err
		switch {
		case err != nil:
			one.Error = err.Error()
		case do.Kind == history.Count:
			one.Count = left
		}
	}
}

// ends has what comes later be of no interest.
func (l *latchWitness) ends() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}

func (l *latchWitness) init(c *Case) {
	l.forgot, l.unaware = make([]bool, len(c.Nodes)), slices.Repeat([]bool{!c.Opened}, len(c.Nodes))
}

// lost notes that a node has lost its memory. It may be that of too many.
func (l *latchWitness) lost(server int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.unaware[server], l.forgot[server] = true, l.set
	l.excused = l.excused || tooMany(l.forgot)
}

// tooMany reports whether the rest is no majority.
func tooMany(nodes []bool) bool {
	n := 0
	for _, is := range nodes {
		if is {
			n++
		}
	}
	return n > len(nodes)-quorum.Majority().Need(len(nodes))
}

// answered looks at what a node knows of the latch: it was given back what it had forgotten, or
// knows of a deletion since. If it has recovered, and was told nothing, nobody has used the latch:
// then it may count as one that was never set.
func (l *latchWitness) answered(server int, r node.Reply) {
	s := r.Latch
	if s == nil || r.Err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	certain := uint64(max(s.Until-limits.Recovery().Microseconds(), 0) + maxSkew.Microseconds())
	switch {
	case s.Count > 0 && (s.Whole || s.Since > certain):
		l.unaware[server] = false
	case s.Count == 0 && s.Until > limits.Recovery().Microseconds():
		l.unaware[server] = true // it has lost its memory once, and was told of a deletion since
	}
	switch {
	case !l.forgot[server]:
	case s.Whole, s.Generation > certain:
		l.forgot[server] = false
	case s.Count == 0 && r.Recovering == 0:
		l.excused = true
	}
}

// unreadable judges that the latch could not be read in the end. It may be that some nodes have a
// generation in which somebody has begun to set it, and the others do not count there.
func (l *latchWitness) unreadable(w *world, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stuck = true
	unfinished := slices.ContainsFunc(l.list, func(c *latchCall) bool { return c.Kind == history.Set && !c.succeeded() })
	if !l.excused && !unfinished && !tooMany(l.unaware) {
		w.violated(Progress, "R and 2 s after the faults the latch cannot be read: %v", err)
	}
}

// sum is how many calls succeeded, and whether the witness had to put up with much.
func (l *latchWitness) sum() (calls int, excused bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.list {
		if c.succeeded() {
			calls++
		}
	}
	return calls, l.excused
}

// checkLatch judges all calls of the latch.
func (w *world) checkLatch() {
	l := &w.latch
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.list {
		l.beyondAll(w, c)
	}
	if l.excused {
		return
	}
	for _, c := range l.list {
		l.refused(w, c)
		l.woken(w, c)
	}
	l.explain(w)
}

// mostOpen bounds how many calls may have been carried out or not, at any time, for porcupine to
// decide: time grows exponentially with them.
const mostOpen = 8

// explain has the history of the latch checked, as that of a real one is. Within a bubble, time
// does not pass meanwhile: there is all of it, or none.
func (l *latchWitness) explain(w *world) {
	var events []history.Event
	open := 0
	add := func(c *latchCall, e history.Event) {
		if c.changes() && !c.succeeded() {
			open++
		}
		events = append(events, e)
	}
	for _, c := range l.list {
		add(c, c.Event)
		if l.maybeTwice(c) {
			again := c.Event
			again.Op += uint64(len(l.list))
			add(c, again)
		}
	}
	h, err := history.New(events...)
	if err != nil {
		w.violated(Counting, "%v", err)
		return
	}
	budget := time.Duration(0)
	if open <= mostOpen {
		budget = time.Hour
	}
	for _, v := range history.Check(h, budget).Violations {
		w.violated(Counting, "%s", v)
	}
}

// beyondAll checks what holds however much is forgotten: nothing is told that nobody has done.
func (l *latchWitness) beyondAll(w *world, told *latchCall) {
	if told.changes() || !told.succeeded() {
		return
	}
	least, ids := 0, map[string]bool{}
	for _, c := range l.list {
		switch {
		case c.Call > told.Return:
		case c.Kind == history.Set && (least == 0 || c.Count < least):
			least = c.Count
		case c.Kind == history.CountDown:
			ids[c.ID] = true
		}
	}
	if least == 0 || least-len(ids) > told.Count {
		w.violated(Counting, "%s, and by then it was set to no less than %d, and no more than %d ids had counted down", told.Event, least, len(ids))
	}
}

// refused checks a call that failed as the latch was not set, was deleted or set to something else.
func (l *latchWitness) refused(w *world, c *latchCall) {
	var other *quorumlock.LatchSetError
	switch {
	case errors.Is(c.err, quorumlock.ErrLatchNotSet):
		for _, s := range l.list {
			if s.Kind == history.Set && s.succeeded() && s.Return < c.Call && !l.maybeDeleted(s.Call, c.Return) {
				w.violated(Counting, "%s, and %s before that, and nobody has deleted it", c.Event, s.Event)
				return
			}
		}
	case errors.Is(c.err, quorumlock.ErrLatchDeleted):
		if !l.maybeDeleted(c.Call, c.Return) {
			w.violated(Counting, "%s, and nobody has deleted it", c.Event)
		}
	case errors.As(c.err, &other):
		if !slices.ContainsFunc(l.list, func(s *latchCall) bool {
			return s.Kind == history.Set && s.Count == other.Count && s.Call <= c.Return
		}) {
			w.violated(Counting, "%s, and nobody has set it to that", c.Event)
		}
	}
}

// woken checks that nobody has waited for long since enough had counted down for certain, or since
// the latch was deleted for good.
func (l *latchWitness) woken(w *world, c *latchCall) {
	if l.stuck || c.Kind != history.Await || errors.Is(c.err, quorumlock.ErrClosed) || !w.c.timely(c.client) {
		return
	}
	since, why := l.done(c)
	if since == 0 {
		since, why = l.deleted(c)
	}
	if since == 0 {
		return
	}
	patience := patienceWithout
	if !w.c.undisturbed() {
		patience = patienceAfter + 4*w.c.Weather.Most
		since = max(since, span+limits.Recovery())
	}
	if since = max(since, c.Call); c.Return > since+patience {
		w.violated(Waking, "%s waited from %v to %v, and the latch was %s by %v: %v", c.Client, c.Call, c.Return, why, since, c.err)
	}
}

// done is when enough had counted down for certain for who waits, if they have.
func (l *latchWitness) done(c *latchCall) (since time.Duration, why string) {
	for _, s := range l.list {
		if s.Kind != history.Set || !s.succeeded() || l.maybeDeleted(s.Call, c.Return) {
			continue
		}
		at := map[string]time.Duration{}
		for _, d := range l.list {
			if d.Kind == history.CountDown && d.succeeded() && !l.maybeDeleted(d.Call, c.Return) && (at[d.ID] == 0 || d.Return < at[d.ID]) {
				at[d.ID] = d.Return
			}
		}
		if len(at) >= s.Count {
			return max(s.Return, slices.Sorted(maps.Values(at))[s.Count-1]), "done"
		}
	}
	return 0, ""
}

// deleted is when the latch was deleted for certain, and not set again, if it was.
func (l *latchWitness) deleted(c *latchCall) (since time.Duration, why string) {
	var last *latchCall
	for _, d := range l.list {
		if d.Kind == history.Delete && d.succeeded() && (last == nil || d.Call > last.Call) {
			last = d
		}
	}
	if last == nil || last.Return > c.Return || slices.ContainsFunc(l.list, func(s *latchCall) bool {
		return s.Kind == history.Set && (!s.succeeded() || s.Return > last.Call)
	}) {
		return 0, ""
	}
	return last.Return, "deleted"
}

// changes reports whether a call is one that changes the latch.
func (c *latchCall) changes() bool { return c.Kind != history.Await && c.Kind != history.Count }

func (c *latchCall) succeeded() bool { return c.Return != 0 && c.err == nil }

// maybeDeleted reports whether the latch can have been deleted between two times.
func (l *latchWitness) maybeDeleted(from, to time.Duration) bool { return l.deletions(from, to) > 0 }

// deletions counts those that can have been carried out between two times.
func (l *latchWitness) deletions(from, to time.Duration) (n int) {
	for _, d := range l.list {
		if d.Kind == history.Delete && d.Call <= to && (!d.succeeded() || d.Return >= from) {
			n++
		}
	}
	return n
}

// maybeTwice reports whether a call may have been carried out twice: before a deletion, and after it;
// or with another token, as nodes take none that is older than MaxTTL.
func (l *latchWitness) maybeTwice(c *latchCall) bool {
	others := l.deletions(c.Call, c.Return)
	switch c.Kind {
	case history.Set, history.CountDown:
		return others > 0
	case history.Delete:
		return others > 1 || c.Return-c.Call > limits.MaxTTL-limits.MaxClockSkew
	default:
		return false
	}
}

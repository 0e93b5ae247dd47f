package history

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// inspectLatch lists violations of a latch that a few of its calls show. Porcupine checks whether all calls together
// are possible.
func inspectLatch(f *finder, events []Event) {
	c := latchCalls{finder: f}
	for _, e := range events {
		switch {
		case e.Kind == Set:
			c.sets = append(c.sets, e)
		case e.Kind == CountDown:
			c.downs = append(c.downs, e)
		case e.Kind == Delete:
			c.deletes = append(c.deletes, e)
		case e.Succeeded():
			c.told = append(c.told, e)
		}
	}
	c.setTwice()
	for _, e := range events {
		c.unfounded(e)
	}
	for i, e := range c.told {
		c.tooEarly(e)
		c.forgotten(e)
		c.rose(c.told[:i], e)
	}
}

type latchCalls struct {
	*finder
	sets, downs, deletes []Event
	// told are the calls that reported how many ids are missing: an Await reports none.
	told []Event
}

// maybeDeleted reports whether the latch can have been deleted between two times.
func (c *latchCalls) maybeDeleted(from, to time.Duration) bool {
	return slices.ContainsFunc(c.deletes, func(d Event) bool { return d.Call <= to && d.latestReturn() >= from })
}

// void reports whether a deletion certainly undid a call that had ended by then, before the report told.
func (c *latchCalls) void(ended time.Duration, told Event) bool {
	return slices.ContainsFunc(c.deletes, func(d Event) bool { return d.Succeeded() && ended < d.Call && d.Return < told.Call })
}

// setsFor returns the calls that can have made the setting that told reported.
func (c *latchCalls) setsFor(told Event) []Event {
	var all []Event
	for _, s := range c.sets {
		if s.Call <= told.Return && !c.void(s.latestReturn(), told) {
			all = append(all, s)
		}
	}
	return all
}

func (c *latchCalls) setTwice() {
	for i, a := range c.sets {
		for _, b := range c.sets[:i] {
			if a.Succeeded() && b.Succeeded() && a.Count != b.Count && !c.maybeDeleted(b.Call, max(a.Return, b.Return)) {
				c.add(SetTwice, fmt.Sprintf("it was set to %d at %s, and to %d at %s, and not deleted between",
					b.Count, c.interval(b), a.Count, c.interval(a)), b, a)
				return
			}
		}
	}
}

// tooEarly compares a report with all ids that can have counted down by then. A count-down that returned, even with
// an error, does not count after a deletion that was called later.
func (c *latchCalls) tooEarly(told Event) {
	sets := c.setsFor(told)
	if len(sets) == 0 {
		c.add(TooEarly, fmt.Sprintf("%s at %s, and no client had set it", c.what(told), c.interval(told)), told)
		return
	}
	least := slices.MinFunc(sets, func(a, b Event) int { return a.Count - b.Count })
	var ids []string
	var downs []Event
	for _, d := range c.downs {
		late := !d.returned() || !c.void(d.Return, told)
		if d.Call <= told.Return && late && !slices.Contains(ids, d.ID) {
			ids, downs = append(ids, d.ID), append(downs, d)
		}
	}
	if least.Count-len(ids) > told.Count {
		c.add(TooEarly, fmt.Sprintf("%s at %s; it was set to %d at %s, and by then no more than %d ids can have counted down: %s",
			c.what(told), c.interval(told), least.Count, c.interval(least), len(ids), quoted(ids)),
			append([]Event{told, least}, downs...)...)
	}
}

// forgotten compares a report with the ids whose count-downs had been confirmed.
func (c *latchCalls) forgotten(told Event) {
	sets := c.setsFor(told)
	if len(sets) == 0 {
		return
	}
	largest := slices.MaxFunc(sets, func(a, b Event) int { return a.Count - b.Count })
	var ids []string
	var downs []Event
	for _, d := range c.downs {
		certain := d.Succeeded() && d.Return < told.Call && !c.maybeDeleted(d.Call, told.Return)
		if certain && !slices.Contains(ids, d.ID) {
			ids, downs = append(ids, d.ID), append(downs, d)
		}
	}
	if told.Count > max(0, largest.Count-len(ids)) {
		c.add(Forgotten, fmt.Sprintf("%s at %s; it was set to %d at %s, and %d ids had counted down by then: %s",
			c.what(told), c.interval(told), largest.Count, c.interval(largest), len(ids), quoted(ids)),
			append([]Event{told, largest}, downs...)...)
	}
}

func (c *latchCalls) rose(before []Event, told Event) {
	for _, b := range before {
		if b.Return < told.Call && b.Count < told.Count && !c.maybeDeleted(b.Call, told.Return) {
			c.add(CountRose, fmt.Sprintf("%s at %s, and then %s at %s, and it was not deleted between",
				c.what(b), c.interval(b), c.what(told), c.interval(told)), b, told)
			return
		}
	}
}

// unfounded looks for the reason of a refusal: the state that it reports must have been possible during the call.
func (c *latchCalls) unfounded(e Event) {
	with := []Event{e}
	switch e.Refusal {
	case NotSet:
		i := slices.IndexFunc(c.sets, func(s Event) bool {
			return s.Succeeded() && s.Return < e.Call && !c.maybeDeleted(s.Call, e.Return)
		})
		if i < 0 {
			return
		}
		with = append(with, c.sets[i])
	case Deleted:
		if c.maybeDeleted(e.Call, e.Return) {
			return
		}
	case SetOtherwise:
		if slices.ContainsFunc(c.setsFor(e), func(s Event) bool { return s.Count == e.Found }) {
			return
		}
	default:
		return
	}
	c.add(Unfounded, fmt.Sprintf("%s at %s, and no other call made it so", e, c.interval(e)), with...)
}

func (c *latchCalls) what(e Event) string {
	if e.Kind == Await {
		return fmt.Sprintf("client %s/w%d was told that it is done", e.Client, e.Worker)
	}
	return fmt.Sprintf("client %s/w%d was told that %d are left", e.Client, e.Worker, e.Count)
}

func quoted(ids []string) string {
	if len(ids) == 0 {
		return "none"
	}
	all := make([]string, len(ids))
	for i, id := range ids {
		all[i] = fmt.Sprintf("%q", id)
	}
	return strings.Join(all, ", ")
}

type latchState struct {
	// set is the number that the latch is set to; 0 if it is not set.
	set int
	// ids has a bit for each id that has counted down since.
	ids     string
	counted int
}

func (s latchState) left() int { return max(0, s.set-s.counted) }

// count counts down for an id. A repetition changes nothing.
func (s latchState) count(id int) latchState {
	bits := make([]byte, max(len(s.ids), id/8+1))
	copy(bits, s.ids)
	if bit := byte(1) << (id % 8); bits[id/8]&bit == 0 {
		bits[id/8] |= bit
		s.counted++
	}
	s.ids = string(bits)
	return s
}

// latchStep is a call that changed a latch, or reported its state.
type latchStep struct {
	event Event
	id    int // of a count-down
}

// next returns the state after a step, if the step is legal. A call that failed, or has no return, may have taken
// effect or not. Where it cannot take effect it does nothing, and it may come after all others.
func (s latchState) next(do *latchStep) (bool, latchState) {
	e := do.event
	switch {
	case e.Kind == Set && s.set == 0:
		return true, latchState{set: e.Count}
	case e.Kind == Set:
		return s.set == e.Count || !e.Succeeded(), s
	case e.Kind == CountDown && s.set == 0:
		return !e.Succeeded(), s
	case e.Kind == CountDown:
		return true, s.count(do.id)
	case e.Kind == Delete:
		return true, latchState{}
	default:
		return s.set > 0 && s.left() == e.Count, s
	}
}

func latchModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return latchState{} },
		Step: func(s, do, _ any) (bool, any) {
			ok, next := s.(latchState).next(do.(*latchStep))
			return ok, next
		},
	}
}

// linearizeLatch checks the calls of one latch. Repetitions of calls make the search long, and are rarely needed. So
// it first looks for an order in which each call takes effect once.
func linearizeLatch(deadline time.Time, events []Event, until time.Duration) porcupine.CheckResult {
	verdict := linearize(latchModel(), deadline, func() []porcupine.Operation { return latchOperations(events, until, false) })
	if verdict != porcupine.Illegal || !slices.ContainsFunc(events, func(e Event) bool { return e.repetitions(events) > 0 }) {
		return verdict
	}
	return linearize(latchModel(), deadline, func() []porcupine.Operation { return latchOperations(events, until, true) })
}

// latchOperations returns the calls of one latch for porcupine. An Await that succeeded is equivalent to a Count of
// 0. until is a time after all others.
// If repeated is set, it lists a call as often as it may have taken effect.
func latchOperations(events []Event, until time.Duration, repeated bool) []porcupine.Operation {
	ids := map[string]int{}
	var ops []porcupine.Operation
	for _, e := range events {
		if e.tells() && !e.Succeeded() {
			continue
		}
		if _, ok := ids[e.ID]; e.Kind == CountDown && !ok {
			ids[e.ID] = len(ids)
		}
		times := 1
		if repeated {
			times += e.repetitions(events)
		}
		for range times {
			ops = append(ops, porcupine.Operation{
				ClientId: len(ops), Input: &latchStep{event: e, id: ids[e.ID]},
				Call: int64(e.Call), Return: int64(min(e.latestReturn(), until)),
			})
		}
	}
	return ops
}

// repetitions returns how often a Set or a count-down may take effect again. It repeats its effect until it returns, so
// it may take effect after each deletion that runs beside it, as well as before. Directly after itself it changes
// nothing. So the repetitions need not have an effect.
func (e Event) repetitions(events []Event) (n int) {
	if e.Kind != Set && e.Kind != CountDown {
		return 0
	}
	end := e.latestReturn()
	if e.returned() {
		end = e.Return
	}
	for _, d := range events {
		if d.Kind == Delete && d.Call <= end && e.Call <= d.latestReturn() {
			n++
		}
	}
	return n
}

// tells reports whether the call only reads the state of a latch.
func (e Event) tells() bool { return e.Kind == Await || e.Kind == Count }

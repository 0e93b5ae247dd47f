package history

import (
	"slices"
	"time"
)

// Counts are how much happened.
type Counts struct {
	// Granted, Refused and Unanswered are the acquisitions that gave a lease, that failed,
	// and that have no return.
	Granted, Refused, Unanswered int
	// Acts are how often leases were seen valid, releases and downgrades not counted.
	Acts int
	// Lost are the leases that were seen to have ended without a release.
	Lost int
	// Released and ReleasesFailed are the releases that returned without and with an
	// error.
	Released, ReleasesFailed int
	// Silence is the longest time without a grant, counted between the first call and
	// the last time in the history, and SilenceFrom when it began, counted from the first
	// call. A lease that is held for long makes a silence as well.
	Silence, SilenceFrom time.Duration
}

// count counts what happened to leases of a name, or to all for which of says true.
func (h *History) count(of func(e Event) bool) Counts {
	var c Counts
	first, last := h.span()
	grants := []time.Duration{first}
	for _, e := range h.events {
		if !of(e) {
			continue
		}
		c.event(e)
		if e.granted() {
			grants = append(grants, e.Return)
		}
	}
	for _, l := range h.leases {
		if of(l.grant) && l.over != nil && l.over.Kind != Release {
			c.Lost++
		}
	}
	c.silence(append(grants, last), first)
	return c
}

func (c *Counts) event(e Event) {
	switch {
	case e.granted():
		c.Granted++
	case e.Kind == Acquire && e.returned():
		c.Refused++
	case e.Kind == Acquire:
		c.Unanswered++
	case e.Kind == Act && e.succeeded():
		c.Acts++
	case e.Kind == Release && e.succeeded():
		c.Released++
	case e.Kind == Release && e.returned():
		c.ReleasesFailed++
	}
}

// silence finds the longest time between two instants.
func (c *Counts) silence(instants []time.Duration, start time.Duration) {
	slices.Sort(instants)
	for i, to := range instants[1:] {
		if from := instants[i]; to-from > c.Silence {
			c.Silence, c.SilenceFrom = to-from, from-start
		}
	}
}

// LatchCounts are how much happened to a latch.
type LatchCounts struct {
	// Sets, CountDowns and Deletes are the calls that changed it and returned without an error,
	// repetitions among them.
	Sets, CountDowns, Deletes int
	// Dones is how often somebody was told that it is done, by Await, and Counts how often
	// how many are left.
	Dones, Counts int
	// Failed and Unanswered are the calls that returned an error, and that have no return.
	Failed, Unanswered int
}

// countLatch counts what happened to a latch.
func countLatch(events []Event) LatchCounts {
	var c LatchCounts
	of := map[Kind]*int{Set: &c.Sets, CountDown: &c.CountDowns, Delete: &c.Deletes, Await: &c.Dones, Count: &c.Counts}
	for _, e := range events {
		switch {
		case !e.returned():
			c.Unanswered++
		case e.Error != "":
			c.Failed++
		default:
			*of[e.Kind]++
		}
	}
	return c
}

package history

import (
	"slices"
	"time"
)

// Counts count the events of a history.
type Counts struct {
	// Granted, Refused and Unanswered count the acquisitions that gave a lease, that failed, and that have no return.
	Granted, Refused, Unanswered int
	// Acts counts how often leases were seen valid, without releases and downgrades.
	Acts int
	// Lost counts the leases that ended without a release.
	Lost int
	// Released and ReleasesFailed count the releases that returned without and with an error.
	Released, ReleasesFailed int
	// Silence is the longest time without a grant, between the first call and the last time in the history.
	// SilenceFrom is its begin, counted from the first call. A lease that is held for a long time makes a silence,
	// too.
	Silence, SilenceFrom time.Duration
}

// count counts the events for which of returns true.
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
	case e.Kind == Act && e.Succeeded():
		c.Acts++
	case e.Kind == Release && e.Succeeded():
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

// LatchCounts count the calls of a latch.
type LatchCounts struct {
	// Sets, CountDowns and Deletes count the successful changes, including repetitions.
	Sets, CountDowns, Deletes int
	// Dones counts the answers of Await that the latch is done, and Counts the answers of Count.
	Dones, Counts int
	// Failed and Unanswered count the calls that returned an error, and those without a return.
	Failed, Unanswered int
}

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

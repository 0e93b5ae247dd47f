// Package clock gives the local time by which a lease is judged.
//
// A lock is kept by each node for its TTL. Whether a holder may still rely on
// it is decided by the holder's own clock, so that clock has to satisfy three
// things: it never steps, it runs at nearly the rate of the node's, and it
// goes on while the machine is suspended, since the node's does. The wall
// clock fails the first, and Go's monotonic time, on most systems, the third.
// [System] satisfies them all where the operating system can.
//
// Local time is a [time.Duration] since an origin that only that clock knows.
// Instants of two clocks cannot be compared.
package clock

import "time"

// Clock is the view of time of the coordinator and the in-memory node. All of its methods are
// safe for concurrent use.
type Clock interface {
	// Now returns the local time since the clock's origin. It never steps
	// and never goes back. It counts suspends where the system can, and has
	// nothing to do with the wall clock.
	Now() time.Duration

	// Wall returns the time of the wall clock, without a monotonic reading.
	// It is for display and for tokens, never for validity: it may step.
	Wall() time.Time

	// AfterFunc runs f in a goroutine of its own once d has passed on this clock, never
	// earlier. It runs f at once if d is zero or less.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is a pending call of [Clock.AfterFunc], as *[time.Timer] is one of
// [time.AfterFunc]. Its methods are safe for concurrent use and may be called
// by the function itself.
type Timer interface {
	// Stop returns true if it prevented the function from running, false if
	// the timer had fired or was stopped before. It does not wait for a
	// function that is running.
	Stop() bool

	// Reset makes the timer fire once d has passed from now, whether or not
	// it was pending, and returns whether it was. After a false the earlier
	// run of the function may still be under way when the next begins.
	Reset(d time.Duration) bool
}

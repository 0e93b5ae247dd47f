package clock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/deadline"
)

// slice is how long a timer of the system clock runs before it looks at the
// clock again. It bounds how late a deadline is noticed that passed while the
// machine was suspended.
const slice = 250 * time.Millisecond

type system struct{}

// System returns the clock of the operating system that counts suspends:
// CLOCK_BOOTTIME on Linux, CLOCK_MONOTONIC_RAW on macOS, the interrupt time on
// Windows. Elsewhere it is Go's monotonic time, which may stop in a suspend:
// there a machine that holds locks must not be suspended.
//
// Ordinary timers stop in a suspend even where the clock does not. So a pending timer looks at
// this clock every 250 ms. After a suspend it fires at most that much late, plus the usual
// scheduling delay. That is cheap for the few timers of a client, and not meant for one per
// lease. Inside a bubble of testing/synctest its timers are fake and its time is not: there
// [Process] is the clock to use.
func System() Clock { return system{} }

func (system) Now() time.Duration { return now() }

func (system) Wall() time.Time { return time.Now().Round(0) }

func (system) AfterFunc(d time.Duration, f func()) Timer {
	return slicedAfterFunc(now, slice, d, f)
}

// slicedAfterFunc runs f once d has passed by now, on ordinary timers that
// run for at most length each.
func slicedAfterFunc(now func() time.Duration, length, d time.Duration, f func()) Timer {
	t := &deadline.Timer{
		Now:  now,
		Wait: func(left time.Duration) time.Duration { return min(left, length) },
		Arm:  goAfterFunc,
		F:    f,
	}
	t.Reset(d)
	return t
}

func goAfterFunc(d time.Duration, f func()) deadline.Stopper { return time.AfterFunc(d, f) }

// Package deadline has the timer of a clock that runs otherwise than the timers below it.
package deadline

import (
	"math"
	"sync"
	"time"
)

// Stopper is a timer below, as *[time.Timer] is.
type Stopper interface {
	Stop() bool
	Reset(d time.Duration) bool
}

// Timer keeps a deadline of one clock by the timers of another. The other clock runs at
// a different rate, or not all of the time. Whenever the other timer fires it looks whether the
// deadline is reached and, if not, sets it again: f never runs early, and late by at most the
// length of a wait.
type Timer struct {
	Now  func() time.Duration                    // the clock of the deadline
	Wait func(left time.Duration) time.Duration  // how long to let the other timer run
	Arm  func(d time.Duration, f func()) Stopper // AfterFunc of the other clock
	Note func(t *Timer, pending bool)            // told of each change of pending, with mu held; may be nil
	F    func()

	mu       sync.Mutex
	pending  bool
	deadline time.Duration
	under    Stopper
}

// Reset makes the timer fire once d has passed, and returns whether it was pending. It is also what starts a new one.
func (t *Timer) Reset(d time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.pending
	// Noted before the clock is read: a jump in between finds the timer.
	t.setPending(true)
	now := t.Now()
	t.deadline = After(now, d)
	t.armLocked(now)
	return was
}

// Stop returns true if it prevented the function from running.
func (t *Timer) Stop() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.pending
	t.setPending(false)
	t.under.Stop()
	return was
}

// Rearm sets the underlying timer anew after the clock has moved unevenly.
func (t *Timer) Rearm() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pending {
		t.armLocked(t.Now())
	}
}

// check runs whenever the underlying timer fires. A firing that a Stop or a
// Reset has overtaken is harmless, since only the deadline counts.
func (t *Timer) check() {
	if t.due() {
		t.F()
	}
}

func (t *Timer) due() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.pending {
		return false
	}
	if now := t.Now(); now < t.deadline {
		t.armLocked(now)
		return false
	}
	t.setPending(false)
	return true
}

func (t *Timer) armLocked(now time.Duration) {
	d := t.Wait(t.deadline - now)
	if t.under == nil {
		t.under = t.Arm(d, t.check)
		return
	}
	t.under.Reset(d)
}

func (t *Timer) setPending(pending bool) {
	if t.pending != pending && t.Note != nil {
		t.Note(t, pending)
	}
	t.pending = pending
}

// After returns the instant d after now. It does not wrap around, so that the largest Duration can stand for never.
func After(now, d time.Duration) time.Duration {
	if d > 0 && now > math.MaxInt64-d {
		return math.MaxInt64
	}
	return now + max(d, 0)
}

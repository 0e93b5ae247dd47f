package clock

import (
	"sync"
	"time"
)

// deadlineTimer keeps a deadline of one clock by the timers of another. The other clock runs at
// a different rate, or not all of the time. Whenever the other timer fires it looks whether the
// deadline is reached and, if not, sets it again: f never runs early, and late by at most the
// length of a wait.
type deadlineTimer struct {
	now  func() time.Duration                   // the clock of the deadline
	wait func(left time.Duration) time.Duration // how long to let the other timer run
	arm  func(d time.Duration, f func()) Timer  // AfterFunc of the other clock
	note func(t *deadlineTimer, pending bool)   // told of each change of pending, with mu held; may be nil
	f    func()

	mu       sync.Mutex
	pending  bool
	deadline time.Duration
	under    Timer
}

// Reset implements [Timer], and is also what starts a new one.
func (t *deadlineTimer) Reset(d time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.pending
	// Noted before the clock is read: a jump in between finds the timer.
	t.setPending(true)
	now := t.now()
	t.deadline = after(now, d)
	t.armLocked(now)
	return was
}

// Stop implements [Timer].
func (t *deadlineTimer) Stop() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.pending
	t.setPending(false)
	t.under.Stop()
	return was
}

// rearm sets the underlying timer anew after the clock has moved unevenly.
func (t *deadlineTimer) rearm() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pending {
		t.armLocked(t.now())
	}
}

// check runs whenever the underlying timer fires. A firing that a Stop or a
// Reset has overtaken is harmless, since only the deadline counts.
func (t *deadlineTimer) check() {
	if t.due() {
		t.f()
	}
}

func (t *deadlineTimer) due() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.pending {
		return false
	}
	if now := t.now(); now < t.deadline {
		t.armLocked(now)
		return false
	}
	t.setPending(false)
	return true
}

func (t *deadlineTimer) armLocked(now time.Duration) {
	d := t.wait(t.deadline - now)
	if t.under == nil {
		t.under = t.arm(d, t.check)
		return
	}
	t.under.Reset(d)
}

func (t *deadlineTimer) setPending(pending bool) {
	if t.pending != pending && t.note != nil {
		t.note(t, pending)
	}
	t.pending = pending
}

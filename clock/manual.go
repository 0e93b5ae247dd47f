package clock

import (
	"slices"
	"sync"
	"time"
)

// Manual is a clock for tests that moves only when it is told to. Its origin
// is the moment of its creation. It is safe for concurrent use.
type Manual struct {
	turn sync.Mutex // held by Advance from beginning to end, so that two of them add up

	mu     sync.Mutex
	now    time.Duration
	wall   time.Time      // the wall clock at the origin, with all its steps
	moving bool           // an Advance is running due timers
	queue  []*manualTimer // by deadline, equal ones in the order of arming
}

// NewManual returns a clock that stands at local time 0 and shows wall.
func NewManual(wall time.Time) *Manual { return &Manual{wall: wall.Round(0)} }

// Now implements [Clock]. In a function that [Manual.Advance] runs, it is
// exactly the deadline of that function's timer.
func (m *Manual) Now() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Wall implements [Clock]. It moves with local time, and by [Manual.StepWall].
func (m *Manual) Wall() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wall.Add(m.now)
}

// StepWall sets the wall clock forward by d, or back if d is negative, as an
// administrator or NTP would. Local time and timers take no notice.
func (m *Manual) StepWall(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wall = m.wall.Add(d)
}

// Advance moves the clock forward by d. It runs the functions of the timers that become due,
// one after the other, in the order of their deadlines. They run on the calling goroutine, and
// then Advance returns. They may use the clock in any way except to call Advance, and what they
// arm within d runs as well. Calls from several goroutines take turns. It panics if d is
// negative.
func (m *Manual) Advance(d time.Duration) {
	if d < 0 {
		panic("clock: Advance by a negative duration: local time never goes back")
	}
	m.turn.Lock()
	defer m.turn.Unlock()
	target := after(m.Now(), d)
	for {
		t := m.next(target)
		if t == nil {
			return
		}
		t.f()
	}
}

// next moves to the first deadline up to target and takes its timer out of
// the queue, or moves to target and returns nil.
func (m *Manual) next(target time.Duration) *manualTimer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.queue) == 0 || m.queue[0].deadline > target {
		m.now, m.moving = target, false
		return nil
	}
	t := m.queue[0]
	m.queue = slices.Delete(m.queue, 0, 1)
	m.now, m.moving = t.deadline, true
	return t
}

// AfterFunc implements [Clock]. With d of zero or less f runs at once: in the
// running Advance if there is one, else in a goroutine of its own.
func (m *Manual) AfterFunc(d time.Duration, f func()) Timer {
	t := &manualTimer{clock: m, f: f}
	t.Reset(d)
	return t
}

type manualTimer struct {
	clock    *Manual
	f        func()
	deadline time.Duration // guarded by clock.mu
}

// Stop implements [Timer].
func (t *manualTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	return t.remove()
}

// Reset implements [Timer].
func (t *manualTimer) Reset(d time.Duration) bool {
	m := t.clock
	m.mu.Lock()
	defer m.mu.Unlock()
	was := t.remove()
	if d <= 0 && !m.moving {
		go t.f()
		return was
	}
	t.deadline = after(m.now, d)
	at := len(m.queue)
	for at > 0 && m.queue[at-1].deadline > t.deadline {
		at--
	}
	m.queue = slices.Insert(m.queue, at, t)
	return was
}

// remove takes the timer out of the queue and returns whether it was there.
func (t *manualTimer) remove() bool {
	at := slices.Index(t.clock.queue, t)
	if at < 0 {
		return false
	}
	t.clock.queue = slices.Delete(t.clock.queue, at, at+1)
	return true
}

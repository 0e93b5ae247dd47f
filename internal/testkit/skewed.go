package testkit

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/deadline"
)

// Skewed is a clock for tests that runs at another rate than its base, can
// jump, and has a wall clock of its own. It is safe for concurrent use.
type Skewed struct {
	base   clock.Clock
	rate   float64
	origin time.Duration // the base's local time at the creation, and this clock's as well

	mu      sync.Mutex
	jumped  time.Duration
	stepped time.Duration
	pending []*deadline.Timer // in the order of arming
}

// NewSkewed returns a clock that starts at the local time and the wall time of
// base and runs rate times as fast from then on: 1.005 is half a percent fast,
// so that its timers fire early by the base. Its timers are timers of base. It
// panics unless rate is above zero and finite.
func NewSkewed(base clock.Clock, rate float64) *Skewed {
	if !(rate > 0) || math.IsInf(rate, 1) {
		panic(fmt.Sprintf("testkit: NewSkewed at the rate %v: it must be above zero and finite", rate))
	}
	return &Skewed{base: base, rate: rate, origin: base.Now()}
}

// Now implements [clock.Clock].
func (s *Skewed) Now() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	passed := s.base.Now() - s.origin
	return deadline.After(s.origin+passed+s.gained(passed), s.jumped)
}

// Wall implements [clock.Clock]. It is the wall clock of the base, with its steps. Added to it is the
// time that this clock has gained or lost by its rate and by [Skewed.StepWall].
func (s *Skewed) Wall() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.base.Wall().Add(s.gained(s.base.Now() - s.origin)).Add(s.stepped)
}

// StepWall sets the wall clock forward by d, or back if d is negative. Local
// time and timers take no notice.
func (s *Skewed) StepWall(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stepped += d
}

// Jump moves local time forward by d at once, as a process sees a suspend.
// Timers that become due by it fire promptly. The wall clock stays: where the
// test means that to jump too it calls [Skewed.StepWall]. It panics if d is
// negative.
func (s *Skewed) Jump(d time.Duration) {
	if d < 0 {
		panic("testkit: Jump by a negative duration: local time never goes back")
	}
	// The timers are not touched under the mutex: theirs comes first.
	for _, t := range s.jump(d) {
		t.Rearm()
	}
}

func (s *Skewed) jump(d time.Duration) []*deadline.Timer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jumped = deadline.After(s.jumped, d)
	return slices.Clone(s.pending)
}

// AfterFunc implements [clock.Clock].
func (s *Skewed) AfterFunc(d time.Duration, f func()) clock.Timer {
	arm := func(d time.Duration, f func()) deadline.Stopper { return s.base.AfterFunc(d, f) }
	t := &deadline.Timer{Now: s.Now, Wait: s.onBase, Arm: arm, Note: s.note, F: f}
	t.Reset(d)
	return t
}

// note keeps the list of pending timers.
func (s *Skewed) note(t *deadline.Timer, pending bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pending {
		s.pending = append(s.pending, t)
		return
	}
	at := slices.Index(s.pending, t)
	s.pending = slices.Delete(s.pending, at, at+1)
}

// gained returns by how much this clock is ahead of the base, or behind it if
// negative, after so much time of the base. Only the difference goes through
// floating point, to keep the nanoseconds of a small skew.
func (s *Skewed) gained(passed time.Duration) time.Duration {
	return time.Duration(float64(passed) * (s.rate - 1))
}

// onBase returns how long the base needs to let left pass on this clock,
// rounded up; the timer looks again if it is still short.
func (s *Skewed) onBase(left time.Duration) time.Duration {
	d := math.Ceil(float64(max(left, 0)) / s.rate)
	if d >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(d)
}

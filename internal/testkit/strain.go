package testkit

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// tick is how often a Strain looks at the clock.
const tick = 5 * time.Millisecond

// Strain measures how late the machine is: how long a goroutine that should wake up waits for a
// processor. Bounds on latency are compared with it. Its methods may be called from
// several goroutines.
type Strain struct {
	mu   sync.Mutex
	late []time.Duration // of each tick
	due  time.Time       // of the next tick
}

// MeasureStrain begins to measure, until the test ends.
func MeasureStrain(t testing.TB) *Strain {
	s := &Strain{}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		s.watch(stop)
	}()
	t.Cleanup(func() {
		close(stop)
		<-stopped
	})
	return s
}

// watch notes how late each tick is until stop is closed.
func (s *Strain) watch(stop <-chan struct{}) {
	timer := time.NewTimer(tick)
	defer timer.Stop()
	for {
		due := time.Now().Add(tick)
		s.await(due)
		timer.Reset(time.Until(due))
		select {
		case <-stop:
			return
		case <-timer.C:
			s.note(time.Since(due))
		}
	}
}

func (s *Strain) await(due time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = due
}

func (s *Strain) note(late time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = append(s.late, late)
}

// Worst is the longest delay so far.
func (s *Strain) Worst() time.Duration { return s.quantile(1) }

// quantile is the delay that a part of all ticks so far did not exceed: 0.9 is for nine of ten.
func (s *Strain) quantile(part float64) time.Duration {
	s.mu.Lock()
	late := slices.Clone(s.late)
	if !s.due.IsZero() && time.Since(s.due) > 0 { // after a stall, the caller may run before the tick
		late = append(late, time.Since(s.due))
	}
	s.mu.Unlock()
	if len(late) == 0 {
		return 0
	}
	slices.Sort(late)
	return late[min(len(late)-1, int(part*float64(len(late))))]
}

// quiet is how late one wake-up in ten is on a machine that has time left.
const quiet = time.Millisecond

// Missing ends a test that has not seen the progress or the latency that it looks for. The test fails, unless the machine
// was busy while s measured. It is also inconclusive if one stall explains it, as of a lease that must be renewed: if a
// goroutine was once late by stall or more. A stall of 0 is for progress that a stall only delays.
func (s *Strain) Missing(t testing.TB, stall time.Duration, expected string, args ...any) {
	t.Helper()
	late, worst := s.quantile(0.9), s.Worst()
	switch {
	case stall > 0 && worst >= stall:
		Inconclusive(t, "expected: "+expected+"; the machine stalled for %v", append(args, worst)...)
	case late > quiet:
		Inconclusive(t, "expected: "+expected+"; one goroutine in ten was late by %v or more", append(args, late)...)
	default:
		t.Fatalf("expected: "+expected, args...)
	}
}

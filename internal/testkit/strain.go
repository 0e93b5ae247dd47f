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

// Missing ends a test that has not seen the progress or the latency that it looks for. The test fails, but
// is inconclusive on a machine that was busy while s measured.
func (s *Strain) Missing(t testing.TB, expected string, args ...any) {
	t.Helper()
	late := s.quantile(0.9)
	if late <= quiet {
		t.Fatalf("expected: "+expected, args...)
		return
	}
	Inconclusive(t, "expected: "+expected+"; one goroutine in ten was late by %v or more", append(args, late)...)
}

// Broken is Missing for what one stall of the machine can break: a lease that must be renewed, or an answer that must
// come in time. The test is inconclusive also if a goroutine was once late by stall or more, even if the machine had
// time left at all other moments. Progress that a test waits for is not like that: use Missing there.
func (s *Strain) Broken(t testing.TB, stall time.Duration, expected string, args ...any) {
	t.Helper()
	if worst := s.Worst(); worst >= stall {
		Inconclusive(t, "expected: "+expected+"; the machine stalled for %v", append(args, worst)...)
		return
	}
	s.Missing(t, expected, args...)
}

// hops is how many wake-ups of goroutines and processes an operation takes at most, one after another.
const hops = 20

// Within requires that an operation took no longer than a bound. The test is inconclusive where it took
// longer by no more than the delay of all its wake-ups.
func (s *Strain) Within(t testing.TB, took, bound time.Duration, what string) {
	t.Helper()
	allowance := hops * s.Worst()
	switch {
	case took <= bound:
	case took <= bound+allowance:
		Inconclusive(t, "%s: %v and not %v, while goroutines were late by up to %v", what, took, bound, allowance/hops)
	default:
		t.Fatalf("%s: %v and not %v, while goroutines were late by no more than %v", what, took, bound, allowance/hops)
	}
}

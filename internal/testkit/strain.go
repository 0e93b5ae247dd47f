package testkit

import (
	"context"
	"sync"
	"testing"
	"time"
)

const (
	// tick is how often a Strain looks at the clock.
	tick = 5 * time.Millisecond
	// quiet is how late one wake-up in ten is on a machine that has time left.
	quiet = time.Millisecond
)

// Strain measures how late the machine is: how long a goroutine that should wake up waits for a processor. Bounds on
// latency are compared with it. Its methods may be called from several goroutines.
type Strain struct {
	mu    sync.Mutex
	due   time.Time // of the next tick
	ticks int
	late  int           // of the ticks, by more than quiet
	worst time.Duration // of all
}

// MeasureStrain begins to measure, until the test ends.
func MeasureStrain(t testing.TB) *Strain {
	s := &Strain{due: time.Now().Add(tick)}
	go s.watch(t.Context())
	return s
}

func (s *Strain) watch(ctx context.Context) {
	ticks := time.NewTimer(tick)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			s.note()
			ticks.Reset(tick)
		}
	}
}

func (s *Strain) note() {
	s.mu.Lock()
	defer s.mu.Unlock()
	late := time.Since(s.due)
	s.ticks++
	if late > quiet {
		s.late++
	}
	s.worst, s.due = max(s.worst, late), time.Now().Add(tick)
}

// Worst is the longest delay so far. After a stall, the caller may run before the tick.
func (s *Strain) Worst() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.worst, time.Since(s.due))
}

// isBusy reports whether more than one wake-up in ten was late.
func (s *Strain) isBusy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return 10*s.late > s.ticks
}

// Missing ends a test that has not seen the progress or the latency that it looks for. The test fails, unless the machine
// was busy while s measured. It is also inconclusive if one stall explains it, as of a lease that must be renewed: if a
// goroutine was once late by stall or more. A stall of 0 is for progress that a stall only delays.
func (s *Strain) Missing(t testing.TB, stall time.Duration, expected string, args ...any) {
	t.Helper()
	switch worst := s.Worst(); {
	case stall > 0 && worst >= stall:
		Inconclusive(t, "expected: "+expected+"; the machine stalled for %v", append(args, worst)...)
	case s.isBusy():
		Inconclusive(t, "expected: "+expected+"; more than one goroutine in ten was late by %v", append(args, quiet)...)
	default:
		t.Fatalf("expected: "+expected, args...)
	}
}

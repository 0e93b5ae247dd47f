package testkit

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// tick is how often a Strain looks at the clock.
const tick = 5 * time.Millisecond

// Strain measures how late the machine runs what is due: how long a goroutine that should wake up
// waits for a processor. Bounds on latency are compared with it. Its methods may be called from
// several goroutines.
type Strain struct {
	mu   sync.Mutex
	late []time.Duration // of each tick
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
	for due := time.Now().Add(tick); ; due = time.Now().Add(tick) {
		timer.Reset(time.Until(due))
		select {
		case <-stop:
			return
		case <-timer.C:
			s.note(time.Since(due))
		}
	}
}

func (s *Strain) note(late time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = append(s.late, late)
}

// Worst is the longest delay so far.
func (s *Strain) Worst() time.Duration { return s.Quantile(1) }

// Quantile is the delay that a part of all ticks so far did not exceed: 0.9 is for nine of ten.
func (s *Strain) Quantile(part float64) time.Duration {
	s.mu.Lock()
	late := slices.Clone(s.late)
	s.mu.Unlock()
	if len(late) == 0 {
		return 0
	}
	slices.Sort(late)
	return late[min(len(late)-1, int(part*float64(len(late))))]
}

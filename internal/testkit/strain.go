package testkit

import (
	"sync"
	"testing"
	"time"
)

// tick is how often a Strain looks at the clock.
const tick = 2 * time.Millisecond

// Strain measures how late the machine runs what is due: how long a goroutine that should wake up
// has to wait for a processor. Bounds on latency are compared with it. Its methods may be called
// from several goroutines.
type Strain struct {
	mu    sync.Mutex
	worst time.Duration
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
	s.worst = max(s.worst, late)
}

// Worst is the longest delay since the measurement began, or since the last Reset.
func (s *Strain) Worst() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.worst
}

// Reset forgets the delays so far.
func (s *Strain) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.worst = 0
}

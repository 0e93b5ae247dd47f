package quorumlock

import (
	"container/heap"
	"math"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

// scheduler wakes every held lease when something is due for it: a renewal, its end,
// its hold limit. One timer serves all leases of a client; a lease has no goroutine
// and no timer of its own.
type scheduler struct {
	clock clock.Clock

	mu    sync.Mutex
	queue holdQueue
	timer clock.Timer
	// armed is when the timer fires; 0 while it is not set.
	armed time.Duration
	// running is closed when the run under way ends, which arms the timer itself; nil
	// while there is none.
	running chan struct{}
	stopped bool
}

// set has the hold ticked at due, instead of when it was due before. It reports false
// once the scheduler is stopped: the hold must end.
func (s *scheduler) set(h *hold, due time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	h.due = due
	if h.index < 0 {
		heap.Push(&s.queue, h)
	} else {
		heap.Fix(&s.queue, h.index)
	}
	s.arm()
	return true
}

// remove forgets a hold that has ended.
func (s *scheduler) remove(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.index >= 0 {
		heap.Remove(&s.queue, h.index)
	}
}

// stop ends all ticking, waits for the tick under way, and returns the holds that are
// left.
func (s *scheduler) stop() []*hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	if s.timer != nil {
		s.timer.Stop()
	}
	if running := s.running; running != nil {
		s.mu.Unlock()
		<-running
		s.mu.Lock()
	}
	left := s.queue
	s.queue = nil
	for _, h := range left {
		h.index = -1
	}
	return left
}

// arm sets the timer to what is due first, if that is before what it is set to. An
// early firing does no harm, so nothing is done when something due is put off.
func (s *scheduler) arm() {
	if s.running != nil || s.stopped || len(s.queue) == 0 {
		return
	}
	due := s.queue[0].due
	if s.armed != 0 && s.armed <= due {
		return
	}
	s.armed = due
	wait := due - s.clock.Now()
	if s.timer == nil {
		s.timer = s.clock.AfterFunc(wait, s.run)
	} else {
		s.timer.Reset(wait)
	}
}

// run ticks all that is due, the most overdue first.
func (s *scheduler) run() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		return
	}
	s.running, s.armed = make(chan struct{}), 0
	for !s.stopped && len(s.queue) > 0 && s.queue[0].due <= s.clock.Now() {
		// It stays in the queue, so that stop finds it; its tick sets what is due next.
		h, due := s.queue[0], s.queue[0].due
		s.mu.Unlock()
		h.tick()
		s.mu.Lock()
		if h.index >= 0 && h.due == due {
			h.due = math.MaxInt64
			heap.Fix(&s.queue, h.index)
		}
	}
	close(s.running)
	s.running = nil
	s.arm()
}

// holdQueue is a heap of holds by what is due first.
type holdQueue []*hold

func (q holdQueue) Len() int           { return len(q) }
func (q holdQueue) Less(i, j int) bool { return q[i].due < q[j].due }

func (q holdQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push is for container/heap.
func (q *holdQueue) Push(x any) {
	h := x.(*hold) //nolint:forcetypeassert // by construction
	h.index = len(*q)
	*q = append(*q, h)
}

// Pop is for container/heap.
func (q *holdQueue) Pop() any {
	old := *q
	h := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	h.index = -1
	return h
}

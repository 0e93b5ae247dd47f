package quorumlock

import (
	"container/heap"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

// scheduler wakes every held lease when something is due for it: a renewal, its end,
// its hold limit. One timer serves all leases of a client; a lease has no goroutine
// and no timer of its own.
//
// Renewals are no faster than the nodes take them: one that is due and finds no room waits
// for it, and the lease that would end first goes first. Whatever else is due waits for
// nothing.
type scheduler struct {
	clock clock.Clock
	// room is how long a renewal that needs so many nodes may take if it is sent now, or noRoom.
	room func(need int) time.Duration

	mu    sync.Mutex
	queue holdQueue
	// waiting has, for each number of nodes that renewals may need, the holds that wait for
	// room, by what else is due for them first; waiters counts them.
	waiting []holdQueue
	waiters atomic.Int64
	// roomy is set when there may be room since that was looked at last.
	roomy bool
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
func (s *scheduler) set(h *hold, due time.Duration) bool { return s.put(h, due, false) }

// await has the hold ticked when there is room for its renewal, and at due at the latest.
func (s *scheduler) await(h *hold, due time.Duration) bool { return s.put(h, due, true) }

func (s *scheduler) put(h *hold, due time.Duration, waits bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	s.place(h, due, waits)
	s.arm()
	return true
}

// place puts a hold where it belongs. The mutex is held.
func (s *scheduler) place(h *hold, due time.Duration, waits bool) {
	if h.index >= 0 && h.waits != waits {
		s.displace(h)
	}
	h.due, h.waits = due, waits
	q := s.queueOf(h)
	if h.index >= 0 {
		heap.Fix(q, int(h.index))
		return
	}
	heap.Push(q, h)
	if waits {
		s.waiters.Add(1)
	}
}

// displace takes a hold from where it is. The mutex is held.
func (s *scheduler) displace(h *hold) {
	heap.Remove(s.queueOf(h), int(h.index))
	if h.waits {
		s.waiters.Add(-1)
	}
}

func (s *scheduler) queueOf(h *hold) *holdQueue {
	if h.waits {
		return &s.waiting[h.lock.need]
	}
	return &s.queue
}

// remove forgets a hold that has ended.
func (s *scheduler) remove(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.index >= 0 {
		s.displace(h)
	}
}

// look has those that wait looked at, as a lane has less to do, or has failed.
func (s *scheduler) look() {
	if s.waiters.Load() == 0 {
		return // who comes to wait looks for room after that
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.roomy = true
	s.arm()
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
	left := slices.Concat(append(s.waiting, s.queue)...)
	s.queue, s.waiting = nil, nil
	s.waiters.Store(0)
	for _, h := range left {
		h.index = -1
	}
	return left
}

// arm sets the timer to what is due first, if that is before what it is set to. An
// early firing does no harm, so nothing is done when something due is put off.
func (s *scheduler) arm() {
	if s.running != nil || s.stopped {
		return
	}
	due := s.first()
	if !s.roomy && (due == never || s.armed != 0 && s.armed <= due) {
		return
	}
	now := s.clock.Now()
	if s.roomy {
		due = min(due, now)
	}
	s.armed = due
	if s.timer == nil {
		s.timer = s.clock.AfterFunc(due-now, s.run)
	} else {
		s.timer.Reset(due - now)
	}
}

// first is when something is due next, if no room comes.
func (s *scheduler) first() time.Duration {
	due := s.queue.first()
	if s.waiters.Load() > 0 {
		for _, q := range s.waiting {
			due = min(due, q.first())
		}
	}
	return due
}

// run ticks all that is due, the most overdue first, and then what waits, as long as there
// is room.
func (s *scheduler) run() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		return
	}
	s.running, s.armed = make(chan struct{}), 0
	for !s.stopped && (s.tickDue(s.clock.Now()) || s.tickWaiting()) {
	}
	close(s.running)
	s.running = nil
	s.arm()
}

// tickDue ticks what is due, and reports whether anything was. First come those that wait for room: it
// is their end, mostly.
func (s *scheduler) tickDue(now time.Duration) bool {
	if s.waiters.Load() > 0 {
		for _, q := range s.waiting {
			if q.first() <= now {
				s.tick(q[0], noRoom)
				return true
			}
		}
	}
	if s.queue.first() > now {
		return false
	}
	need, room := s.queue[0].lock.need, noRoom
	if len(s.waiting[need]) == 0 && s.roomFor(need) != noRoom { // who came before goes first
		room = 0 // nobody else could use it
	}
	if s.queue.first() <= now && s.queue[0].lock.need == need { // still
		s.tick(s.queue[0], room)
	}
	return true
}

// tickWaiting ticks one of those that wait, if there is room, and reports whether to go on.
// Each number of nodes has a queue of its own: who needs a node that is slow is not in the way
// of those who do not.
func (s *scheduler) tickWaiting() bool {
	s.roomy = false
	if s.waiters.Load() == 0 {
		return false
	}
	for need := range s.waiting {
		if len(s.waiting[need]) == 0 {
			continue
		}
		if room := s.roomFor(need); room != noRoom && len(s.waiting[need]) > 0 {
			s.tick(s.waiting[need][0], room)
			return true
		}
	}
	return s.roomy
}

// roomFor is room, for which the mutex is let go of.
func (s *scheduler) roomFor(need int) time.Duration {
	s.mu.Unlock()
	defer s.mu.Lock()
	return s.room(need)
}

// tick ticks one hold, which may renew itself if there is room.
func (s *scheduler) tick(h *hold, room time.Duration) {
	// It stays in its queue, so that stop finds it; its tick sets what is due next.
	due, waits := h.due, h.waits
	s.mu.Unlock()
	h.tick(room)
	s.mu.Lock()
	if h.index >= 0 && h.due == due && h.waits == waits {
		s.place(h, never, false)
	}
}

// holdQueue is a heap of holds by what is due first.
type holdQueue []*hold

func (q holdQueue) Len() int           { return len(q) }
func (q holdQueue) Less(i, j int) bool { return q[i].due < q[j].due }

// first is when something is due.
func (q holdQueue) first() time.Duration {
	if len(q) == 0 {
		return never
	}
	return q[0].due
}

func (q holdQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = int32(i), int32(j) //nolint:gosec // so many leases have no room in memory
}

// Push is for container/heap.
func (q *holdQueue) Push(x any) {
	h := x.(*hold)           //nolint:forcetypeassert // by construction
	h.index = int32(len(*q)) //nolint:gosec // as above
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

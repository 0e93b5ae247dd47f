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
	// capacity is how long a renewal that needs so many nodes may take if it is sent now, or noRoom.
	capacity func(need int) time.Duration

	mu    sync.Mutex
	queue grantHeap
	// starved has, for each number of nodes that renewals may need, the holds that wait for
	// room, by what else is due for them first; waiters counts them.
	starved      []grantHeap
	starvedCount atomic.Int64
	// capacityFreed is set when there may be room since that was looked at last.
	capacityFreed bool
	timer         clock.Timer
	// armedAt is when the timer fires; 0 while it is not set.
	armedAt time.Duration
	// running is closed when the run under way ends, which arms the timer itself; nil
	// while there is none.
	running chan struct{}
	stopped bool
}

// schedule has the hold ticked at due, instead of when it was due before. It reports false
// once the scheduler is stopped: the hold must end.
func (s *scheduler) schedule(g *grant, due time.Duration) bool { return s.insert(g, due, false) }

// awaitCapacity has the hold ticked when there is room for its renewal, and at due at the latest.
func (s *scheduler) awaitCapacity(g *grant, due time.Duration) bool { return s.insert(g, due, true) }

func (s *scheduler) insert(g *grant, due time.Duration, waits bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	s.placeLocked(g, due, waits)
	s.armLocked()
	return true
}

// placeLocked puts a hold where it belongs. The mutex is held.
func (s *scheduler) placeLocked(g *grant, due time.Duration, waits bool) {
	if g.heapIndex >= 0 && g.awaitsCapacity != waits {
		s.removeLocked(g)
	}
	g.dueAt, g.awaitsCapacity = due, waits
	q := s.queueOf(g)
	if g.heapIndex >= 0 {
		heap.Fix(q, int(g.heapIndex))
		return
	}
	heap.Push(q, g)
	if waits {
		s.starvedCount.Add(1)
	}
}

// removeLocked takes a hold from where it is. The mutex is held.
func (s *scheduler) removeLocked(g *grant) {
	heap.Remove(s.queueOf(g), int(g.heapIndex))
	if g.awaitsCapacity {
		s.starvedCount.Add(-1)
	}
}

func (s *scheduler) queueOf(g *grant) *grantHeap {
	if g.awaitsCapacity {
		return &s.starved[g.lock.need]
	}
	return &s.queue
}

// remove forgets a hold that has ended.
func (s *scheduler) remove(g *grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.heapIndex >= 0 {
		s.removeLocked(g)
	}
}

// onCapacity has those that wait looked at, as a lane has less to do, or has failed.
func (s *scheduler) onCapacity() {
	if s.starvedCount.Load() == 0 {
		return // who comes to wait looks for room after that
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.capacityFreed = true
	s.armLocked()
}

// stop ends all ticking, waits for the tick under way, and returns the holds that are
// left.
func (s *scheduler) stop() []*grant {
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
	left := slices.Concat(append(s.starved, s.queue)...)
	s.queue, s.starved = nil, nil
	s.starvedCount.Store(0)
	for _, g := range left {
		g.heapIndex = -1
	}
	return left
}

// armLocked sets the timer to what is due first, if that is before what it is set to. An
// early firing does no harm, so nothing is done when something due is put off.
func (s *scheduler) armLocked() {
	if s.running != nil || s.stopped {
		return
	}
	due := s.firstDue()
	if !s.capacityFreed && (due == never || s.armedAt != 0 && s.armedAt <= due) {
		return
	}
	now := s.clock.Now()
	if s.capacityFreed {
		due = min(due, now)
	}
	s.armedAt = due
	if s.timer == nil {
		s.timer = s.clock.AfterFunc(due-now, s.run)
	} else {
		s.timer.Reset(due - now)
	}
}

// firstDue is when something is due next, if no room comes.
func (s *scheduler) firstDue() time.Duration {
	due := s.queue.first()
	if s.starvedCount.Load() > 0 {
		for _, q := range s.starved {
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
	s.running, s.armedAt = make(chan struct{}), 0
	for !s.stopped && (s.runDue(s.clock.Now()) || s.runStarved()) {
	}
	close(s.running)
	s.running = nil
	s.armLocked()
}

// runDue ticks what is due, and reports whether anything was. First come those that wait for room: it
// is their end, mostly.
func (s *scheduler) runDue(now time.Duration) bool {
	if s.starvedCount.Load() > 0 {
		for _, q := range s.starved {
			if q.first() <= now {
				s.runOne(q[0], noCapacity)
				return true
			}
		}
	}
	if s.queue.first() > now {
		return false
	}
	need, room := s.queue[0].lock.need, noCapacity
	if len(s.starved[need]) == 0 && s.capacityFor(need) != noCapacity { // who came before goes first
		room = 0 // nobody else could use it
	}
	if s.queue.first() <= now && s.queue[0].lock.need == need { // still
		s.runOne(s.queue[0], room)
	}
	return true
}

// runStarved ticks one of those that wait, if there is room, and reports whether to go on.
// Each number of nodes has a queue of its own: who needs a node that is slow is not in the way
// of those who do not.
func (s *scheduler) runStarved() bool {
	s.capacityFreed = false
	if s.starvedCount.Load() == 0 {
		return false
	}
	for need := range s.starved {
		if len(s.starved[need]) == 0 {
			continue
		}
		if room := s.capacityFor(need); room != noCapacity && len(s.starved[need]) > 0 {
			s.runOne(s.starved[need][0], room)
			return true
		}
	}
	return s.capacityFreed
}

// capacityFor is room, for which the mutex is let go of.
func (s *scheduler) capacityFor(need int) time.Duration {
	s.mu.Unlock()
	defer s.mu.Lock()
	return s.capacity(need)
}

// runOne ticks one hold, which may renew itself if there is room.
func (s *scheduler) runOne(g *grant, room time.Duration) {
	// It stays in its queue, so that stop finds it; its tick sets what is due next.
	due, waits := g.dueAt, g.awaitsCapacity
	s.mu.Unlock()
	g.onDue(room)
	s.mu.Lock()
	if g.heapIndex >= 0 && g.dueAt == due && g.awaitsCapacity == waits {
		s.placeLocked(g, never, false)
	}
}

// grantHeap is a heap of holds by what is due first.
type grantHeap []*grant

func (q grantHeap) Len() int           { return len(q) }
func (q grantHeap) Less(i, j int) bool { return q[i].dueAt < q[j].dueAt }

// first is when something is due.
func (q grantHeap) first() time.Duration {
	if len(q) == 0 {
		return never
	}
	return q[0].dueAt
}

func (q grantHeap) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].heapIndex, q[j].heapIndex = int32(i), int32(j) //nolint:gosec // so many leases have no room in memory
}

// Push is for container/heap.
func (q *grantHeap) Push(x any) {
	g := x.(*grant)              //nolint:forcetypeassert // by construction
	g.heapIndex = int32(len(*q)) //nolint:gosec // as above
	*q = append(*q, g)
}

// Pop is for container/heap.
func (q *grantHeap) Pop() any {
	old := *q
	g := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	g.heapIndex = -1
	return g
}

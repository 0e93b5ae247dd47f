package lease

import (
	"container/heap"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/decision"
)

// scheduler calls the grant of every held lease when something is due for it: a renewal, its end,
// its hold limit. One timer serves all leases of a client. A lease has no goroutine and no timer of
// its own.
//
// Renewals are paced by the capacity of the nodes. A due renewal without capacity waits for it, and
// the lease that would end first goes first. Other due work never waits.
type scheduler struct {
	clock clock.Clock
	// capacity returns how long a renewal on need nodes may take if it is sent now, or noCapacity.
	capacity func(need int) time.Duration

	mu    sync.Mutex
	queue grantHeap
	// starved has a heap for each number of nodes that renewals may need. Its grants wait for
	// capacity, ordered by when other work is due for them. starvedCount counts them all.
	starved      []grantHeap
	starvedCount atomic.Int64
	// capacityFreed is set if capacity may have become free since the last look.
	capacityFreed bool
	timer         clock.Timer
	// armedAt is when the timer fires, or 0 while it is not set.
	armedAt time.Duration
	// pause is the last long time in which this process did not run.
	pause pause
	// running is closed when the current run ends, and is nil while there is none. A run arms the
	// timer at its end.
	running chan struct{}
	stopped bool
}

// noCapacity means that the nodes have no capacity for another renewal now.
const noCapacity = decision.Never

// due is when something is due for a grant. scheduler.mu guards its fields, but need never changes.
type due struct {
	at time.Duration
	// index is its place in its heap, or -1.
	index int32
	// need is the number of nodes that its renewals need.
	need uint8
	// waits is set while it waits for capacity.
	waits bool
}

// schedule sets when the grant is due, in place of an earlier time. With waits, it is due earlier
// once there is capacity for its renewal. It reports false once the scheduler is stopped: the grant must end.
func (s *scheduler) schedule(g *Grant, at time.Duration, waits bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	s.placeLocked(g, at, waits)
	s.armLocked()
	return true
}

// placeLocked puts a grant into its heap, or moves it there. Requires s.mu.
func (s *scheduler) placeLocked(g *Grant, at time.Duration, waits bool) {
	d := &g.due
	if d.index >= 0 && d.waits != waits {
		s.removeLocked(g)
	}
	d.at, d.waits = at, waits
	q := s.queueOf(d)
	if d.index >= 0 {
		heap.Fix(q, int(d.index))
		return
	}
	heap.Push(q, g)
	if waits {
		s.starvedCount.Add(1)
	}
}

// removeLocked takes a grant out of its heap. Requires s.mu.
func (s *scheduler) removeLocked(g *Grant) {
	d := &g.due
	heap.Remove(s.queueOf(d), int(d.index))
	if d.waits {
		s.starvedCount.Add(-1)
	}
}

func (s *scheduler) queueOf(d *due) *grantHeap {
	if d.waits {
		return &s.starved[d.need]
	}
	return &s.queue
}

// remove forgets a grant that has ended.
func (s *scheduler) remove(g *Grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.due.index >= 0 {
		s.removeLocked(g)
	}
}

// OnCapacity makes the scheduler look at the starved grants. A sender calls it when it has less to
// do, or has failed.
func (e *Engine) OnCapacity() {
	s := &e.scheduler
	if s.starvedCount.Load() == 0 {
		return // a grant that starves from now on looks at the capacity afterwards
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.capacityFreed = true
	s.armLocked()
}

// armLocked sets the timer to the first due time, unless the timer fires earlier. An early firing
// does no harm, so postponed work does not reset it. Requires s.mu.
func (s *scheduler) armLocked() {
	if s.running != nil || s.stopped {
		return
	}
	due := s.firstDue()
	if !s.capacityFreed && (due == decision.Never || s.armedAt != 0 && s.armedAt <= due) {
		return
	}
	now := s.clock.Now()
	if s.capacityFreed {
		due = min(due, now)
	}
	s.armedAt = max(due, now)
	if s.timer == nil {
		s.timer = s.clock.AfterFunc(due-now, s.run)
	} else {
		s.timer.Reset(due - now)
	}
}

// firstDue returns when something is due next if no capacity becomes free. Requires s.mu.
func (s *scheduler) firstDue() time.Duration {
	due := s.queue.first()
	if s.starvedCount.Load() > 0 {
		for _, q := range s.starved {
			due = min(due, q.first())
		}
	}
	return due
}

// run handles all due grants, most overdue first, and then starved grants while there is capacity.
func (s *scheduler) run() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		return
	}
	s.notePause(s.clock.Now())
	s.running, s.armedAt = make(chan struct{}), 0
	for !s.stopped && (s.runDue(s.clock.Now()) || s.runStarved()) {
	}
	close(s.running)
	s.running = nil
	s.armLocked()
}

// pause is a time in which the scheduler's timer was due, and did not run: the process was stopped or
// starved, or the machine was asleep. ended is 0 if there was none.
type pause struct{ lasted, ended time.Duration }

// notePause records how late the timer is. A short delay does not replace a longer one that may
// still explain a loss. Requires s.mu.
func (s *scheduler) notePause(now time.Duration) {
	if late := now - s.armedAt; s.armedAt != 0 && late > 0 && (late >= s.pause.lasted || now-s.pause.ended > 2*s.pause.lasted) {
		s.pause = pause{lasted: late, ended: now}
	}
}

// pausedFor returns how long this process did not run, at least, if that explains why a lease with this
// TTL was not renewed: it is over a third of the TTL, and ended within the last TTL. Otherwise it
// returns 0.
func (s *scheduler) pausedFor(now, ttl time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notePause(now) // the timer may not have run yet
	if s.pause.lasted < ttl/3 || now-s.pause.ended > ttl {
		return 0
	}
	return s.pause.lasted
}

// runDue handles one due grant, and reports whether there was one. Starved grants come first: their
// leases mostly end now. Requires s.mu.
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
	need, takes := s.queue[0].due.need, noCapacity
	if len(s.starved[need]) == 0 && s.capacityFor(int(need)) != noCapacity { // starved grants go first
		takes = 0 // no other grant could use the capacity
	}
	if s.queue.first() <= now && s.queue[0].due.need == need { // unchanged while s.mu was unlocked
		s.runOne(s.queue[0], takes)
	}
	return true
}

// runStarved handles one starved grant if there is capacity, and reports whether to go on. Each
// number of nodes has a heap of its own: a lease that needs a slow node must not block the others.
// Requires s.mu.
func (s *scheduler) runStarved() bool {
	s.capacityFreed = false
	if s.starvedCount.Load() == 0 {
		return false
	}
	for need := range s.starved {
		if len(s.starved[need]) == 0 {
			continue
		}
		if takes := s.capacityFor(need); takes != noCapacity && len(s.starved[need]) > 0 {
			s.runOne(s.starved[need][0], takes)
			return true
		}
	}
	return s.capacityFreed
}

// capacityFor calls capacity without s.mu. Requires s.mu, which it unlocks for the call.
func (s *scheduler) capacityFor(need int) time.Duration {
	s.mu.Unlock()
	defer s.mu.Lock()
	return s.capacity(need)
}

// runOne calls one grant without s.mu, as the grant locks its own mutex first. The grant may renew
// if there is capacity. Requires s.mu.
func (s *scheduler) runOne(g *Grant, takes time.Duration) {
	// The grant stays in its heap, so that stop finds it. onDue sets its next due time.
	d := &g.due
	before := *d
	s.mu.Unlock()
	g.onDue(takes)
	s.mu.Lock()
	if d.index >= 0 && d.at == before.at && d.waits == before.waits {
		s.placeLocked(g, decision.Never, false)
	}
}

// stop ends all scheduling, waits for the current run, and returns the grants that are left.
func (s *scheduler) stop() []*Grant {
	s.mu.Lock()
	s.stopped = true
	if s.timer != nil {
		s.timer.Stop()
	}
	running := s.running
	s.mu.Unlock()
	if running != nil {
		<-running
	}
	return s.grants()
}

func (s *scheduler) grants() []*Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat(append(s.starved, s.queue)...)
}

// grantHeap is a heap of grants by due time.
type grantHeap []*Grant

func (q grantHeap) Len() int           { return len(q) }
func (q grantHeap) Less(i, j int) bool { return q[i].due.at < q[j].due.at }

// first returns the earliest due time, or Never.
func (q grantHeap) first() time.Duration {
	if len(q) == 0 {
		return decision.Never
	}
	return q[0].due.at
}

func (q grantHeap) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].due.index, q[j].due.index = int32(i), int32(j) //nolint:gosec // memory bounds the number of leases
}

func (q *grantHeap) Push(x any) {
	g := x.(*Grant)              //nolint:forcetypeassert // by construction
	g.due.index = int32(len(*q)) //nolint:gosec // as above
	*q = append(*q, g)
}

func (q *grantHeap) Pop() any {
	old := *q
	g := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	g.due.index = -1
	return g
}

package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/node"
)

// server is an in-memory node and what surrounds it: a socket with a backlog, a disk, and
// somebody who restarts it.
type server struct {
	*node.Memory
	world *world
	index int

	mu  sync.Mutex
	rng *rand.Rand
	// down counts the faults that keep it from running, paused those that hold it up.
	down, paused int
	// life counts its starts: a connection does not outlive one.
	life int
	// backlog is what arrived while it was paused.
	backlog []func(alive bool)
	// subscribed are those to whom it sends messages.
	subscribed []*subscription
}

func newServer(w *world, index int, c Clock) *server {
	skewed := clock.NewSkewed(w.clock, c.Rate)
	skewed.StepWall(c.Wall)
	return &server{
		world: w, index: index, rng: rand.New(rand.NewPCG(w.c.Seed, uint64(300+index))),
		Memory: node.NewMemory(fmt.Sprintf("n%d", index+1), skewed),
	}
}

// arrive runs what a client asks for: now, when a pause is over, or never.
func (s *server) arrive(run func(alive bool)) {
	s.mu.Lock()
	if s.down == 0 && s.paused > 0 {
		s.backlog = append(s.backlog, run)
		s.mu.Unlock()
		return
	}
	alive := s.down == 0
	s.mu.Unlock()
	run(alive)
}

// runs reports whether it answers.
func (s *server) runs() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down == 0 && s.paused == 0
}

func (s *server) currentLife() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life
}

// saveNowAndThen is its disk, which is some time behind.
func (s *server) saveNowAndThen(ctx context.Context, rng *rand.Rand) {
	for pause(ctx, time.Duration(rng.Int64N(int64(ttl)/2))) {
		s.Save()
	}
}

// forgetful has the server lose its memory soon after it granted something, if the weather
// is like that: all of it, or what has not reached its disk.
func (s *server) forgetful(x *exchange) {
	granted := false
	for i, r := range x.replies {
		granted = granted || (x.ops[i].Kind == node.Acquire || r.Latch != nil) && r.Outcome == node.Granted
	}
	if !granted || s.index < s.world.c.Sound {
		return
	}
	s.mu.Lock()
	forgets := s.rng.Float64() < s.world.weather().Forget
	after, flushed := time.Duration(s.rng.Int64N(int64(50*time.Millisecond))), s.rng.IntN(2) == 0
	s.mu.Unlock()
	if !forgets {
		return
	}
	s.world.Go(func() {
		time.Sleep(after)
		s.world.note("%s forgets", s.Name())
		if flushed {
			s.flush()
		} else {
			s.restart()
		}
	})
}

// begin breaks the server. What an in-memory node has not, cannot be broken: it does not run
// out of memory, and its locks do not run out by a clock that steps.
func (s *server) begin(fault faultinject.Fault) {
	switch fault {
	case faultinject.Clock, faultinject.Memory, faultinject.Lose:
		panic(fmt.Sprintf("sim: the fault %q is for real servers", fault))
	case faultinject.Flush:
		s.flush()
		return
	case faultinject.Pause:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.paused++
		return
	case faultinject.Stop:
		s.Save()
	case faultinject.Wipe:
		s.Flush()
		s.Save()
	}
	s.restart()
	s.mu.Lock()
	s.down++
	s.life++
	lost := s.backlog
	s.backlog = nil
	s.mu.Unlock()
	for _, run := range lost {
		run(false)
	}
}

// restart has it come back with what is on its disk. Its subscriptions end with it.
func (s *server) restart() {
	for _, sub := range s.subscribers() {
		sub.send(frame{kind: end})
		sub.letGo()
	}
	s.Crash()
	s.world.latch.lost(s.world, s.index)
}

// flush has it forget everything.
func (s *server) flush() {
	s.Flush()
	s.world.latch.lost(s.world, s.index)
}

func (s *server) end(fault faultinject.Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch fault {
	case faultinject.Flush:
	case faultinject.Pause:
		s.paused--
	default:
		s.down--
	}
	if s.paused > 0 || s.down > 0 {
		return
	}
	waiting := s.backlog
	s.backlog = nil
	s.world.Go(func() {
		for _, run := range waiting {
			run(true)
		}
	})
}

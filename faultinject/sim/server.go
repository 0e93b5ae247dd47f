package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/workload"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node/memory"
)

// server is an in-memory node and its environment: a socket with a backlog, a disk, and a supervisor that restarts
// it.
type server struct {
	world *world
	index int
	name  string
	clock clock.Clock

	mu  sync.Mutex
	rng *rand.Rand
	// at is the node that answers at the server's address, away another one, if there is one. Both keep their memory, and
	// neither knows that it does not answer.
	at, away *memory.Node
	// process and awayProcess are the processes of these two, of processes in all.
	process, awayProcess, processes int
	// down counts the faults that keep it from running, paused the faults that suspend it.
	down, paused int
	// opened is the identity of the node that was last seen not to recover; none once that was flushed.
	opened atomic.Value
	// life counts the faults that broke all connections. The restarts of maybeForget leave connections open.
	life       int
	backlog    []func(alive bool)
	subscribed []*subscription
}

func newServer(w *world, index int, c Clock) *server {
	skewed := testkit.NewSkewed(w.clock, c.Rate)
	skewed.StepWall(c.Wall)
	name := fmt.Sprintf("n%d", index+1)
	return &server{
		world: w, index: index, name: name, clock: skewed, rng: rand.New(rand.NewPCG(w.c.Seed, uint64(300+index))),
		at: memory.New(name, skewed),
	}
}

// who returns the identity of the node that answers, and its process.
func (s *server) who() (identity, process string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	identity, _ = s.at.Server()
	return identity, fmt.Sprintf("%s/%d", s.name, s.process)
}

func (s *server) node() *memory.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

func (s *server) inspect(names ...string) wire.Reply {
	found := make([]wire.Reply, 1)
	s.node().Do(context.Background(), []wire.Op{{Kind: wire.Inspect, Names: names, Limits: s.world.c.limits()}}, found)
	return found[0]
}

// holders returns who holds any name on the server, and whether it grants locks: it runs and does not recover.
func (s *server) holders() (holders []wire.Holder, grants bool) {
	if !s.runs() {
		return nil, false
	}
	known := s.inspect(names...)
	return known.Holders, known.Recovering == 0
}

// waiters counts the waiters that the server has for a name. It asks in the place of a further one, behind all.
func (s *server) waiters(name string) int {
	last := wire.Waiting{Waiter: wire.Waiter{ID: "witness:1", Ticket: 1 << 52}, Names: []string{name}}
	found := make([]wire.Reply, 1)
	s.node().Do(context.Background(), []wire.Op{{Kind: wire.Refresh, TTL: time.Millisecond, Names: last.Names, Waiting: []wire.Waiting{last}}}, found)
	return found[0].Standings[0].Rank
}

// gone stands for the TTL on a server that cannot grant a name now: it is down, or recovers.
const gone = time.Hour

// keeps returns how long the server keeps a name for an owner: 0 if it does not, and gone if it cannot grant the name to
// another owner either.
func (s *server) keeps(name, owner string) time.Duration {
	found := s.inspect(name)
	if found.Err != nil || found.Recovering > 0 {
		return gone
	}
	for _, h := range found.Holders {
		if h.Owner == owner {
			return h.TTL
		}
	}
	return 0
}

// grants reports whether it runs and does not recover.
func (s *server) grants() bool {
	identity, _ := s.who()
	if runs := s.runs(); !runs || s.opened.Load() == identity {
		return runs
	}
	open := s.inspect().Recovering == 0
	if open {
		s.opened.Store(identity)
	}
	return open
}

// arrive runs a client's request: now, at the end of a pause, or never.
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

// saveFromTimeToTime saves the server's data at random intervals, so the saved copy is often out of date.
func (s *server) saveFromTimeToTime(ctx context.Context, rng *rand.Rand) {
	for workload.Sleep(ctx, time.Duration(rng.Int64N(int64(ttl)/2))) {
		s.node().Save()
	}
}

// maybeForget makes the server lose its memory soon after a grant, with the probability Weather.Forget. It loses all
// data, or only the data not yet saved.
func (s *server) maybeForget(x *exchange) {
	granted := false
	for i, r := range x.replies {
		granted = granted || (x.ops[i].Kind == wire.Acquire || r.Latch != nil) && r.Outcome == wire.Granted
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
		s.world.apart.Sleep(after)
		s.world.note("%s forgets", s.name)
		if flushed {
			s.flush()
		} else {
			s.restart()
		}
	})
}

// begin injects a fault. It panics on faults that only real servers are given.
func (s *server) begin(fault faultinject.Fault) {
	switch fault {
	case faultinject.Clock, faultinject.Memory, faultinject.Lose:
		panic(fmt.Sprintf("sim: the fault %q is for real servers", fault))
	case faultinject.Flush:
		s.flush()
		return
	case faultinject.Readdress:
		s.readdress()
		return
	case faultinject.Replicate:
		s.node().Save()
		s.node().Crash()
		s.world.latch.lost(s.world, s.index) // for the clients
		return
	case faultinject.Pause:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.paused++
		return
	case faultinject.Stop:
		s.node().Save()
	case faultinject.Wipe:
		s.node().Flush()
		s.node().Save()
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

// restart brings the server back with the data that was saved last. All subscriptions end.
func (s *server) restart() {
	for _, sub := range s.subscribers() {
		sub.endByServer()
	}
	s.node().Crash()
	s.mu.Lock()
	s.processes++
	s.process = s.processes
	s.mu.Unlock()
	s.world.latch.lost(s.world, s.index)
}

// readdress leads the server's address to another node, which was set up long ago, or back. All connections end.
func (s *server) readdress() {
	for _, sub := range s.subscribers() {
		sub.endByServer()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away == nil {
		s.away = memory.New(s.name, s.clock)
		s.world.open(s.away)
		s.processes++
		s.awayProcess = s.processes
	}
	s.at, s.away, s.process, s.awayProcess = s.away, s.at, s.awayProcess, s.process
	s.life++
}

func (s *server) flush() {
	s.opened.Store("")
	s.node().Flush()
	s.world.latch.lost(s.world, s.index)
}

func (s *server) end(fault faultinject.Fault) {
	if fault == faultinject.Readdress {
		s.readdress()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch fault {
	case faultinject.Flush, faultinject.Replicate:
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

func (w *world) inflict(step faultinject.Step) {
	w.apart.Sleep(step.At)
	w.note("begins: %v", step)
	switch step.Fault {
	case faultinject.Freeze:
		p := w.process(step.Client)
		if p == nil {
			return
		}
		p.freezeNow()
		w.apart.Sleep(step.For)
		w.look()
		p.thaw()
	case faultinject.Murder:
		w.killOnRequest(step)
		return
	case faultinject.Part, faultinject.Deafen, faultinject.Mute, faultinject.Slow:
		w.applyFault(step, true)
		w.apart.Sleep(step.For)
		w.applyFault(step, false)
	default:
		w.servers[step.Node].begin(step.Fault)
		w.apart.Sleep(step.For)
		w.servers[step.Node].end(step.Fault)
	}
	if step.For > 0 {
		w.note("ends: %v", step)
	}
}

// killOnRequest kills a client process, and starts it again after step.For.
func (w *world) killOnRequest(step faultinject.Step) {
	if !w.kill(step.Client) {
		return
	}
	w.apart.Sleep(step.For)
	w.start(step.Client)
	w.note("%s starts", w.process(step.Client).label)
}

func (w *world) applyFault(step faultinject.Step, begin bool) {
	for client, paths := range w.paths {
		for server, path := range paths {
			if (step.Client == faultinject.All || step.Client == client) && (step.Node == faultinject.All || step.Node == server) {
				path.applyFault(step, begin)
			}
		}
	}
}

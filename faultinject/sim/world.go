package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/workload"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
	"github.com/quorumlock/quorumlock/quorum"
)

// Run plays a case in its own bubble. traced makes the verdict include the history. The same case gives the same
// verdict, unless Go's scheduler matters.
func Run(t *testing.T, c *Case, traced bool) Verdict {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	// A collection would change the order of goroutines. Most runs leave little garbage, so one between several suffices.
	var memory runtime.MemStats
	if runtime.ReadMemStats(&memory); memory.HeapAlloc > 32<<20 {
		runtime.GC()
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var w *world
	synctest.Test(t, func(t *testing.T) { //nolint:thelper // the body of the run
		fixIDs(t, c.Seed)
		w = play(c, traced)
	})
	w.judge()
	return Verdict{
		Violations: w.violations, History: w.lines, Grants: w.grants, Lost: w.lost,
		Calls: w.calls, Excused: w.latch.excused,
	}
}

type world struct {
	sync.WaitGroup
	c *Case
	// apart keeps timers apart. clock is its time in this century.
	apart *apart
	clock clock.Clock
	began time.Time
	// ended is the time of the end; 0 before.
	ended   time.Duration
	servers []*server
	// paths are the paths of each client to each server, for any of its processes.
	paths [][]*path
	*witness
	waiters   waiters
	latch     latchMemory
	tampering tampering
	runs      workload.Runs

	mu        sync.Mutex
	processes []*process     // by client; nil while it is dead
	clients   map[string]int // of all processes, by label
	started   int
	quiet     bool
	calls     int // of the latch that succeeded
}

func newWorld(c *Case, traced bool) *world {
	base := newApart()
	w := &world{c: c, apart: base, clock: testkit.ThisCentury(base), began: time.Now(), clients: make(map[string]int), tampering: newTampering()}
	w.waiters.turns, w.waiters.outages = make(map[*quorumlock.Lease]*waiting), make(map[lack]outage)
	w.witness = newWitness(w, traced)
	w.latch.init(c)
	for i, at := range c.Nodes {
		w.servers = append(w.servers, newServer(w, i, at))
	}
	return w
}

func play(c *Case, traced bool) *world {
	w := newWorld(c, traced)
	if c.Opened {
		var nodes []*memory.Node
		for i, s := range w.servers {
			if c.opens(i) {
				nodes = append(nodes, s.node())
			}
		}
		w.open(nodes...)
	}
	for i := range c.Clients {
		w.paths = append(w.paths, newPaths(len(c.Nodes)))
		w.processes = append(w.processes, nil)
		w.start(i)
	}

	busy, cancel := context.WithTimeout(context.Background(), span)
	defer cancel()
	for i, s := range w.servers {
		rng := rand.New(rand.NewPCG(c.Seed, uint64(100+i)))
		w.Go(func() { s.saveFromTimeToTime(busy, rng) })
	}
	for _, step := range c.Faults {
		w.Go(func() { w.inflict(step) })
	}
	for _, m := range c.Moves {
		w.Go(func() { w.move(m) })
	}
	for _, t := range c.Tampers {
		w.Go(func() { w.tamper(t) })
	}
	var tasks sync.WaitGroup
	for _, task := range c.Tasks {
		tasks.Go(func() { w.perform(task.Number, task) })
	}
	done := make(chan struct{})
	w.Go(func() { w.watchWaits(done) })
	<-busy.Done()
	w.endFaults()
	tasks.Wait()
	close(done)
	w.checkAfterFaults()
	w.ended = w.now()
	return w
}

func (w *world) open(nodes ...*memory.Node) {
	cfg := w.c.settingsOf(Settings{})
	cfg.Clock = w.clock
	for _, n := range nodes {
		cfg.Nodes = append(cfg.Nodes, n)
	}
	if _, err := admin.Init(context.Background(), cfg); err != nil {
		panic(fmt.Sprintf("sim: new nodes must open: %v", err))
	}
}

func (w *world) start(client int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started++
	label := fmt.Sprintf("c%d", client+1)
	if w.started > len(w.c.Clients) {
		label = fmt.Sprintf("%s.%d", label, w.started-len(w.c.Clients)+1)
	}
	w.clients[label] = client
	settings := w.c.Settings[client]
	settings.List, settings.Limits = w.listOf(client), w.limitsOf(client)
	w.processes[client] = newProcess(w, label, w.c.Clients[client], settings, w.paths[client], w.c.Seed+uint64(1000*w.started))
}

func (w *world) kill(client int) (killed bool) {
	w.mu.Lock()
	p := w.processes[client]
	w.processes[client] = nil
	w.mu.Unlock()
	if p == nil {
		return false
	}
	w.died(p)
	p.kill()
	return true
}

func (w *world) process(client int) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.processes[client]
}

func (w *world) living() []*process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.processes), func(p *process) bool { return p == nil })
}

func (w *world) now() time.Duration {
	if w.ended > 0 {
		return w.ended // the bubble is over, and its time
	}
	return time.Since(w.began)
}

// weather is the case's weather, until the end of the faults.
func (w *world) weather() Weather {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.quiet {
		return Weather{Least: w.c.Weather.Least, Most: w.c.Weather.Most}
	}
	return w.c.Weather
}

func (w *world) endFaults() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.quiet = true
	w.note("the faults are over")
}

// checkAfterFaults checks the state after the faults: a newcomer acquires every lock in time, and all keys are gone.
func (w *world) checkAfterFaults() {
	if w.cleanedUp() {
		workload.Sleep(context.Background(), ttl*3/4)
		w.nothingLeft()
		w.nobodyWaits()
	}
	newcomer := newProcess(w, "newcomer", Clock{Rate: 1}, w.lastSettings(), newPaths(len(w.servers)), w.c.Seed+7)
	recovered := time.Now().Add(w.c.limits().Recovery())
	for _, name := range names {
		lock := newcomer.client.MultiLock(name)
		if n := len(w.c.Nodes); w.c.Seed%2 == 0 && quorum.Majority().Need(n) < n {
			lock = newcomer.client.RedLock(name)
		}
		bound, cancel := soonAfter(recovered)
		if err := w.takesOnce(bound, newcomer, workload.Use{Names: []string{name}}, lock.Acquire); err != nil {
			w.violated(Progress, "R and 2 s after the faults %q cannot be acquired: %v", name, err)
		}
		cancel()
	}
	w.allPermits(newcomer, recovered)
	w.oldProcesses()
	w.latchAfterFaults(newcomer)
	for _, p := range append(w.living(), newcomer) {
		_ = p.client.Close(context.Background())
	}
	w.Wait()
	workload.Sleep(context.Background(), w.c.limits().MaxTTL*11/10)
	w.nothingLeft()
	w.nothingLasts()
}

// soonAfter ends 2 s after an instant, and leaves at least 2 s: each lock has them to itself, since on a slow network one
// takes most of a second.
func soonAfter(instant time.Time) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), max(time.Until(instant), 0)+2*time.Second)
}

// oldProcesses checks that the processes of the run can acquire the lock too.
func (w *world) oldProcesses() {
	for client, p := range w.processes {
		if p == nil || !w.c.timely(client) {
			continue // nodes may refuse its tokens by now
		}
		bound, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		if err := w.takesOnce(bound, p, workload.Use{Names: []string{"a"}}, p.client.RedLock("a").Acquire); err != nil {
			w.violated(Progress, "%s cannot acquire a lock that is free: %v", p.label, err)
		}
		cancel()
	}
}

// takesOnce acquires what a use has, and gives it back.
//
//nolint:contextcheck // what the simulation does with a lease does not end with the context of the call
func (w *world) takesOnce(ctx context.Context, p *process, u workload.Use, acquire func(context.Context) (*quorumlock.Lease, error)) error {
	lease, err := acquire(ctx)
	for len(w.c.Moves) > 0 && (errors.Is(err, node.ErrLists) || errors.Is(err, node.ErrSettings)) && workload.Sleep(ctx, ttl/10) { // a late message keeps an older list in use
		lease, err = acquire(ctx)
	}
	if err == nil {
		w.granted(p, lease, u, 0)
		w.finished(lease)
		_ = lease.Release(context.WithoutCancel(ctx))
	}
	return err
}

func (w *world) cleanedUp() bool {
	weather := w.c.Weather
	return len(w.c.Moves) == 0 && !w.c.keepsLocks() && weather.Lose == 0 && weather.Double == 0 && !weather.Unordered && weather.Forget == 0 &&
		!slices.ContainsFunc(w.c.Faults, func(s faultinject.Step) bool { return s.Fault == faultinject.Murder })
}

func (w *world) nothingLeft() {
	for _, s := range w.servers {
		if keys := s.node().Keys(); len(keys) > 0 {
			w.violated(Tidiness, "%s still has %v", s.name, keys)
		}
	}
}

// nothingLasts checks that every key expires, except the marker, the fences and the size of a semaphore.
func (w *world) nothingLasts() {
	for _, s := range w.servers {
		for _, key := range s.node().Endpoint.(interface{ Eternal() []string }).Eternal() { //nolint:forcetypeassert // in memory
			if key != wire.MarkerKey("") && key != wire.FencesKey("") && key != wire.PoolName("a") {
				w.violated(Tidiness, "%s would have %q for ever", s.name, key)
			}
		}
	}
}

// placeLasts is longer than nodes keep a place in a queue after a beat: three beats and two timeouts.
const placeLasts = 4 * time.Second

// nobodyWaits checks that no node has a place in a queue for a waiter that has left. A server that was killed may have it again from
// its disk, until the place expires.
func (w *world) nobodyWaits() {
	for i, s := range w.servers {
		if slices.ContainsFunc(w.c.Faults, func(step faultinject.Step) bool {
			return step.Fault == faultinject.Kill && step.Node == i && w.now() < step.At+placeLasts
		}) {
			continue
		}
		for _, name := range names {
			if n := s.waiters(name); n > 0 {
				w.violated(Tidiness, "%s still has %d waiters for %q", s.name, n, name)
			}
		}
	}
}

// allPermits checks that a newcomer gets all permits once the nodes have recovered.
func (w *world) allPermits(newcomer *process, recovered time.Time) {
	if w.c.Permits == 0 {
		return
	}
	ctx, cancel := soonAfter(recovered)
	defer cancel()
	all := workload.Use{Names: []string{"a"}, Permits: w.c.Permits, Size: w.c.Permits}
	if err := newcomer.recorder.Resize(0, "a", w.c.Permits, func() error {
		_, err := all.Ask(ctx, newcomer.client, workload.Resize, w.c.Permits)
		return err
	}); err != nil {
		w.violated(Progress, "R and 2 s after the faults the number of permits cannot be set: %v", err)
		return
	}
	if err := w.takesOnce(ctx, newcomer, all, func(ctx context.Context) (*quorumlock.Lease, error) { return all.Acquire(ctx, newcomer.client) }); err != nil {
		w.violated(Progress, "R and 2 s after the faults %d permits cannot be acquired: %v", w.c.Permits, err)
	}
}

// apart is the clock of a bubble, with no two timers at one instant. Such timers fire in random order, so runs could not be
// repeated. A timer whose instant is taken is late by a few nanoseconds.
type apart struct {
	clock.Clock

	mu    sync.Mutex
	taken map[time.Duration]struct{}
}

func newApart() *apart {
	return &apart{Clock: clock.Process(), taken: make(map[time.Duration]struct{})}
}

// delay returns the least duration from d on that ends at an instant of its own, and takes that.
func (a *apart) delay(d time.Duration) time.Duration {
	d = max(d, 0)
	if d > 4*span {
		return d // the run is over before
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for now := a.Now(); ; d++ {
		if _, taken := a.taken[now+d]; !taken {
			a.taken[now+d] = struct{}{}
			return d
		}
	}
}

// Sleep is time.Sleep.
func (a *apart) Sleep(d time.Duration) { time.Sleep(a.delay(d)) }

// NewTimer is time.NewTimer.
func (a *apart) NewTimer(d time.Duration) *time.Timer { return time.NewTimer(a.delay(d)) }

// AfterFunc implements [clock.Clock].
func (a *apart) AfterFunc(d time.Duration, f func()) clock.Timer {
	return apartTimer{a, a.Clock.AfterFunc(a.delay(d), f)}
}

type apartTimer struct {
	apart *apart
	clock.Timer
}

// Reset implements [clock.Timer].
func (t apartTimer) Reset(d time.Duration) bool { return t.Timer.Reset(t.apart.delay(d)) }

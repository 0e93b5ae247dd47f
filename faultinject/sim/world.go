package sim

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// Run plays a case, in a bubble of its own; traced has the verdict tell the history. The
// same case gives the same verdict, where the scheduler of Go does not play a part.
func Run(t *testing.T, c *Case, traced bool) Verdict {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var v Verdict
	synctest.Test(t, func(*testing.T) { v = play(c, traced) })
	return v
}

// world is one run: everything there is in it.
type world struct {
	sync.WaitGroup
	c       *Case
	clock   clock.Clock
	began   time.Time
	servers []*server
	// ways are those of each client to each server, whatever process it has.
	ways [][]*way
	*witness
	waiters waiters
	latch   latchWitness

	mu        sync.Mutex
	processes []*process // by client; nil while it is dead
	started   int
	quiet     bool
}

func play(c *Case, traced bool) Verdict {
	w := &world{c: c, clock: clock.Process(), began: time.Now()}
	w.witness = newWitness(w, traced)
	w.latch.init(c)
	for i, at := range c.Nodes {
		w.servers = append(w.servers, newServer(w, i, at))
	}
	if c.Opened {
		w.open()
	}
	for i := range c.Clients {
		w.ways = append(w.ways, newWays(len(c.Nodes)))
		w.processes = append(w.processes, nil)
		w.start(i)
	}

	busy, cancel := context.WithTimeout(context.Background(), span)
	defer cancel()
	for i, s := range w.servers {
		rng := rand.New(rand.NewPCG(c.Seed, uint64(100+i)))
		w.Go(func() { s.saveNowAndThen(busy, rng) })
	}
	for _, step := range c.Faults {
		w.Go(func() { w.inflict(step) })
	}
	var tasks sync.WaitGroup
	for i, task := range c.Tasks {
		tasks.Go(func() { w.perform(c.number(i), task) })
	}
	done := make(chan struct{})
	w.Go(func() { w.oversee(done) })
	<-busy.Done()
	w.calm()
	tasks.Wait()
	close(done)
	w.epilogue()
	w.checkLatch()
	return w.verdict()
}

// open sets the nodes up, as who runs them does.
func (w *world) open() {
	cfg := w.c.settings()
	cfg.Clock = w.clock
	for _, s := range w.servers {
		cfg.Nodes = append(cfg.Nodes, s.Memory)
	}
	if _, err := admin.Init(context.Background(), cfg); err != nil {
		panic(fmt.Sprintf("sim: new nodes must open: %v", err))
	}
}

// start gives a client its first process, or another one.
func (w *world) start(client int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started++
	label := fmt.Sprintf("c%d", client+1)
	if w.started > len(w.c.Clients) {
		label = fmt.Sprintf("%s.%d", label, w.started-len(w.c.Clients)+1)
	}
	w.processes[client] = newProcess(w, label, w.c.Clients[client], w.ways[client], w.c.Seed+uint64(1000*w.started))
}

func (w *world) process(client int) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.processes[client]
}

// living are the processes that there are now.
func (w *world) living() []*process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.processes), func(p *process) bool { return p == nil })
}

func (w *world) now() time.Duration { return time.Since(w.began) }

// weather is that of the case, until everything gets quiet.
func (w *world) weather() Weather {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.quiet {
		return Weather{Least: w.c.Weather.Least, Most: w.c.Weather.Most}
	}
	return w.c.Weather
}

func (w *world) calm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.quiet = true
	w.note("the faults are over")
}

// inflict begins and ends one fault.
func (w *world) inflict(step faultinject.Step) {
	time.Sleep(step.At)
	w.note("%s %s begins%s", step.Fault, step.Target(), length(step))
	switch step.Fault {
	case faultinject.Freeze:
		p := w.process(step.Client)
		if p == nil {
			return
		}
		p.freezeNow()
		time.Sleep(step.For)
		w.looks()
		p.thaw()
	case faultinject.Murder:
		w.murder(step)
		return
	case faultinject.Part, faultinject.Deafen, faultinject.Mute, faultinject.Slow:
		w.bend(step, true)
		time.Sleep(step.For)
		w.bend(step, false)
	default:
		w.servers[step.Node].begin(step.Fault)
		time.Sleep(step.For)
		w.servers[step.Node].end(step.Fault)
	}
	if step.For > 0 {
		w.note("%s %s ends", step.Fault, step.Target())
	}
}

func length(step faultinject.Step) string {
	switch {
	case step.For == 0:
		return ""
	case step.Amount != 0:
		return fmt.Sprintf(", by %v for %v", step.Amount, step.For)
	default:
		return fmt.Sprintf(", for %v", step.For)
	}
}

func (w *world) murder(step faultinject.Step) {
	w.mu.Lock()
	p := w.processes[step.Client]
	w.processes[step.Client] = nil
	w.mu.Unlock()
	if p == nil {
		return
	}
	w.died(p)
	p.kill()
	time.Sleep(step.For)
	w.start(step.Client)
	w.note("%s starts", w.process(step.Client).label)
}

// bend has a fault act on the ways that it is about, or ends it.
func (w *world) bend(step faultinject.Step, begin bool) {
	for client, ways := range w.ways {
		for server, way := range ways {
			if (step.Client == faultinject.All || step.Client == client) && (step.Node == faultinject.All || step.Node == server) {
				way.bend(step, begin)
			}
		}
	}
}

// epilogue sees whether all is well again once the faults are over: a newcomer gets every
// lock in time, and all keys are gone.
func (w *world) epilogue() {
	if w.tidy() {
		pause(context.Background(), ttl*3/4)
		w.nothingLeft()
	}
	newcomer := newProcess(w, "newcomer", Clock{Rate: 1}, newWays(len(w.servers)), w.c.Seed+7)
	bound, cancel := context.WithTimeout(context.Background(), limits.Recovery()+2*time.Second)
	defer cancel()
	for _, name := range names {
		lock := newcomer.client.MultiLock(name)
		if n := len(w.c.Nodes); w.c.Seed%2 == 0 && quorum.Majority().Need(n) < n {
			lock = newcomer.client.RedLock(name)
		}
		lease, err := lock.Acquire(bound)
		if err != nil {
			w.violated(Progress, "R and 2 s after the faults %q cannot be had: %v", name, err)
			continue
		}
		w.granted(newcomer, lease)
		w.finished(lease)
		_ = lease.Release(context.Background())
	}
	w.allPermits(bound, newcomer)
	w.oldHands()
	w.afterAll(newcomer)
	for _, p := range append(w.living(), newcomer) {
		_ = p.client.Close(context.Background())
	}
	w.Wait()
	pause(context.Background(), ttl+ttl/10)
	w.nothingLeft()
}

// oldHands sees whether the processes that have been through it all get the lock too.
func (w *world) oldHands() {
	for client, p := range w.processes {
		if p == nil || !w.c.timely(client) {
			continue // nodes may refuse its tokens by now
		}
		bound, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		lease, err := p.client.RedLock("a").Acquire(bound)
		cancel()
		if err != nil {
			w.violated(Progress, "%s cannot have a lock that is free: %v", p.label, err)
			continue
		}
		w.granted(p, lease)
		w.finished(lease)
		_ = lease.Release(context.Background())
	}
}

// tidy reports whether every owner could clean up after itself.
func (w *world) tidy() bool {
	weather := w.c.Weather
	return weather.Lose == 0 && weather.Double == 0 && !weather.Unordered && weather.Forget == 0 &&
		!slices.ContainsFunc(w.c.Faults, func(s faultinject.Step) bool { return s.Fault == faultinject.Murder })
}

func (w *world) nothingLeft() {
	for _, s := range w.servers {
		if keys := s.Keys(); len(keys) > 0 {
			w.violated(Tidiness, "%s still has %v", s.Name(), keys)
		}
	}
}

// ran tells the history what a server did.
func (w *world) ran(l *link, x *exchange) {
	for i := range x.ops {
		w.latch.answered(l.server.index, x.replies[i])
	}
	if !w.traced {
		return
	}
	for i, op := range x.ops {
		w.note("%s asks %s to %s %v%s for %s%s: %s", l.process.label, l.Name(), op.Kind, op.Names, reader(op), w.short(op.Owner), tokenOf(op), w.answer(x.replies[i]))
	}
}

// heard tells the history what a process is told by a server.
func (w *world) heard(l *link, m node.Message) {
	switch {
	case !w.traced:
	case m.Waiter == "":
		w.note("%s finds its subscription to %s %v", l.process.label, l.Name(), m.Kind)
	default:
		w.note("%s tells %s: %v is %s, for %q", l.Name(), l.process.label, w.short(m.Waiter), m.Kind, m.Name)
	}
}

func reader(op node.Op) string {
	if op.Reads {
		return ", to read,"
	}
	return ""
}

func tokenOf(op node.Op) string {
	if op.Token == 0 || op.Kind != node.Acquire {
		return ""
	}
	return fmt.Sprintf(" with token %d", op.Token)
}

func (w *world) answer(r node.Reply) string {
	text := r.Outcome.String()
	switch {
	case r.Err != nil:
		text = cmp.Or(r.Err, error(nil)).Error()
	case r.Latch != nil:
		text += ", " + latchState(r.Latch)
	case r.Outcome == node.Denied:
		text += fmt.Sprintf(" by %s for %v", w.short(r.Holder.Owner), r.Holder.TTL)
	case r.Token != 0:
		text += fmt.Sprintf(", but knows token %d", r.Token)
	}
	if r.Recovering > 0 && r.Err == nil {
		text += fmt.Sprintf(" (recovering for %v)", r.Recovering)
	}
	return text
}

// pause sleeps, and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

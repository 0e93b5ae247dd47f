package sim

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/faultinject/history"
	"github.com/quorumlock/quorumlock/faultinject/workload"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
)

// process is one client process, which may freeze and die.
//
// A frozen process sends nothing, and sees no answer and no timer; its clock runs on. A process has no other contact
// with the world, so nothing else needs to stop.
type process struct {
	label    string
	client   *quorumlock.Client
	listed   int
	recorder *history.Recorder
	dead     chan struct{}

	mu     sync.Mutex
	freeze int
	// thawed is closed when the last freeze ends. waiting counts the goroutines that wait for that.
	thawed  chan struct{}
	waiting int
	// since is when the last freeze ended.
	since time.Time
}

func newProcess(w *world, label string, c Clock, settings Settings, paths []*path, seed uint64) *process {
	p := &process{label: label, recorder: w.log.Recorder(label, w.ticks), dead: make(chan struct{})}
	skewed := testkit.NewSkewed(w.clock, c.Rate)
	skewed.StepWall(c.Wall)
	cfg := w.c.settingsOf(settings)
	cfg.Clock = processClock{skewed, p}
	cfg.Jitter = lockedRand(seed)
	cfg.Logger = slog.New(slog.DiscardHandler)
	for i, s := range w.servers {
		if settings.List == nil || slices.Contains(settings.List, i) {
			cfg.Nodes = append(cfg.Nodes, node.Node(newLink(p, s, paths[i], seed+uint64(i)+1)))
		}
	}
	p.listed = len(cfg.Nodes)
	workload.Set(cfg)
	workload.Set(cfg.Handover)
	client, err := quorumlock.New(cfg)
	if err != nil {
		panic(fmt.Sprintf("sim: the settings must be valid: %v", err))
	}
	p.client = client
	return p
}

func lockedRand(seed uint64) func() float64 {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 4))
	return func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return rng.Float64()
	}
}

// awake waits while the process is frozen, and reports whether it lives.
func (p *process) awake() bool {
	p.mu.Lock()
	thawed := p.thawed
	turn := p.waiting
	if thawed != nil {
		p.waiting++
	}
	p.mu.Unlock()
	if thawed != nil {
		select {
		case <-thawed:
			time.Sleep(time.Duration(turn) * time.Microsecond) // one after the other
			return p.awake()
		case <-p.dead:
		}
	}
	select {
	case <-p.dead:
		return false
	default:
		return true
	}
}

func (p *process) freezeNow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.freeze++; p.freeze == 1 {
		p.thawed, p.waiting = make(chan struct{}), 0
	}
}

func (p *process) thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.freeze == 0 {
		return // of another life
	}
	if p.freeze--; p.freeze == 0 {
		close(p.thawed)
		p.thawed, p.since = nil, time.Now()
	}
}

// settled reports whether the process has been awake for long enough to have done everything that was due.
func (p *process) settled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.thawed == nil && time.Since(p.since) > 10*time.Millisecond
}

// kill ends the process. The rest of its client can reach no server any more.
func (p *process) kill() {
	close(p.dead)
	_ = p.client.Close(context.Background())
}

// processClock is the clock of a process. Its timers do not fire while the process is frozen.
type processClock struct {
	clock.Clock
	process *process
}

func (c processClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	return c.Clock.AfterFunc(d, func() {
		c.process.awake()
		f()
	})
}

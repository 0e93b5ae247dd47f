package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/faultinject/history"
	"github.com/quorumlock/quorumlock/faultinject/workload"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// Client is the main function of a client process, if [Run] started this process as one; otherwise it returns at
// once. A program or a test binary that calls Run must call Client first, and exit if it reports true.
func Client() (was bool, err error) {
	text, was := os.LookupEnv(environment)
	if !was {
		return false, nil
	}
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return true, fmt.Errorf("chaos: %s: %w", environment, err)
	}
	// Run writes a byte to the client's standard input when its workers should end, and closes it when the client may end.
	// No signal tells it, because one that comes before the client listens would kill it.
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	mayClose := make(chan struct{})
	go func() {
		if n, _ := os.Stdin.Read(make([]byte, 1)); n == 0 {
			os.Exit(3) // the test was killed, and the client must not outlive it
		}
		stop()
		_, _ = os.Stdin.Read(make([]byte, 1))
		close(mayClose)
	}()
	return true, s.runUntil(ctx, mayClose)
}

// runUntil works until ctx ends, and then waits until it may close.
func (s settings) runUntil(ctx context.Context, mayClose <-chan struct{}) (err error) {
	log, err := os.Create(filepath.Join(s.Dir, s.Label+".log"))
	if err != nil {
		return fmt.Errorf("chaos: the log of %s: %w", s.Label, err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	recorder, err := history.Create(s.Dir, s.Label)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, recorder.Close()) }()
	var leaks atomic.Int64
	cfg, closeNodes, err := s.withNodes(s.config())
	if err != nil {
		return err
	}
	defer closeNodes()
	cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	cfg.Hooks.Ended = func(e quorumlock.EndedEvent) {
		if errors.Is(e.Err, quorumlock.ErrLeaked) {
			leaks.Add(1)
		}
	}
	client, err := quorumlock.New(cfg)
	if err != nil {
		return err
	}
	workload.Set(cfg)
	workload.Set(cfg.Handover)
	err = errors.Join(s.work(ctx, client, cfg, recorder), s.saveDrawn())
	<-mayClose
	// Leases that Close could not release expire after the TTL, which Run waits for.
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	_ = client.Close(closing)
	if n := leaks.Load(); n > 0 { // workers release all leases
		err = errors.Join(err, fmt.Errorf("chaos: %s: the library forgot %d leases", s.Label, n))
	}
	return errors.Join(err, closing.Err())
}

func (s settings) work(ctx context.Context, client *quorumlock.Client, cfg quorumlock.Config, recorder *history.Recorder) error {
	var workers sync.WaitGroup
	workers.Go(func() { s.crowd(ctx, client) })
	errs := make([]error, len(s.Kinds)*s.Workers)
	for i := range errs {
		w := &worker{
			settings: s, number: i + 1, kind: s.Kinds[i/s.Workers],
			client: client, config: cfg, recorder: recorder, Drawer: workload.NewDrawer(s.Seed, uint64(i)),
		}
		workers.Go(func() { errs[i] = w.work(ctx) })
	}
	workers.Wait()
	return errors.Join(errs...)
}

// drawnSuffix is the end of the files with the counts of operations. A client that is killed leaves none.
const drawnSuffix = ".drawn"

func (s settings) saveDrawn() error {
	text, err := json.Marshal(workload.Drawn())
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.Dir, s.Label+drawnSuffix), text, 0o600)
}

func (c Config) drawn() (workload.Tally, error) {
	sum := make(workload.Tally)
	files, err := filepath.Glob(filepath.Join(c.Dir, "*"+drawnSuffix))
	for _, file := range files {
		var one workload.Tally
		text, failed := os.ReadFile(file)
		err = errors.Join(err, failed, json.Unmarshal(text, &one))
		sum.Add(one)
	}
	return sum, err
}

// settings are the parameters of a client process: the parameters of the run, with the client's own Seed,
// and more.
type settings struct {
	Config
	// Number is the index of its place among the clients.
	Number int
	// Label is its name in the history.
	Label string
	// Nodes are the addresses of the nodes, Resource is the address of the resource.
	Nodes    []string
	Resource string
	// Routes maps the addresses of a cluster's servers to the addresses to dial instead.
	Routes map[string]string
	// Wall is the offset of its wall clock, which tokens come from.
	Wall time.Duration
}

// skew is how far clocks may be off, by the largest limits.
func (c Config) skew() time.Duration { return c.TTL / 2 }

func (s settings) config() quorumlock.Config {
	wall := testkit.NewSkewed(clock.System(), 1)
	wall.StepWall(s.Wall)
	most := s.Limits.MaxTTL
	cfg := quorumlock.Config{
		Addresses: s.Nodes, Prefix: s.Prefix, TTL: most, MaxTTL: most, MaxClockSkew: s.Limits.MaxClockSkew, Recovery: s.Limits.Longer, Clock: wall, AllowEven: true,
	}
	if s.Patient {
		cfg.NodeTimeoutMin, cfg.NodeTimeoutMax = most/3, most/3
	}
	if s.Every {
		s.differ(&cfg)
	}
	return cfg
}

// differ sets what clients may set differently. The first client has the defaults.
func (s settings) differ(cfg *quorumlock.Config) {
	switch s.Number % 3 {
	case 1:
		cfg.TTL, cfg.Holder = cfg.TTL*3/4, "host"
		cfg.Handover, cfg.Redisson = quorumlock.Handover{MaxCount: 3, MaxTime: s.TTL / 20}, true
	case 2:
		cfg.MaxHold, cfg.Handover = 2*s.TTL, quorumlock.Handover{Off: true}
		cfg.Recovery = cfg.Limits().Recovery() * 6 / 5
		cfg.RetryMin, cfg.RetryMax = s.TTL/400, s.TTL/20
		cfg.NodeTimeoutMin, cfg.NodeTimeoutMax = s.TTL/20, s.TTL/8
	}
}

const environment = "QUORUMLOCK_CHAOS_CLIENT"

// crowdPatience is the longest time that a member of a crowd waits for a lock.
const crowdPatience = 50 * time.Millisecond

// crowd is more demand than the nodes can serve: callers with a lock of their own each, which give up soon and ask again
// at once. It may cost the workers time, but no lock, and the client must close in time.
func (s settings) crowd(ctx context.Context, client *quorumlock.Client) {
	var callers sync.WaitGroup
	for i := range s.Crowd {
		lock := client.RedLock(fmt.Sprintf("crowd/%s/%d", s.Label, i))
		callers.Go(func() {
			for ctx.Err() == nil {
				patience, cancel := context.WithTimeout(ctx, rand.N(crowdPatience)) //nolint:gosec // chance decides, no secret
				lease, err := lock.Acquire(patience)
				cancel()
				if err == nil {
					_ = lease.Release(ctx)
				}
			}
		})
	}
	callers.Wait()
}

package chaos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/faultinject/history"
)

// Client is the main function of a client process, if [Run] started this process as one; otherwise it returns at
// once. A program or a test binary that calls Run must call Client first, and exit if it reports true.
func Client() (was bool, err error) {
	text, was := os.LookupEnv(environment)
	if !was {
		return false, nil
	}
	s, err := decodeSettings(text)
	if err != nil {
		return true, err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	// Run closes the other end when the client may close its own. The end of a killed test closes it too, so that the
	// client does not outlive the test.
	mayClose := make(chan struct{})
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		if ctx.Err() == nil {
			os.Exit(3)
		}
		close(mayClose)
	}()
	return true, s.live(ctx, mayClose)
}

// live works until ctx ends, and then waits until it may close.
func (s settings) live(ctx context.Context, mayClose <-chan struct{}) (err error) {
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
	cfg := s.config()
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
	err = s.work(ctx, client, recorder)
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

// work runs all workers until ctx ends.
func (s settings) work(ctx context.Context, client *quorumlock.Client, recorder *history.Recorder) error {
	var workers sync.WaitGroup
	errs := make([]error, len(s.Kinds)*s.Workers)
	for i := range errs {
		w := &worker{
			settings: s, number: i + 1, kind: s.Kinds[i/s.Workers],
			client: client, recorder: recorder, rng: rand.New(rand.NewPCG(s.Seed, uint64(i))),
		}
		workers.Go(func() { errs[i] = w.work(ctx) })
	}
	workers.Wait()
	return errors.Join(errs...)
}

// worker is a goroutine of a client that uses objects of one kind.
type worker struct {
	settings
	number   int
	kind     Kind
	client   *quorumlock.Client
	recorder *history.Recorder
	rng      *rand.Rand
	desk     *desk
	// joints counts joint leases. kept has the lost ones that are not released: while the worker references them,
	// they cannot count as leaked.
	joints int
	kept   []*had
}

func (w *worker) work(ctx context.Context) (err error) {
	if w.desk, err = dial(ctx, w.Resource); err != nil {
		return err
	}
	defer func() { _ = w.desk.conn.Close() }()
	turn := w.turn
	if w.kind == Latch {
		turn = w.latchTurn
	}
	for ctx.Err() == nil {
		if err := turn(ctx); err != nil {
			return err
		}
	}
	return nil
}

// turn is one attempt to acquire something, and its use.
func (w *worker) turn(ctx context.Context) error {
	patience, cancel := context.WithTimeout(ctx, w.upTo(2*w.TTL))
	defer cancel()
	got := w.take(patience)
	longest := time.Now().Add(2 * w.TTL)
	if got == nil {
		sleep(ctx, w.upTo(w.leisure(20*time.Millisecond))) // it may have failed at once, and would again
		return nil
	}
	if err := w.use(ctx, got); err != nil {
		return err
	}
	if got.downgrade != nil && w.rng.IntN(2) == 0 {
		_ = got.read(ctx)
		if err := w.use(ctx, got); err != nil {
			return err
		}
	}
	if !w.Gentle && !w.Brisk && (w.rng.IntN(24) == 0 || got.keepLost && w.rng.IntN(4) == 0) {
		w.cling(ctx, got, longest)
	}
	if err := got.err(); err != nil {
		got.lost(err)
		if got.keepLost {
			w.kept = append(w.kept, got)
			return nil
		}
	}
	got.give(ctx)
	sleep(ctx, w.upTo(w.leisure(5*time.Millisecond)))
	return nil
}

// leisure lengthens a pause where several kinds are used, so that all kinds together keep the machine as busy as one
// alone.
func (w *worker) leisure(pause time.Duration) time.Duration {
	return pause * time.Duration(len(w.Kinds)*len(w.Kinds))
}

// cling is a careless holder, which releases only when its lease ends, or after a long time. It checks its lease all
// the time: an unobserved end proves nothing.
func (w *worker) cling(ctx context.Context, got *had, longest time.Time) {
	for time.Now().Before(longest) && got.act() == nil && ctx.Err() == nil {
		sleep(ctx, w.TTL/40)
	}
}

// use is the work of a holder: it checks its lease, and some time later it writes, as programs do. A late write is
// refused, and then the lease must have ended.
func (w *worker) use(ctx context.Context, got *had) error {
	hold := 10 * time.Millisecond // mostly
	switch long := w.rng.IntN(16); {
	case w.Brisk:
	case long < 2:
		hold = w.TTL / 4
	case long < 3:
		hold = 3 * w.TTL / 2
	}
	until := time.Now().Add(w.upTo(hold))
	for {
		if got.act() != nil {
			return nil
		}
		sleep(ctx, w.upTo(w.Think))
		for _, b := range got.badges {
			if err := w.desk.show(ctx, b); err != nil {
				return err
			}
		}
		if left := time.Until(until); left > 0 && ctx.Err() == nil {
			sleep(ctx, min(left, w.upTo(w.leisure(100*time.Millisecond))))
			continue
		}
		// The lease must have ended if the resource refused its token.
		_ = got.act()
		return nil
	}
}

func (w *worker) upTo(most time.Duration) time.Duration {
	return time.Duration(w.rng.Int64N(int64(most) + 1))
}

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
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/faultinject/history"
)

// Client is the whole life of a client process, if this one was started as such by [Run];
// otherwise it returns at once. A program or a test binary that calls Run calls Client
// first, and ends if it says so.
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
	// It must not outlive a test that was killed: that closes the other end.
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(3)
	}()
	return true, s.live(ctx)
}

// live works until ctx ends.
func (s settings) live(ctx context.Context) (err error) {
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
	cfg := s.config()
	cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	client, err := quorumlock.New(cfg)
	if err != nil {
		return err
	}
	var workers sync.WaitGroup
	errs := make([]error, s.Workers)
	for i := range s.Workers {
		w := &worker{settings: s, number: i + 1, client: client, recorder: recorder, rng: rand.New(rand.NewPCG(s.Seed, uint64(i)))}
		workers.Go(func() { errs[i] = w.work(ctx) })
	}
	workers.Wait()
	// What Close could not give back is gone after the TTL, which Run waits for.
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	_ = client.Close(closing)
	return errors.Join(errors.Join(errs...), closing.Err())
}

// worker is a goroutine of a client that takes and frees locks.
type worker struct {
	settings
	number   int
	client   *quorumlock.Client
	recorder *history.Recorder
	rng      *rand.Rand
	desk     *desk
}

func (w *worker) work(ctx context.Context) (err error) {
	if w.desk, err = dial(ctx, w.Resource); err != nil {
		return err
	}
	defer func() { _ = w.desk.conn.Close() }()
	for ctx.Err() == nil {
		if err := w.turn(ctx); err != nil {
			return err
		}
	}
	return nil
}

// turn is one try at a lock, and what comes of it.
func (w *worker) turn(ctx context.Context) error {
	lock := w.draw()
	patience, cancel := context.WithTimeout(ctx, w.upTo(2*w.TTL))
	defer cancel()
	attempt := w.recorder.Acquire(w.number, lock.Names()...)
	lease, err := lock.Acquire(patience)
	if err != nil {
		attempt.Failed(err)
		w.rest(ctx, w.upTo(20*time.Millisecond)) // it may have failed at once, and would again
		return nil
	}
	held := attempt.Granted(lease.Owner(), lease.Token())
	if err := w.use(ctx, lease, held); err != nil {
		return err
	}
	if !w.Gentle && !w.Brisk && w.rng.IntN(24) == 0 {
		w.cling(ctx, lease, held)
	}
	if err := lease.Err(); err != nil {
		held.Lost(err)
	}
	_ = held.Release(func() error { return lease.Release(ctx) })
	w.rest(ctx, w.upTo(5*time.Millisecond))
	return nil
}

// cling is a careless holder, who lets go when it is made to. It looks at its lease all the
// time: what nobody saw proves nothing.
func (w *worker) cling(ctx context.Context, lease *quorumlock.Lease, held *history.Holding) {
	for held.Act(lease.Err) == nil && ctx.Err() == nil {
		w.rest(ctx, w.TTL/40)
	}
}

// draw picks a lock.
func (w *worker) draw() *quorumlock.Lock {
	lock := w.client.RedLock(names[w.rng.IntN(len(names))])
	if w.Gentle {
		return lock
	}
	switch w.rng.IntN(10) {
	case 0:
		lock = w.client.MultiLock(names...)
	case 1:
		lock = w.client.MultiLock(names[w.rng.IntN(len(names))])
	}
	return lock.With(quorumlock.LockOptions{Fixed: w.rng.IntN(4) == 0, MaxHold: 2 * w.TTL})
}

// use is the work of a holder: it looks at its lease, and some time later it writes, as
// programs do. A write that comes too late is refused, and it sees why.
func (w *worker) use(ctx context.Context, lease *quorumlock.Lease, held *history.Holding) error {
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
		if held.Act(lease.Err) != nil {
			return nil
		}
		w.rest(ctx, w.upTo(w.Think))
		for _, name := range lease.Names() {
			if _, err := w.desk.write(name, lease.Token()); err != nil && ctx.Err() == nil {
				return err
			}
		}
		if left := time.Until(until); left > 0 && ctx.Err() == nil {
			w.rest(ctx, min(left, w.upTo(100*time.Millisecond)))
			continue
		}
		// What the resource has refused, the lease must not survive.
		_ = held.Act(lease.Err)
		return nil
	}
}

func (w *worker) rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (w *worker) upTo(most time.Duration) time.Duration {
	return time.Duration(w.rng.Int64N(int64(most) + 1))
}

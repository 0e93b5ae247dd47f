package history_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/faultinject/history"
	"github.com/quorumlock/quorumlock/node/memory"
)

// bench is two clients of three nodes, each with a recorder.
type bench struct {
	clients   [2]*quorumlock.Client
	recorders [2]*history.Recorder
	files     [2]bytes.Buffer
}

func newBench(t *testing.T) *bench {
	t.Helper()
	cfg := quorumlock.Config{Logger: slog.New(slog.DiscardHandler)}
	for i := range 3 {
		n := memory.New(fmt.Sprintf("n%d", i+1), nil)
		t.Cleanup(func() { require.NoError(t, n.Close()) })
		cfg.Nodes = append(cfg.Nodes, n)
	}
	_, err := admin.Init(t.Context(), cfg)
	require.NoError(t, err)
	b := &bench{}
	for i := range b.clients {
		b.clients[i], err = quorumlock.New(cfg)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, b.clients[i].Close(context.Background())) })
		b.recorders[i] = history.NewRecorder(fmt.Sprintf("c%d", i+1), &b.files[i], nil)
	}
	return b
}

// run runs a function for several workers of each client, and checks the recorded history.
func (b *bench) run(t *testing.T, workers int, work func(c *quorumlock.Client, r *history.Recorder, worker int) error) *history.Result {
	t.Helper()
	errs := make(chan error, len(b.clients)*workers)
	var all sync.WaitGroup
	for i, c := range b.clients {
		for worker := range workers {
			all.Go(func() { errs <- work(c, b.recorders[i], worker) })
		}
	}
	all.Wait()
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
	var files []string
	for i, r := range b.recorders {
		require.NoError(t, r.Close())
		files = append(files, b.files[i].String())
	}
	h, err := history.Read(strings.NewReader(strings.Join(files, "")))
	require.NoError(t, err)
	result := history.Check(h, time.Minute)
	require.NoError(t, result.Err())
	return result
}

// use records the grant of a lease, an act on it, and its release.
func use(ctx context.Context, attempt *history.Attempt, lease *quorumlock.Lease, err error, meanwhile func(*history.Holding) error) error {
	if err != nil {
		attempt.Failed(err)
		return err
	}
	held := attempt.Granted(lease.Owner(), lease.Token(), lease.Slots()...)
	if err := held.Act(lease.Err); err != nil {
		return err
	}
	if err := meanwhile(held); err != nil {
		return err
	}
	return held.Release(func() error { return lease.Release(ctx) })
}

func nothing(*history.Holding) error { return nil }

func TestReadersAndWritersOfTheLibrary(t *testing.T) {
	ctx := t.Context()
	result := newBench(t).run(t, 3, func(c *quorumlock.Client, r *history.Recorder, worker int) error {
		rw := c.RWLock("catalogue")
		for i := range 20 {
			var err error
			if worker > 0 {
				attempt := r.AcquireRead(worker, "catalogue")
				lease, got := rw.Read().Acquire(ctx)
				err = use(ctx, attempt, lease, got, nothing)
			} else {
				attempt := r.Acquire(worker, "catalogue")
				lease, got := rw.Write().Acquire(ctx)
				err = use(ctx, attempt, lease, got, func(held *history.Holding) error {
					if i%2 == 0 {
						return nil
					}
					if err := held.Downgrade(func() error { return lease.Downgrade(ctx) }); err != nil {
						return err
					}
					return held.Act(lease.Err)
				})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	require.Equal(t, 120, result.Names["catalogue"].Released)
}

func TestPermitsOfTheLibrary(t *testing.T) {
	ctx := t.Context()
	// One client at a time sets the size. A call that meets a later version tries again with a newer one,
	// so of two calls at the same time one may take effect twice. The model has no such call.
	var resizing sync.Mutex
	result := newBench(t).run(t, 4, func(c *quorumlock.Client, r *history.Recorder, worker int) error {
		s := c.Semaphore("exports", 2)
		for i := range 15 {
			if worker == 0 {
				size := 2 + i%3
				resizing.Lock()
				err := r.Resize(worker, "exports", size, func() error { return s.SetPermits(ctx, size) })
				resizing.Unlock()
				if err != nil {
					return err
				}
			}
			n := 1 + i%2
			attempt := r.AcquirePermits(worker, "exports", n, 2)
			lease, err := s.Acquire(ctx, n)
			if err := use(ctx, attempt, lease, err, nothing); err != nil {
				return err
			}
		}
		return nil
	})
	require.Equal(t, 120, result.Semaphores["exports"].Released)
}

func TestLatchesOfTheLibrary(t *testing.T) {
	ctx := t.Context()
	result := newBench(t).run(t, 4, func(c *quorumlock.Client, r *history.Recorder, worker int) error {
		l := c.Latch("ready")
		if err := r.SetLatch(worker, "ready", 4, func() error { return l.Set(ctx, 4) }); err != nil {
			return err
		}
		// Both clients count down for the same ids, so each id is counted down twice.
		if err := r.CountDown(worker, "ready", fmt.Sprint(worker), func() error { return l.CountDown(ctx, fmt.Sprint(worker)) }); err != nil {
			return err
		}
		// Count asks once. It may find no quorum of nodes with the same ids while others count down.
		if _, err := r.CountLatch(worker, "ready", func() (int, error) { return l.Count(ctx) }); err != nil && !errors.Is(err, quorumlock.ErrNoQuorum) {
			return err
		}
		return r.AwaitLatch(worker, "ready", func() error { return l.Await(ctx) })
	})
	counts := result.Latches["ready"]
	require.Equal(t, history.LatchCounts{Sets: 8, CountDowns: 8, Counts: 8 - counts.Failed, Dones: 8, Failed: counts.Failed}, counts)
}

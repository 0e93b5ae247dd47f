package quorumlock_test

import (
	"context"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

func TestCloseTriesUndosOnceMore(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client()
		lease, err := c.RedLock("job").TryAcquire(t.Context())
		require.NoError(t, err)
		fleet.Settle()
		f.Stop(2)
		require.NoError(t, lease.Release(t.Context()))
		fleet.Settle()
		f.Start(2)
		require.NoError(t, c.Close(t.Context()))
		f.RequireNoKeys()
	})
}

// The end of a context says nothing about a client that is closed already.
func TestCloseAgainWithAContextThatHasEnded(t *testing.T) {
	fleet.InVirtualTime(t, 1, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client()
		require.NoError(t, c.Close(t.Context()))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for range 100 {
			require.NoError(t, c.Close(ended))
		}
	})
}

func TestCloseEndsAWaitAtOnce(t *testing.T) {
	for _, hung := range []bool{false, true} {
		fleet.InVirtualTime(t, 1, func(t *testing.T, f *fleet.Fleet) {
			c := f.Client(func(cfg *quorumlock.Config) { cfg.RetryMin, cfg.RetryMax = 9*time.Second, 9*time.Second })
			f.Take("job", "x", 0)
			if hung {
				f.Pause(0)
			}
			began := f.Clock.Now()
			ended := make(chan time.Duration, 1)
			go func() {
				_, err := c.RedLock("job").Acquire(context.Background())
				if err == nil {
					panic("acquired")
				}
				ended <- f.Clock.Now() - began
			}()
			fleet.Settle()
			go func() { _ = c.Close(context.Background()) }()
			require.Zero(t, <-ended)
			f.Resume(0)
		})
	}
}

func TestClosedClientSendsNothing(t *testing.T) {
	fleet.InVirtualTime(t, 1, func(t *testing.T, f *fleet.Fleet) {
		c, spies := f.SpiedClient()
		require.NoError(t, c.Close(t.Context()))
		job, nothing := c.RedLock("job"), func(context.Context) error { t.Error("it runs"); return nil }
		acquired := func(_ any, err error) error { return err }
		for i, err := range []error{
			acquired(job.TryAcquire(t.Context())), acquired(job.Acquire(t.Context())), job.Do(t.Context(), nothing),
			acquired(job.Inspect(t.Context())), acquired(job.ForceRelease(t.Context())), c.Connect(t.Context()),
			c.Semaphore("jobs", 2).SetPermits(t.Context(), 3), c.Latch("ready").Set(t.Context(), 1),
		} {
			require.ErrorIs(t, err, quorumlock.ErrClosed, i)
		}
		fleet.Settle()
		require.Zero(t, fleet.TotalAsked(spies))
	})
}

func TestCloseWaitsForHooks(t *testing.T) {
	hook, over := make(chan struct{}), false
	fleet.InVirtualTime(t, 1, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client(func(cfg *quorumlock.Config) { cfg.Hooks.Acquired = func(quorumlock.AcquiredEvent) { <-hook } })
		hook = make(chan struct{})
		go func() { _, _ = c.RedLock("job").TryAcquire(context.Background()) }()
		fleet.Settle()
		go func() { _ = c.Close(context.Background()); over = true }()
		fleet.Settle()
		require.False(t, over, "a hook is still being told")
		close(hook)
		fleet.Settle()
		require.True(t, over)
		f.RequireNoKeys()
	})
}

// initialize sets up new nodes, as an operator does.
func initialize(t *testing.T, cfg quorumlock.Config) {
	t.Helper()
	_, err := admin.Init(t.Context(), cfg)
	require.NoError(t, err)
}

// TestCloseBehindTheEndOfALease runs in real time. A lease ends in the scheduler's goroutine. A
// user that waits for this end closes the client while the client still reports it.
func TestCloseBehindTheEndOfALease(t *testing.T) {
	for range 200 {
		var told atomic.Bool
		cfg := quorumlock.Config{
			Nodes:  []node.Node{memory.New("a", nil)},
			Logger: slog.New(slog.DiscardHandler),
			Hooks:  quorumlock.Hooks{Ended: func(quorumlock.EndedEvent) { told.Store(true) }},
		}
		initialize(t, cfg)
		c, err := quorumlock.New(cfg)
		require.NoError(t, err)
		lease, err := c.RedLock("job").With(quorumlock.LockOptions{MaxHold: time.Millisecond}).TryAcquire(t.Context())
		require.NoError(t, err)
		<-lease.Context().Done()
		require.NoError(t, c.Close(t.Context()))
		require.True(t, told.Load(), "Close waits for the hooks")
	}
}

// TestReleasedLeaseIsNotCountedTwice runs outside of any bubble, as the garbage collector does.
func TestReleasedLeaseIsNotCountedTwice(t *testing.T) {
	m := memory.New("a", nil)
	cfg := quorumlock.Config{Nodes: []node.Node{m}, Logger: slog.New(slog.DiscardHandler)}
	initialize(t, cfg)
	c, err := quorumlock.New(cfg)
	require.NoError(t, err)
	outer, err := c.RedLock("job").TryAcquire(t.Context())
	require.NoError(t, err)
	collected := make(chan struct{})
	func() {
		inner, err := c.RedLock("job").TryAcquire(outer.Context())
		require.NoError(t, err)
		// Cleanups of one object run in no certain order, but all of them run.
		runtime.AddCleanup(inner, func(int) { close(collected) }, 0)
		require.NoError(t, inner.Release(t.Context()))
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		select {
		case <-collected:
			return true
		default:
			return false
		}
	}, 20*time.Second, time.Millisecond)
	runtime.GC()
	require.NoError(t, outer.Err())
	require.NoError(t, outer.Release(t.Context()))
	require.Empty(t, m.Keys(), "the outer one is the last, as the inner one was given back once")
	require.NoError(t, c.Close(t.Context()))
}

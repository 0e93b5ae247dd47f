package quorumlock

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

func TestCloseTriesUndosOnceMore(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *Client, m []*node.Memory) {
		lease, err := c.RedLock("job").TryAcquire(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		m[2].Stop()
		require.NoError(t, lease.Release(t.Context()))
		synctest.Wait()
		m[2].Start()
		require.NoError(t, c.Close(t.Context()))
		require.Zero(t, keys(m...))
	})
}

func TestCloseEndsAWaitAtOnce(t *testing.T) {
	for _, hung := range []bool{false, true} {
		inside(t, 1, func(t *testing.T, c *Client, m []*node.Memory) {
			grab(t, c, m[0], "job", "x", DefaultTTL)
			if hung {
				m[0].Pause()
			}
			began := c.clock.Now()
			ended := make(chan time.Duration, 1)
			go func() {
				_, err := c.RedLock("job").Acquire(context.Background())
				if err == nil {
					panic("acquired")
				}
				ended <- c.clock.Now() - began
			}()
			synctest.Wait()
			go func() { _ = c.Close(context.Background()) }()
			require.Zero(t, <-ended)
			m[0].Resume()
		}, func(cfg *Config) { cfg.RetryMin, cfg.RetryMax = 9*time.Second, 9*time.Second })
	}
}

func TestAClosedClientSendsNothing(t *testing.T) {
	inside(t, 1, func(t *testing.T, c *Client, _ []*node.Memory) {
		require.NoError(t, c.Close(t.Context()))
		sequence := c.sequence.Load()
		_, err := c.RedLock("job").TryAcquire(t.Context())
		require.ErrorIs(t, err, ErrClosed)
		require.Equal(t, sequence, c.sequence.Load(), "not even an owner id was made")
	})
}

func TestCloseWaitsForHooks(t *testing.T) {
	hook, over := make(chan struct{}), false
	inside(t, 1, func(t *testing.T, c *Client, m []*node.Memory) {
		hook = make(chan struct{})
		go func() { _, _ = c.RedLock("job").TryAcquire(context.Background()) }()
		synctest.Wait()
		go func() { _ = c.Close(context.Background()); over = true }()
		synctest.Wait()
		require.False(t, over, "a hook is still being told")
		close(hook)
		synctest.Wait()
		require.True(t, over)
		require.Zero(t, keys(m...))
	}, func(cfg *Config) { cfg.Hooks.Acquired = func(AcquiredEvent) { <-hook } })
}

// TestCloseBehindTheEndOfALease runs in real time. A lease ends in the scheduler's goroutine. A
// user that waits for this end closes the client while the client still reports it.
func TestCloseBehindTheEndOfALease(t *testing.T) {
	for range 200 {
		var told atomic.Bool
		cfg := Config{
			Nodes:  []node.Node{node.NewMemory("a", nil)},
			Logger: slog.New(slog.DiscardHandler),
			Hooks:  Hooks{Ended: func(EndedEvent) { told.Store(true) }},
		}
		open(t, cfg)
		c, err := New(cfg)
		require.NoError(t, err)
		lease, err := c.RedLock("job").With(LockOptions{MaxHold: time.Millisecond}).TryAcquire(t.Context())
		require.NoError(t, err)
		<-lease.Context().Done()
		require.NoError(t, c.Close(t.Context()))
		require.True(t, told.Load(), "Close waits for the hooks")
	}
}

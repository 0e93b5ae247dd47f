package realtest_test

import (
	"context"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// fewGoroutines allows for the goroutines of connections and of one stuck sender.
const fewGoroutines = 10

// The node timeout is so long that the rounds do not end in time if each of them waits for it once.
func TestRealBadMinorityDelaysNoCall(t *testing.T) {
	const rounds, timeout = 300, 2 * time.Second
	for _, bad := range []struct {
		what   string
		happen func(c *cluster)
		repair func(c *cluster)
	}{
		{"none bad", func(*cluster) {}, func(*cluster) {}},
		{"one hung", func(c *cluster) { c.pause(4) }, func(c *cluster) { c.resume(4) }},
		{"two hung", func(c *cluster) { c.pause(0, 4) }, func(c *cluster) { c.resume(0, 4) }},
		{"one killed", func(c *cluster) { c.kill(4) }, func(c *cluster) { c.restart(4) }},
		{"one down, one hung", func(c *cluster) { c.kill(0); c.pause(4) }, func(c *cluster) { c.restart(0); c.resume(4) }},
	} {
		t.Run(bad.what, func(t *testing.T) {
			c := startCluster(t, 5)
			var logged countingHandler
			lock := c.client(func(cfg *quorumlock.Config) {
				cfg.NodeTimeoutMin, cfg.NodeTimeoutMax = timeout, timeout
				cfg.Logger = slog.New(&logged)
			}).RedLock("job")
			use(t, lock, 20)
			before := runtime.NumGoroutine()

			bad.happen(c)
			use(t, lock, rounds)
			eventually(t, soon, func() bool { return runtime.NumGoroutine() <= before+fewGoroutines },
				"about %d goroutines are left, as before", before)
			// Compare rueidis #630: the log was full of timeouts.
			require.LessOrEqual(t, logged.lines.Load(), int64(4), "a bad node is logged once, and not for each operation")

			bad.repair(c)
			c.noKeys() // This includes the nodes that ran the acquisitions late.
		})
	}
}

// use acquires, extends and releases a lock a number of times.
func use(t *testing.T, lock *quorumlock.Lock, rounds int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	for range rounds {
		lease, err := lock.Acquire(ctx)
		require.NoError(t, err, "three of five nodes are good")
		require.NoError(t, lease.Extend(ctx))
		require.NoError(t, lease.Release(ctx))
	}
}

// countingHandler counts log lines.
type countingHandler struct{ lines atomic.Int64 }

func (h *countingHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h *countingHandler) Handle(context.Context, slog.Record) error {
	h.lines.Add(1)
	return nil
}

func (h *countingHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h *countingHandler) WithGroup(string) slog.Handler      { return h }

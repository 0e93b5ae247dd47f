package realtest_test

import (
	"context"
	"log/slog"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// fewGoroutines allows for the goroutines of connections and of one stuck sender.
const fewGoroutines = 10

// hungAfter is the node timeout of a client that has to tell hung nodes from good ones.
const hungAfter = 2 * time.Second

func TestRealBadMinorityDelaysNoCall(t *testing.T) {
	const rounds, timeout = 300, hungAfter
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
			measure(t, lock, 20)
			before := runtime.NumGoroutine()

			bad.happen(c)
			for step, took := range measure(t, lock, rounds) {
				slices.Sort(took)
				median := took[rounds/2]
				t.Logf("%-8s median %8v  p90 %8v  most %8v", []string{"acquire", "extend", "release"}[step],
					median.Round(time.Microsecond), took[rounds*9/10].Round(time.Microsecond), took[rounds-1].Round(time.Microsecond))
				require.Less(t, median, timeout, "no call may wait for the timeout of a bad node")
			}
			eventually(t, soon, func() bool { return runtime.NumGoroutine() <= before+fewGoroutines },
				"about %d goroutines are left, as before", before)
			// Compare rueidis #630: the log was full of timeouts.
			require.LessOrEqual(t, logged.lines.Load(), int64(4), "a bad node is logged once, and not for each operation")

			bad.repair(c)
			c.noKeys() // This includes the nodes that ran the acquisitions late.
		})
	}
}

// The client still reports a held lock as held while a minority of the nodes is down.
func TestRealErrHeldDespiteBadMinority(t *testing.T) {
	for what, happen := range map[string]func(c *cluster){
		"one killed":         func(c *cluster) { c.kill(4) },
		"two killed":         func(c *cluster) { c.kill(3, 4) },
		"one hung":           func(c *cluster) { c.pause(4) },
		"one down, one hung": func(c *cluster) { c.kill(3); c.pause(4) },
	} {
		t.Run(what, func(t *testing.T) {
			c := startCluster(t, 5)
			holder := acquire(t, c.client().RedLock("job"))
			c.holds("job", holder.Owner())
			lock := c.client().RedLock("job")
			happen(c)
			for range 20 {
				_, err := lock.TryAcquire(t.Context())
				var held *quorumlock.HeldError
				require.ErrorAs(t, err, &held, "three nodes answered, and all of them denied")
				require.Equal(t, holder.Owner(), held.Owner)
			}
			require.NoError(t, holder.Release(t.Context()))
		})
	}
}

// measure runs rounds of acquire, extend and release and returns the duration of each round. The node timeout of the
// client must be hungAfter.
func measure(t *testing.T, lock *quorumlock.Lock, rounds int) (took [3][]time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	for range rounds {
		var lease *quorumlock.Lease
		steps := []func() error{
			func() (err error) { lease, err = lock.Acquire(ctx); return err },
			func() error { return lease.Extend(t.Context()) },
			func() error { return lease.Release(t.Context()) },
		}
		for i, step := range steps {
			began := time.Now()
			err := step()
			require.NoError(t, err, "step %d failed, although three of five nodes are good", i)
			took[i] = append(took[i], time.Since(began))
		}
	}
	return took
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

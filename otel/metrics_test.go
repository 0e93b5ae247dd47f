package quorumotel_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/wire"
	quorumotel "github.com/quorumlock/quorumlock/otel"
)

func TestLeaseIsMeasuredFromCallToEnd(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, f *observed) {
		lock := f.client().RedLock("job")
		lease := f.acquire(lock)
		require.Equal(t, map[string]int64{"": 1}, f.points("quorumlock.lease.count"))
		time.Sleep(9 * time.Second)
		f.release(lease)

		require.Equal(t, map[string]int64{"": 0}, f.points("quorumlock.lease.count"))
		require.Equal(t, map[string]int64{"lease.handed_over=false": 1}, f.points("quorumlock.acquire.duration"))
		require.Equal(t, map[string]int64{"": 1}, f.points("quorumlock.acquire.wait.duration"))
		require.Equal(t, map[string]int64{"": 1, "error.type=no_quorum": 0}, f.points("quorumlock.acquire.rounds"))
		require.Equal(t, map[string]int64{
			"lease.end=expired": 0, "lease.end=forced": 0, "lease.end=hold_limit": 0, "lease.end=leaked": 0, "lease.end=unconfirmed": 0,
			"lease.end=taken": 0, "lease.end=gone": 0,
		}, f.points("quorumlock.lease.losses"), "counters start at 0, so that the first loss is an increase")
		require.Equal(t, 9*time.Second, f.took("quorumlock.lease.duration", "lease.end=released"))
		require.Positive(t, f.points("quorumlock.lease.renewals")[""])
		for _, n := range []string{"n1", "n2", "n3"} {
			require.EqualValues(t, 1, f.points("quorumlock.node.up")["node.name="+n])
			require.EqualValues(t, 1, f.points("quorumlock.node.votes")["node.name="+n+" operation=acquire vote=granted"])
			require.EqualValues(t, 1, f.points("quorumlock.node.operation.duration")["node.name="+n+" operation=acquire"])
			require.Positive(t, f.points("quorumlock.node.votes")["node.name="+n+" operation=renew vote=granted"])
		}
	})
}

func TestWaitingIsMeasuredSeparately(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, f *observed) {
		held := f.acquire(f.client().RedLock("job"))
		time.AfterFunc(3*time.Second, func() { _ = held.Release(context.Background()) })
		f.release(f.acquire(f.client().RedLock("job")))
		require.GreaterOrEqual(t, f.took("quorumlock.acquire.wait.duration", ""), 3*time.Second)
		require.GreaterOrEqual(t, f.took("quorumlock.acquire.duration", "lease.handed_over=false"), 3*time.Second)
		require.Positive(t, f.points("quorumlock.acquire.rounds")["error.type=held"])
		require.Positive(t, f.points("quorumlock.node.votes")["node.name=n1 operation=acquire vote=denied"])
	})
}

func TestHandoversAreCountedSeparately(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, f *observed) {
		other := f.acquire(f.client().RedLock("job"))
		client := f.client()
		leases := make(chan *quorumlock.Lease, 2)
		for range 2 {
			go func() {
				if lease, err := client.RedLock("job").Acquire(context.Background()); err == nil {
					leases <- lease
				}
			}()
		}
		synctest.Wait()
		f.release(other)
		f.release(<-leases)
		f.release(<-leases)
		require.Equal(t, map[string]int64{"lease.handed_over=false": 2, "lease.handed_over=true": 1}, f.points("quorumlock.acquire.duration"))
		require.EqualValues(t, 2, f.points("quorumlock.acquire.rounds")[""])
		require.Equal(t, map[string]int64{"lease.end=released": 3}, f.points("quorumlock.lease.duration"))
		require.Equal(t, map[string]int64{"": 0}, f.points("quorumlock.lease.count"))
	})
}

func TestFailuresAreCountedByKind(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, f *observed) {
		client := f.client()
		held := f.acquire(client.RedLock("job"))
		require.ErrorIs(t, fleet.MustBeRefused(t, f.client().RedLock("job")), quorumlock.ErrHeld)
		f.release(held)
		for _, nd := range f.Nodes {
			nd.Pause()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := client.RedLock("job").TryAcquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		for _, nd := range f.Nodes {
			nd.Resume()
		}
		synctest.Wait() // so that no node still holds an operation back
		f.Stop(0, 1)
		require.ErrorIs(t, fleet.MustBeRefused(t, client.RedLock("job")), quorumlock.ErrNoQuorum)
		require.ErrorIs(t, fleet.MustBeRefused(t, client.RedLock("job")), quorumlock.ErrNoQuorum)
		synctest.Wait()
		require.Equal(t, map[string]int64{
			"lease.handed_over=false": 1,
			"error.type=held":         1, "error.type=timeout": 1, "error.type=no_quorum": 2,
		}, f.points("quorumlock.acquire.duration"))
		require.EqualValues(t, 2, f.points("quorumlock.acquire.rounds")["error.type=no_quorum"])
		require.EqualValues(t, 2, f.points("quorumlock.node.votes")["error.type=unreachable node.name=n1 operation=acquire vote=unknown"],
			"the second attempt does not ask the node, which is down, and counts it by the cause")
		require.EqualValues(t, 0, f.points("quorumlock.node.up")["node.name=n1"])
		require.EqualValues(t, 1, f.points("quorumlock.node.up")["node.name=n3"])
		f.Nodes[0].Start()
		require.NoError(t, f.acquire(client.RedLock("job")).Release(t.Context()))
		synctest.Wait()
		require.EqualValues(t, 1, f.points("quorumlock.node.up")["node.name=n1"], "n1 answers again")
	})
}

func TestLossesAreCountedByCause(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, f *observed) {
		client := f.client()
		lose := func(o quorumlock.LockOptions, fail func(*quorumlock.Lock)) {
			lock := client.RedLock("job").With(o)
			lease := f.acquire(lock)
			fail(lock)
			<-lease.Context().Done()
			require.Error(t, lease.Err())
			synctest.Wait()
		}
		nothing := func(*quorumlock.Lock) {}
		lose(quorumlock.LockOptions{Fixed: true}, nothing)
		lose(quorumlock.LockOptions{MaxHold: time.Second}, nothing)
		lose(quorumlock.LockOptions{}, func(l *quorumlock.Lock) {
			_, err := l.ForceRelease(t.Context())
			require.NoError(t, err)
		})
		deleteLock := func(owner string) { // as an operator does it by hand
			for _, nd := range f.Nodes {
				nd.Do(t.Context(), []wire.Op{{Kind: wire.Release, Names: []string{"job"}, Owner: owner}}, make([]wire.Reply, 1))
			}
		}
		var next *quorumlock.Lease
		other := f.client()
		lose(quorumlock.LockOptions{}, func(l *quorumlock.Lock) {
			synctest.Wait()
			status, err := l.Inspect(t.Context())
			require.NoError(t, err)
			deleteLock(status.Holder())
			next = f.acquire(other.RedLock("job"))
		})
		synctest.Wait()
		deleteLock(next.Owner())
		require.ErrorIs(t, next.Release(t.Context()), quorumlock.ErrLost)
		synctest.Wait()
		lose(quorumlock.LockOptions{}, func(*quorumlock.Lock) { f.Stop(0, 1) })
		require.Equal(t, map[string]int64{
			"lease.end=expired": 1, "lease.end=hold_limit": 1, "lease.end=forced": 1, "lease.end=unconfirmed": 1, "lease.end=leaked": 0,
			"lease.end=taken": 1, "lease.end=gone": 1,
		}, f.points("quorumlock.lease.losses"))
		require.Positive(t, f.points("quorumlock.lease.renewals")["error.type=no_quorum"])
	})
}

func TestCloseCountsNoLosses(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, f *observed) {
		client := f.client()
		f.acquire(client.RedLock("job"))
		require.NoError(t, client.Close(t.Context()))
		require.Equal(t, map[string]int64{"lease.end=closed": 1}, f.points("quorumlock.lease.duration"))
		for cause, n := range f.points("quorumlock.lease.losses") {
			require.Zero(t, n, cause)
		}
	})
}

func TestDegradedLeasesAreCounted(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, f *observed) {
		client := f.client()
		a, b := f.acquire(client.RedLock("a")), f.acquire(client.RedLock("b"))
		f.Stop(2)
		time.Sleep(15 * time.Second)
		require.Equal(t, map[string]int64{"lease.spare=0": 2}, f.points("quorumlock.lease.degraded"))
		f.release(a)
		require.Equal(t, map[string]int64{"lease.spare=0": 1}, f.points("quorumlock.lease.degraded"))
		f.Nodes[2].Start()
		time.Sleep(15 * time.Second)
		require.Equal(t, map[string]int64{"lease.spare=0": 0}, f.points("quorumlock.lease.degraded"))
		f.release(b)
	})
}

func TestRecoveriesAreCounted(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, f *observed) {
		f.Nodes[0].Flush()
		f.release(f.acquire(f.client().RedLock("job")))
		recoveries := f.points("quorumlock.node.recoveries")
		require.EqualValues(t, 1, recoveries["node.had_marker=false node.name=n1"])
		for _, none := range []string{"true node.name=n1", "false node.name=n2", "false node.name=n3"} {
			require.Contains(t, recoveries, "node.had_marker="+none)
			require.Zero(t, recoveries["node.had_marker="+none])
		}
		require.EqualValues(t, 1, f.points("quorumlock.node.votes")["error.type=recovering node.name=n1 operation=acquire vote=unknown"])
	})
}

func TestLatchesAreMeasured(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, f *observed) {
		latch := f.client().Latch("ready")
		require.ErrorIs(t, latch.CountDown(t.Context(), "a"), quorumlock.ErrLatchNotSet)
		require.NoError(t, latch.Set(t.Context(), 1))
		require.NoError(t, latch.CountDown(t.Context(), "a"))
		synctest.Wait()
		require.Equal(t, map[string]int64{
			"error.type=latch_not_set operation=count down": 1, "operation=set latch": 1, "operation=count down": 1,
		}, f.points("quorumlock.latch.duration"))
	})
}

func TestLocksAreGrouped(t *testing.T) {
	group := quorumotel.WithLockGroup(func(name string) string {
		kind, _, _ := strings.Cut(name, "-")
		return kind
	})
	inVirtualTime(t, func(t *testing.T, f *observed) {
		client := f.client()
		for _, name := range []string{"invoice-1", "invoice-2", "report-1"} {
			f.release(f.acquire(client.RedLock(name)))
		}
		lease, err := client.MultiLock("zebra-1", "report-1").Acquire(t.Context())
		require.NoError(t, err)
		f.release(lease)
		require.Equal(t, map[string]int64{"lock.group=invoice": 2, "lock.group=report": 2}, f.points("quorumlock.acquire.wait.duration"))
	}, group)
}

// TestNumberOfGroupsIsBounded: a function that returns ever new groups must not create ever new time series.
func TestNumberOfGroupsIsBounded(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, f *observed) {
		client := f.client()
		for range 2 {
			for i := range 120 {
				f.release(f.acquire(client.RedLock("job-" + strconv.Itoa(i))))
			}
		}
		calls := f.points("quorumlock.acquire.wait.duration")
		require.Len(t, calls, 101)
		require.EqualValues(t, 40, calls["lock.group=_OTHER"])
		require.EqualValues(t, 2, calls["lock.group=job-99"])
	}, quorumotel.WithLockGroup(func(name string) string { return name }))
}

func TestLockNamesAreNotRecordedByDefault(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, f *observed) {
		f.release(f.acquire(f.client().RedLock("very-special")))
		for name := range f.measured() {
			for attributes := range f.points(name) {
				require.NotContains(t, attributes, "very-special", name)
			}
		}
	})
}

// failingMeter is a meter that cannot make one kind of instrument.
type failingMeter struct{ noop.Meter }

func (failingMeter) Int64Gauge(string, ...metric.Int64GaugeOption) (metric.Int64Gauge, error) {
	return nil, context.Canceled
}

type failingProvider struct{ noop.MeterProvider }

func (failingProvider) Meter(string, ...metric.MeterOption) metric.Meter { return failingMeter{} }

func TestFailedInstrumentIsAnError(t *testing.T) {
	_, err := quorumotel.NewHooks(quorumotel.WithMeterProvider(failingProvider{}))
	require.ErrorIs(t, err, context.Canceled)
	_, err = quorumotel.NewHooks()
	require.NoError(t, err, "the default global providers do nothing")
}

// TestNodeIsUpForTheNextClient: the client that took a node for down is closed. The next client of the same hooks gets
// answers from the node and no NodeUp, since it never took the node for down.
func TestNodeIsUpForTheNextClient(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, f *observed) {
		first := f.client()
		f.release(f.acquire(first.RedLock("job")))
		f.Stop(0)
		f.release(f.acquire(first.RedLock("job")))
		require.EqualValues(t, 0, f.points("quorumlock.node.up")["node.name=n1"])
		_ = first.Close(t.Context()) // the last release is not confirmed by n1
		granted := func() int64 { return f.points("quorumlock.node.votes")["node.name=n1 operation=acquire vote=granted"] }
		before := granted()
		f.Nodes[0].Start()
		f.release(f.acquire(f.client().RedLock("job")))
		require.Greater(t, granted(), before)
		require.EqualValues(t, 1, f.points("quorumlock.node.up")["node.name=n1"])
	})
}

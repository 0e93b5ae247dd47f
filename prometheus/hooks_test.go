package quorumprom_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/measure"
	"github.com/quorumlock/quorumlock/node/memory"
	quorumprom "github.com/quorumlock/quorumlock/prometheus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fleet is three in-memory nodes, and the metrics of its client.
type fleet struct {
	nodes    []*memory.Node
	registry *prometheus.Registry
	client   *quorumlock.Client
}

// inVirtualTime runs a test in a bubble, where time passes only while all goroutines wait.
func inVirtualTime(t *testing.T, test func(t *testing.T, f *fleet), options ...quorumprom.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{registry: prometheus.NewPedanticRegistry()}
		hooks, err := quorumprom.NewHooks(f.registry, options...)
		require.NoError(t, err)
		cfg := quorumlock.Config{Clock: clock.Process(), Logger: slog.New(slog.DiscardHandler), Hooks: hooks}
		for i := range 3 {
			f.nodes = append(f.nodes, memory.New(fmt.Sprintf("n%d", i+1), clock.Process()))
			cfg.Nodes = append(cfg.Nodes, f.nodes[i])
		}
		_, err = admin.Init(t.Context(), cfg)
		require.NoError(t, err)
		f.client, err = quorumlock.New(cfg)
		require.NoError(t, err)
		test(t, f)
		require.NoError(t, f.client.Close(context.Background()))
	})
}

// requireMetrics compares metrics with the text that a scrape gets.
func (f *fleet) requireMetrics(t *testing.T, want string, names ...string) {
	t.Helper()
	synctest.Wait()
	require.NoError(t, testutil.GatherAndCompare(f.registry, strings.NewReader(want), names...))
}

func TestLeaseIsMeasured(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, f *fleet) {
		lease, err := f.client.RedLock("invoice-1").Acquire(t.Context())
		require.NoError(t, err)
		_, err = f.client.RedLock("invoice-1").TryAcquire(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrHeld)
		f.requireMetrics(t, `
			# HELP quorumlock_lease_count Leases that are held.
			# TYPE quorumlock_lease_count gauge
			quorumlock_lease_count{quorumlock_lock_group="invoice"} 1
		`, "quorumlock_lease_count")
		time.Sleep(9 * time.Second)
		require.NoError(t, lease.Release(t.Context()))
		f.requireMetrics(t, `
			# HELP quorumlock_acquire_rounds_total Attempts to acquire, by outcome.
			# TYPE quorumlock_acquire_rounds_total counter
			quorumlock_acquire_rounds_total{error_type="",quorumlock_lock_group="invoice"} 1
			quorumlock_acquire_rounds_total{error_type="held",quorumlock_lock_group="invoice"} 1
			quorumlock_acquire_rounds_total{error_type="no_quorum",quorumlock_lock_group="invoice"} 0
			# HELP quorumlock_lease_count Leases that are held.
			# TYPE quorumlock_lease_count gauge
			quorumlock_lease_count{quorumlock_lock_group="invoice"} 0
			# HELP quorumlock_node_up 1 if a node answers, 0 if it is only probed.
			# TYPE quorumlock_node_up gauge
			quorumlock_node_up{quorumlock_node_name="n1"} 1
			quorumlock_node_up{quorumlock_node_name="n2"} 1
			quorumlock_node_up{quorumlock_node_name="n3"} 1
		`, "quorumlock_acquire_rounds_total", "quorumlock_lease_count", "quorumlock_node_up")
	}, quorumprom.WithLockGroup(func(name string) string { return strings.Split(name, "-")[0] }))
}

// Times are in seconds, and the buckets have the bounds of package otel.
func TestTimesAreInSeconds(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, f *fleet) {
		lease, err := f.client.RedLock("job").Acquire(t.Context())
		require.NoError(t, err)
		time.Sleep(9 * time.Second)
		require.NoError(t, lease.Release(t.Context()))
		synctest.Wait()
		families, err := f.registry.Gather()
		require.NoError(t, err)
		for _, family := range families {
			if family.GetName() != "quorumlock_lease_duration_seconds" {
				continue
			}
			h := family.GetMetric()[0].GetHistogram()
			require.EqualValues(t, 1, h.GetSampleCount())
			require.InDelta(t, 9, h.GetSampleSum(), .001)
			require.InDelta(t, 3600, h.GetBucket()[len(h.GetBucket())-1].GetUpperBound(), 0)
			return
		}
		require.Fail(t, "there is no histogram")
	})
}

// All metrics follow the rules for names of Prometheus, except one, which has the name that the dashboard uses.
func TestMetricsPassTheLinter(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, f *fleet) {
		lease, err := f.client.RedLock("job").Acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
		require.NoError(t, f.client.Latch("l").Set(t.Context(), 1))
		synctest.Wait()
		problems, err := testutil.GatherAndLint(f.registry)
		require.NoError(t, err)
		require.Len(t, problems, 1)
		require.Equal(t, "quorumlock_lease_count", problems[0].Metric)
	})
}

// TestDashboardAndAlertsUseTheseMetrics: each metric and label that the dashboard and the alert rules name exists, and the
// dashboard shows each metric.
func TestDashboardAndAlertsUseTheseMetrics(t *testing.T) {
	metrics, labels := make(map[string]bool), make(map[string]bool)
	for _, i := range measure.Instruments {
		name := strings.ReplaceAll(i.Name, ".", "_")
		switch i.Kind {
		case measure.Seconds:
			name += "_seconds"
		case measure.Counter:
			name += "_total"
		}
		metrics[name] = true
		for _, key := range i.Keys {
			labels[strings.ReplaceAll(key, ".", "_")] = true
		}
	}
	part := regexp.MustCompile(`(_seconds)_(bucket|count|sum)$`)
	for file, expr := range map[string]string{
		"grafana/quorumlock.json": `"expr": "(.*)"`, "alerts.yaml": `(?s)expr: (.*?)\n\s+(for|labels):`,
	} {
		text, err := os.ReadFile(filepath.Join("..", "otel", file))
		require.NoError(t, err)
		shown := make(map[string]bool)
		for _, query := range regexp.MustCompile(expr).FindAllStringSubmatch(string(text), -1) {
			for _, name := range regexp.MustCompile(`\bquorumlock_\w+`).FindAllString(query[1], -1) {
				name = part.ReplaceAllString(name, "$1")
				require.True(t, metrics[name] || labels[name], "%s names %s", file, name)
				shown[name] = true
			}
		}
		for name := range metrics {
			require.True(t, shown[name] || file == "alerts.yaml", "%s does not show %s", file, name)
		}
	}
}

func TestRegisterOnce(t *testing.T) {
	registry := prometheus.NewRegistry()
	_, err := quorumprom.NewHooks(registry)
	require.NoError(t, err)
	_, err = quorumprom.NewHooks(registry)
	var registered prometheus.AlreadyRegisteredError
	require.ErrorAs(t, err, &registered)
	_, err = quorumprom.NewHooks(nil)
	require.Error(t, err)
}

// refusing is a registerer that refuses one metric.
type refusing struct {
	*prometheus.Registry
	left int
}

func (r *refusing) Register(c prometheus.Collector) error {
	if r.left--; r.left < 0 {
		return errors.New("refused")
	}
	return r.Registry.Register(c)
}

func TestFailedRegistrationLeavesNothing(t *testing.T) {
	registry := prometheus.NewRegistry()
	_, err := quorumprom.NewHooks(&refusing{registry, 5})
	require.ErrorContains(t, err, "refused")
	_, err = quorumprom.NewHooks(registry)
	require.NoError(t, err)
}

func TestScrape(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, f *fleet) {
		lease, err := f.client.RedLock("job").Acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
		synctest.Wait()
		answer := httptest.NewRecorder()
		promhttp.HandlerFor(f.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}).
			ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
		require.Equal(t, http.StatusOK, answer.Code)
		require.Contains(t, answer.Body.String(), `quorumlock_node_votes_total{error_type="",quorumlock_node_name="n1",quorumlock_operation="acquire",quorumlock_vote="granted"} 1`)
	})
}

// Prometheus takes only valid UTF-8 as the value of a label. A name need not be that.
func TestLockGroupThatIsNoUTF8(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, f *fleet) {
		require.NoError(t, f.client.RedLock("a\xff").Do(t.Context(), func(context.Context) error { return nil }))
		f.requireMetrics(t, `
			# HELP quorumlock_lease_count Leases that are held.
			# TYPE quorumlock_lease_count gauge
			quorumlock_lease_count{quorumlock_lock_group="a`+"\uFFFD"+`"} 0
		`, "quorumlock_lease_count")
	}, quorumprom.WithLockGroup(func(name string) string { return name }))
}

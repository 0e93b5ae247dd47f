package quorumprom_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/measure"
	quorumprom "github.com/quorumlock/quorumlock/prometheus"
)

// All metrics follow the rules for names of Prometheus, except one, which has the name that the dashboard uses.
func TestMetricsPassTheLinter(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	hooks, err := quorumprom.NewHooks(registry)
	require.NoError(t, err)
	hooks.Acquired(quorumlock.AcquiredEvent{Names: []string{"job"}})
	hooks.Acquisition(quorumlock.AcquisitionEvent{Context: t.Context(), Names: []string{"job"}})
	hooks.Voted(quorumlock.VoteEvent{Node: "n1", Op: "acquire", Vote: quorumlock.VoteGranted})
	hooks.Ended(quorumlock.EndedEvent{Names: []string{"job"}, Err: quorumlock.ErrReleased})
	hooks.Latch(quorumlock.LatchEvent{Name: "l", Op: "set latch"})
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Len(t, problems, 1)
	require.Equal(t, "quorumlock_lease_count", problems[0].Metric)
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

// Prometheus takes only valid UTF-8 as the value of a label. A name need not be that.
func TestLockGroupThatIsNoUTF8(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	hooks, err := quorumprom.NewHooks(registry, quorumprom.WithLockGroup(func(name string) string { return name }))
	require.NoError(t, err)
	hooks.Acquired(quorumlock.AcquiredEvent{Names: []string{"a\xff"}})
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
		# HELP quorumlock_lease_count Leases that are held.
		# TYPE quorumlock_lease_count gauge
		quorumlock_lease_count{quorumlock_lock_group="a`+"\uFFFD"+`"} 1
	`), "quorumlock_lease_count"))
}

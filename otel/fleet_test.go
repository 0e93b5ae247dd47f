package quorumotel_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/node/memory"
	quorumotel "github.com/quorumlock/quorumlock/otel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fleet is three in-memory nodes, and the measurements and spans of its clients' hooks.
type fleet struct {
	t      *testing.T
	nodes  []*memory.Node
	hooks  quorumlock.Hooks
	reader *metric.ManualReader
	spans  *tracetest.SpanRecorder
	tracer *sdktrace.TracerProvider
}

// inVirtualTime runs a test in a bubble, where time passes only while all goroutines wait.
func inVirtualTime(t *testing.T, test func(t *testing.T, f *fleet), options ...quorumotel.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{t: t, reader: metric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
		f.tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(f.spans))
		for i := range 3 {
			f.nodes = append(f.nodes, memory.New(fmt.Sprintf("n%d", i+1), clock.Process()))
		}
		_, err := admin.Init(t.Context(), f.config())
		require.NoError(t, err)
		f.hooks, err = quorumotel.NewHooks(append([]quorumotel.Option{
			quorumotel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(f.reader))),
			quorumotel.WithTracerProvider(f.tracer),
		}, options...)...)
		require.NoError(t, err)
		test(t, f)
	})
}

func (f *fleet) config() quorumlock.Config {
	cfg := quorumlock.Config{Clock: clock.Process(), Logger: slog.New(slog.DiscardHandler), Hooks: f.hooks}
	for _, nd := range f.nodes {
		cfg.Nodes = append(cfg.Nodes, nd)
	}
	return cfg
}

func (f *fleet) client() *quorumlock.Client {
	f.t.Helper()
	c, err := quorumlock.New(f.config())
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// acquire acquires a lock, and waits until all nodes have voted.
func (f *fleet) acquire(l *quorumlock.Lock) *quorumlock.Lease {
	f.t.Helper()
	lease, err := l.Acquire(f.t.Context())
	require.NoError(f.t, err)
	f.t.Cleanup(func() { runtime.KeepAlive(lease) })
	synctest.Wait()
	return lease
}

func (f *fleet) release(l *quorumlock.Lease) {
	f.t.Helper()
	require.NoError(f.t, l.Release(f.t.Context()))
	synctest.Wait()
}

func (f *fleet) stop(nodes ...int) {
	for _, i := range nodes {
		f.nodes[i].Stop()
	}
}

// measured returns all measurements by name. Sums that went up and down again are included with 0.
func (f *fleet) measured() map[string]metricdata.Metrics {
	f.t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(f.t, f.reader.Collect(f.t.Context(), &all))
	by := make(map[string]metricdata.Metrics)
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			by[m.Name] = m
		}
	}
	return by
}

// points returns an instrument's values by attributes: "a=1 b=2". For a histogram, it returns the number of
// measurements.
func (f *fleet) points(name string) map[string]int64 {
	f.t.Helper()
	all := make(map[string]int64)
	switch data := f.measured()[name].Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			all[text(p.Attributes)] = p.Value
		}
	case metricdata.Gauge[int64]:
		for _, p := range data.DataPoints {
			all[text(p.Attributes)] = p.Value
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			all[text(p.Attributes)] = int64(p.Count)
		}
	}
	return all
}

// took returns the sum of a histogram's times under some attributes.
func (f *fleet) took(name, attributes string) time.Duration {
	f.t.Helper()
	data, ok := f.measured()[name].Data.(metricdata.Histogram[float64])
	require.True(f.t, ok, name)
	for _, p := range data.DataPoints {
		if text(p.Attributes) == attributes {
			return time.Duration(p.Sum * float64(time.Second)).Round(time.Microsecond)
		}
	}
	f.t.Fatalf("%s has nothing under %q", name, attributes)
	return 0
}

// text formats attributes, without their common prefix.
func text(set attribute.Set) string {
	encoded := ""
	for _, kv := range set.ToSlice() {
		if encoded != "" {
			encoded += " "
		}
		key := string(kv.Key)
		if len(key) > len("quorumlock.") && key[:len("quorumlock.")] == "quorumlock." {
			key = key[len("quorumlock."):]
		}
		encoded += key + "=" + kv.Value.String()
	}
	return encoded
}

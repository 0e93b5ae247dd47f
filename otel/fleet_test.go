package quorumotel_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	quorumotel "github.com/quorumlock/quorumlock/otel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// observed is a fleet of three nodes, and the measurements and spans of its clients' hooks.
type observed struct {
	*fleet.Fleet
	hooks  quorumlock.Hooks
	reader *metric.ManualReader
	spans  *tracetest.SpanRecorder
	tracer *sdktrace.TracerProvider
}

func inVirtualTime(t *testing.T, test func(t *testing.T, f *observed), options ...quorumotel.Option) {
	t.Helper()
	fleet.InVirtualTime(t, 3, func(t *testing.T, nodes *fleet.Fleet) {
		f := &observed{Fleet: nodes, reader: metric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
		f.tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(f.spans))
		var err error
		f.hooks, err = quorumotel.NewHooks(append([]quorumotel.Option{
			quorumotel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(f.reader))),
			quorumotel.WithTracerProvider(f.tracer),
		}, options...)...)
		require.NoError(t, err)
		test(t, f)
	})
}

func (f *observed) client() *quorumlock.Client {
	return f.Client(func(cfg *quorumlock.Config) { cfg.Hooks = f.hooks })
}

// acquire acquires a lock, and waits until all nodes have voted.
func (f *observed) acquire(l *quorumlock.Lock) *quorumlock.Lease {
	f.T.Helper()
	lease, err := l.Acquire(f.T.Context())
	require.NoError(f.T, err)
	f.T.Cleanup(func() { runtime.KeepAlive(lease) })
	fleet.Settle()
	return lease
}

func (f *observed) release(l *quorumlock.Lease) {
	f.T.Helper()
	require.NoError(f.T, l.Release(f.T.Context()))
	fleet.Settle()
}

// measured returns all measurements by name. Sums that went up and down again are included with 0.
func (f *observed) measured() map[string]metricdata.Metrics {
	f.T.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(f.T, f.reader.Collect(f.T.Context(), &all))
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
func (f *observed) points(name string) map[string]int64 {
	f.T.Helper()
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
func (f *observed) took(name, attributes string) time.Duration {
	f.T.Helper()
	data, ok := f.measured()[name].Data.(metricdata.Histogram[float64])
	require.True(f.T, ok, name)
	for _, p := range data.DataPoints {
		if text(p.Attributes) == attributes {
			return time.Duration(p.Sum * float64(time.Second)).Round(time.Microsecond)
		}
	}
	f.T.Fatalf("%s has nothing under %q", name, attributes)
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

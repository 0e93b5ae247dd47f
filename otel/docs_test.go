package quorumotel

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// recordingMeter is a meter that records its instruments in the format of the documentation.
type recordingMeter struct {
	noop.Meter
	rows map[string]string
}

func (n recordingMeter) Float64Histogram(name string, o ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	n.rows[name] = "histogram | " + metric.NewFloat64HistogramConfig(o...).Unit()
	return n.Meter.Float64Histogram(name, o...)
}

func (n recordingMeter) Int64Counter(name string, o ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	n.rows[name] = "counter | " + metric.NewInt64CounterConfig(o...).Unit()
	return n.Meter.Int64Counter(name, o...)
}

func (n recordingMeter) Int64UpDownCounter(name string, o ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	n.rows[name] = "updowncounter | " + metric.NewInt64UpDownCounterConfig(o...).Unit()
	return n.Meter.Int64UpDownCounter(name, o...)
}

func (n recordingMeter) Int64Gauge(name string, o ...metric.Int64GaugeOption) (metric.Int64Gauge, error) {
	n.rows[name] = "gauge | " + metric.NewInt64GaugeConfig(o...).Unit()
	return n.Meter.Int64Gauge(name, o...)
}

func documentation(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", "observability.md"))
	require.NoError(t, err)
	return string(text)
}

func TestEveryMetricIsDocumented(t *testing.T) {
	made := recordingMeter{rows: make(map[string]string)}
	_, err := newRecorder(made)
	require.NoError(t, err)
	documented := make(map[string]string)
	row := regexp.MustCompile("(?m)^\\| `(quorumlock[a-z_.]+)` \\| ([a-z]+ \\| [a-z{}]+) \\|")
	for _, m := range row.FindAllStringSubmatch(documentation(t), -1) {
		documented[m[1]] = m[2]
	}
	require.Equal(t, made.rows, documented)
}

// TestEveryAttributeIsDocumented: the documentation has each attribute of the code.
func TestEveryAttributeIsDocumented(t *testing.T) {
	source, err := os.ReadFile("trace.go")
	require.NoError(t, err)
	keys := regexp.MustCompile(`attribute\.Key\("([a-z_.]+)"\)`).FindAllStringSubmatch(string(source), -1)
	require.NotEmpty(t, keys)
	text := documentation(t)
	for _, key := range keys {
		require.Contains(t, text, "`"+key[1]+"`")
	}
}

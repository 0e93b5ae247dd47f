package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	quorumprom "github.com/quorumlock/quorumlock/prometheus"
)

// The module prometheus has the metrics of the module otel, as its exporter names them: the same names, types, labels,
// buckets and values. So the dashboard and the alert rules work with both.
func TestModulePrometheusHasTheSameMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, err := newTelemetry()
		require.NoError(t, err)
		registry := prometheus.NewPedanticRegistry()
		hooks, err := quorumprom.NewHooks(registry, quorumprom.WithLockGroup(kind))
		require.NoError(t, err)
		tel.hooks = quorumlock.MultiHooks(tel.hooks, hooks)
		require.NoError(t, tel.watch(t.Context()))
		want := series(t, tel.registry)
		require.Greater(t, len(want), 50)
		require.Equal(t, want, series(t, registry))
	})
}

// series returns the value of each series, by its type, its name and its labels.
func series(t *testing.T, from prometheus.Gatherer) map[string]string {
	t.Helper()
	families, err := from.Gather()
	require.NoError(t, err)
	all := make(map[string]string)
	for _, f := range families {
		if f.GetName() == "target_info" {
			continue // of OpenTelemetry itself
		}
		for _, m := range f.GetMetric() {
			all[fmt.Sprintf("%s %s{%s}: %s", f.GetType(), f.GetName(), labelsWithValues(m), f.GetHelp())] = valueOf(m)
		}
	}
	return all
}

// labelsWithValues returns the labels that have a value.
func labelsWithValues(m *dto.Metric) string {
	var labels []string
	for _, l := range m.GetLabel() {
		if l.GetValue() != "" {
			labels = append(labels, l.GetName()+"="+l.GetValue())
		}
	}
	slices.Sort(labels)
	return strings.Join(labels, ",")
}

func valueOf(m *dto.Metric) string {
	h := m.GetHistogram()
	if h == nil {
		return fmt.Sprint(m.GetCounter().GetValue() + m.GetGauge().GetValue())
	}
	// Several clients report at once. So the two modules may add values in different orders, which changes the last bits
	// of a sum. All values are whole nanoseconds: rounded to these, a sum does not depend on the order. To nine digits, it
	// would where the tenth is a five.
	text := fmt.Sprintf("%d: %.0f ns", h.GetSampleCount(), h.GetSampleSum()*1e9)
	for _, b := range h.GetBucket() {
		if b.GetUpperBound() < 1e300 { // one of the two lists the last bucket, which has everything
			text += fmt.Sprintf(", %g: %d", b.GetUpperBound(), b.GetCumulativeCount())
		}
	}
	return text
}

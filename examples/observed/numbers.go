package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// show prints the metrics that Prometheus would scrape, and the longest span. For a histogram, it prints the count
// and the average.
func (t *telemetry) show(out io.Writer) error {
	families, err := t.registry.Gather()
	if err != nil {
		return err
	}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "quorumlock_") {
			continue // a metric of the exporter itself
		}
		fmt.Fprintf(out, "\n%s: %s\n", f.GetName(), f.GetHelp())
		for _, m := range f.GetMetric() {
			fmt.Fprintf(out, "  %-90s %s\n", labelsOf(m), value(m))
		}
	}
	t.longest.show(out)
	return nil
}

// labelsOf formats the labels of a series, without the instrumentation scope.
func labelsOf(m *dto.Metric) string {
	var all []string
	for _, l := range m.GetLabel() {
		if !strings.HasPrefix(l.GetName(), "otel_scope_") {
			all = append(all, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
		}
	}
	return strings.Join(all, " ")
}

func value(m *dto.Metric) string {
	switch {
	case m.GetCounter() != nil:
		return fmt.Sprintf("%.0f", m.GetCounter().GetValue())
	case m.GetGauge() != nil:
		return fmt.Sprintf("%.0f", m.GetGauge().GetValue())
	default:
		h := m.GetHistogram()
		mean := time.Duration(h.GetSampleSum() / float64(h.GetSampleCount()) * float64(time.Second))
		return fmt.Sprintf("%d times, %v on average", h.GetSampleCount(), mean.Round(10*time.Microsecond))
	}
}

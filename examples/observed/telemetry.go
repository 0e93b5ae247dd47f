package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/quorumlock/quorumlock"
	quorumotel "github.com/quorumlock/quorumlock/otel"
)

// telemetry receives metrics and spans: a registry that Prometheus scrapes, and a list of spans in place of a collector.
type telemetry struct {
	registry *prometheus.Registry
	spans    *tracetest.InMemoryExporter
	hooks    quorumlock.Hooks
}

func newTelemetry() (*telemetry, error) {
	t := &telemetry{registry: prometheus.NewRegistry(), spans: tracetest.NewInMemoryExporter()}
	reader, err := exporter.New(exporter.WithRegisterer(t.registry), exporter.WithoutScopeInfo())
	if err != nil {
		return nil, err
	}
	t.hooks, err = quorumotel.NewHooks(
		quorumotel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))),
		quorumotel.WithTracerProvider(trace.NewTracerProvider(trace.WithSyncer(t.spans))),
		quorumotel.WithLockGroup(kind),
	)
	return t, err
}

// kind is the group of a lock: "invoice" for "invoice-4711".
func kind(name string) string {
	group, _, _ := strings.Cut(name, "-")
	return group
}

// watch runs the scenario once, and measures it.
func (t *telemetry) watch(ctx context.Context) error {
	t.spans.Reset()
	s, err := newService(ctx, t.hooks)
	if err != nil {
		return err
	}
	defer s.close(ctx)
	return s.run(ctx)
}

// show prints the metrics as Prometheus would scrape them, without buckets, and the longest span.
func (t *telemetry) show(out io.Writer) error {
	families, err := t.registry.Gather()
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			return err
		}
	}
	for line := range strings.Lines(text.String()) {
		if strings.HasPrefix(line, "quorumlock_") && !strings.Contains(line, "_bucket{") {
			fmt.Fprint(out, line)
		}
	}
	spans := t.spans.GetSpans()
	if len(spans) == 0 {
		return nil
	}
	took := func(s tracetest.SpanStub) time.Duration { return s.EndTime.Sub(s.StartTime) }
	longest := slices.MaxFunc(spans, func(a, b tracetest.SpanStub) int { return cmp.Compare(took(a), took(b)) })
	fmt.Fprintf(out, "\nThe longest span: %s, %v, with %d events\n", longest.Name, took(longest).Round(time.Millisecond), len(longest.Events))
	for _, a := range longest.Attributes {
		fmt.Fprintf(out, "  %s = %s\n", a.Key, a.Value.String())
	}
	return nil
}

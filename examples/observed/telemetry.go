package main

import (
	"context"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/quorumlock/quorumlock"
	quorumotel "github.com/quorumlock/quorumlock/otel"
)

// telemetry receives metrics and spans: a registry that Prometheus scrapes, and the longest span in place of a
// collector.
type telemetry struct {
	registry *prometheus.Registry
	longest  longest
	hooks    quorumlock.Hooks
}

func newTelemetry() (*telemetry, error) {
	t := &telemetry{registry: prometheus.NewRegistry()}
	reader, err := exporter.New(exporter.WithRegisterer(t.registry))
	if err != nil {
		return nil, err
	}
	t.hooks, err = quorumotel.NewHooks(
		quorumotel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))),
		quorumotel.WithTracerProvider(trace.NewTracerProvider(trace.WithSyncer(&t.longest))),
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
	s, err := newService(ctx, t.hooks)
	if err != nil {
		return err
	}
	defer s.close(ctx)
	return s.run(ctx)
}

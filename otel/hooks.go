package quorumotel

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/measure"
)

type config struct {
	meters  metric.MeterProvider
	tracers trace.TracerProvider
	group   func(name string) string
}

// Option changes what NewHooks makes.
type Option func(*config)

// WithMeterProvider sets where metrics go. Default: [otel.GetMeterProvider].
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(c *config) { c.meters = p }
}

// WithTracerProvider sets where spans go. Default: [otel.GetTracerProvider].
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(c *config) { c.tracers = p }
}

// WithLockGroup adds the attribute quorumlock.lock.group to the metrics about locks and leases. group computes it
// from the name of a lock, a semaphore or a latch; of several names, from the first in order. Each group has all the
// series of these metrics, so there should be few: "invoices" for "invoice-4711". Beyond a hundred groups, further
// ones count as "_OTHER". group must be safe for concurrent use.
func WithLockGroup(group func(name string) string) Option {
	return func(c *config) { c.group = group }
}

// scope is the name of this package for meters and tracers.
const scope = "github.com/quorumlock/quorumlock/otel"

// NewHooks makes hooks that measure and trace. It fails if the meter provider refuses an instrument. The hooks may
// serve several clients, whose metrics are then combined.
func NewHooks(options ...Option) (quorumlock.Hooks, error) {
	cfg := config{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider()}
	for _, o := range options {
		o(&cfg)
	}
	metrics, err := newRecorder(cfg.meters.Meter(scope))
	if err != nil {
		return quorumlock.Hooks{}, err
	}
	s := spans{tracer: cfg.tracers.Tracer(scope)}
	return quorumlock.MultiHooks(measure.Hooks(metrics, cfg.group), quorumlock.Hooks{Acquisition: s.acquisition}), nil
}

package quorumotel

import (
	"go.opentelemetry.io/otel"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/measure"
)

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

package quorumotel

import (
	"github.com/quorumlock/quorumlock"
)

// scope is the name under which meters and tracers know this package.
const scope = "github.com/quorumlock/quorumlock/otel"

// NewHooks makes hooks that measure and trace. It fails if the provider of meters refuses an
// instrument. They may serve several clients; the metrics of those are then one.
func NewHooks(options ...Option) (quorumlock.Hooks, error) {
	cfg := newConfig(options)
	instruments, err := newInstruments(cfg.meters.Meter(scope))
	if err != nil {
		return quorumlock.Hooks{}, err
	}
	m := &meters{instruments: instruments, groups: groups{sort: cfg.group}}
	s := spans{tracer: cfg.tracers.Tracer(scope)}
	return quorumlock.MultiHooks(m.hooks(), quorumlock.Hooks{Acquisition: s.acquisition}), nil
}

package quorumotel

import (
	"github.com/quorumlock/quorumlock"
)

// scope is the name of this package for meters and tracers.
const scope = "github.com/quorumlock/quorumlock/otel"

// NewHooks makes hooks that measure and trace. It fails if the meter provider refuses an instrument. The hooks may
// serve several clients, whose metrics are then combined.
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

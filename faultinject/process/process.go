// Package process runs Redis servers as processes that can be broken: each is a [faultinject.Server]. It needs
// redis-server on PATH, and libfaketime for stepped clocks.
//
// A server listens on loopback behind a [faultinject.Proxy], which cuts it off. On Linux the server ends with the
// program that started it; elsewhere, only Close reliably ends it.
package process

import (
	"context"

	"github.com/quorumlock/quorumlock/faultinject"
)

// Option changes how servers are started.
type Option func(*config)

type config struct{ trueClock bool }

// WithTrueClock runs the servers without libfaketime, which reads a file at each reading of the clock. Their
// StepClock then fails with [errors.ErrUnsupported], as it does if libfaketime is not installed.
func WithTrueClock() Option {
	return func(c *config) { c.trueClock = true }
}

// Start starts n servers in parallel, named n1 to n<n>, and returns once all answer. The caller must close the group,
// which removes everything that the servers left behind.
func Start(ctx context.Context, n int, opts ...Option) (*faultinject.Group, error) {
	var conf config
	for _, o := range opts {
		o(&conf)
	}
	return faultinject.StartGroup(n, func(name string) (faultinject.Server, error) { return start(ctx, name, conf) }, nil)
}

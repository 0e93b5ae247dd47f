package process

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/quorumlock/quorumlock/faultinject"
)

// Option changes how servers are started.
type Option func(*config)

type config struct{ trueClock bool }

// WithTrueClock runs the servers without libfaketime, which has them look into a file at each
// reading of the clock. Their StepClock then fails with [errors.ErrUnsupported], as it does
// where libfaketime is not installed.
func WithTrueClock() Option {
	return func(c *config) { c.trueClock = true }
}

// Start starts n servers in parallel, named n1 to n<n>, and returns once all answer. The group
// must be closed; that removes all that the servers left behind.
func Start(ctx context.Context, n int, opts ...Option) (*faultinject.Group, error) {
	var conf config
	for _, o := range opts {
		o(&conf)
	}
	servers := make([]faultinject.Server, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			s, err := start(ctx, "n"+strconv.Itoa(i+1), conf)
			if err == nil {
				servers[i] = s
			}
			errs[i] = err
		})
	}
	wg.Wait()
	started := servers[:0]
	for _, s := range servers {
		if s != nil {
			started = append(started, s)
		}
	}
	group := faultinject.NewGroup(started, nil)
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, group.Close())
	}
	return group, nil
}

package quorumlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/clock"
)

type ahead struct {
	clock.Clock
	by time.Duration
}

func (a ahead) Wall() time.Time { return a.Clock.Wall().Add(a.by) }

// A client whose clock is ahead by less than is allowed is refused, only because others of it wait.
func TestABlockAtTheEdgeOfTheSkew(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		c := f.client(func(cfg *quorumlock.Config) { cfg.Clock = ahead{f.clock, 999850 * time.Microsecond} })
		alone, err := c.RedLock("job").Acquire(t.Context())
		require.NoError(t, err, "999.85 ms of 1 s are allowed")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		errs := make(chan error, 3)
		for range 3 {
			go func() {
				l, err := c.RedLock("job").Acquire(ctx)
				if err == nil {
					time.Sleep(time.Millisecond)
					_ = l.Release(ctx)
				}
				errs <- err
			}()
			settled()
		}
		require.NoError(t, alone.Release(t.Context()))
		for range 3 {
			if err := <-errs; err != nil {
				t.Error(f.clock.Now(), errors.Is(err, quorumlock.ErrNoQuorum), err)
			}
		}
	})
}

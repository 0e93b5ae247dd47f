package waiting_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

// A client's clock is ahead by nearly MaxClockSkew. For hand-overs the client proposes tokens that are further ahead.
// The nodes must not refuse the client because of them.
func TestHandoverTokensNearMaxClockSkew(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client(func(cfg *quorumlock.Config) { cfg.Clock = fleet.Ahead{Clock: f.Clock, By: 999850 * time.Microsecond} })
		alone, err := c.RedLock("job").Acquire(t.Context())
		require.NoError(t, err, "a skew of 999.85 ms is allowed, the limit is 1 s")
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
			fleet.Settle()
		}
		require.NoError(t, alone.Release(t.Context()))
		for range 3 {
			if err := <-errs; err != nil {
				t.Error(f.Clock.Now(), errors.Is(err, quorumlock.ErrNoQuorum), err)
			}
		}
	})
}

package hooks_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

// A hook that ends its goroutine, as FailNow of a test does, loses no later event, and Close does not wait for ever.
func TestHookThatEndsItsGoroutine(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		ended := make(chan struct{}, 1)
		client := f.Client(func(c *quorumlock.Config) {
			c.Hooks.Acquired = func(quorumlock.AcquiredEvent) { runtime.Goexit() }
			c.Hooks.Ended = func(quorumlock.EndedEvent) { ended <- struct{}{} }
		})
		lease := fleet.MustAcquire(t, client.RedLock("job"))
		require.NoError(t, lease.Release(t.Context()))
		fleet.Settle()
		require.Len(t, ended, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, client.Close(ctx))
	})
}

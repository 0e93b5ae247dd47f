package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/fleet"
)

// A forced release ends before it has removed anything. It must not return the present holder as one that it removed.
func TestForceReleaseThatRemovedNothingNamesNoHolder(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lease := fleet.MustAcquire(t, f.Client().RedLock("job"))
		operator := f.Client()
		f.Pause(2)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		status, err := operator.RedLock("job").ForceRelease(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, lease.Err())
		if status != nil {
			require.Empty(t, status.Holder())
		}
		f.Resume(2)
		require.NoError(t, lease.Release(t.Context()))
	})
}

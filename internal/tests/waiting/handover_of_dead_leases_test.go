package waiting_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/fleet"
)

// ValidUntil of a released lease does not change with the renewals of the lease that it was handed over to.
func TestValidityOfReleasedLeaseIsFrozen(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		job := f.Client().RedLock("job")
		line := fleet.LineUp(t, job, job)
		first := line[0].Has()
		require.NoError(t, first.Release(t.Context()))
		_ = line[1].Has()
		until := first.ValidUntil()
		time.Sleep(time.Minute)
		require.Equal(t, until, first.ValidUntil())
	})
}

package waiting_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/fleet"
)

// The validity of a lease that has ended does not move with the renewals of the next lease.
func TestTheEndOfADeadLeaseStandsStill(t *testing.T) {
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

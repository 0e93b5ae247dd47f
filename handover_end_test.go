package quorumlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The end of a lease that is over does not move with the renewals of the next.
func TestTheEndOfADeadLeaseStandsStill(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		job := f.client().RedLock("job")
		line := lined(t, job, job)
		first := line[0].has()
		require.NoError(t, first.Release(t.Context()))
		_ = line[1].has()
		until := first.ValidUntil()
		time.Sleep(time.Minute)
		require.Equal(t, until, first.ValidUntil())
	})
}

//go:build !race

package load_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

func TestTenThousandLeasesNeedNoGoroutine(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		fleet.Settle()
		before := runtime.NumGoroutine() + 4
		few := func() bool {
			for range 100_000 {
				if runtime.NumGoroutine() <= before {
					return true
				}
				runtime.Gosched() // The runtime's own goroutines come and go.
			}
			return false
		}
		leases := make([]*quorumlock.Lease, 10_000)
		for i := range leases {
			lease, err := client.RedLock(fmt.Sprintf("job-%d", i)).Acquire(t.Context())
			require.NoError(t, err)
			leases[i] = lease
		}
		fleet.Settle()
		require.True(t, few(), "while they are held: %d goroutines", runtime.NumGoroutine())
		for range 5 {
			time.Sleep(3 * time.Second)
			fleet.Settle()
			require.True(t, few(), "between renewals: %d goroutines", runtime.NumGoroutine())
		}
		require.Equal(t, 50_000, f.Keys())
		for _, lease := range leases {
			require.NoError(t, lease.Release(t.Context()))
		}
		f.RequireNoKeys()
	})
}

package lease_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

// One client holds leases with TTLs from 10 ms to an hour. Each lease is renewed about once in a third of its
// TTL, and no more often. The test runs with 1 to 64 nodes.
func TestLeasesOfAllTTLsAreRenewedOnTime(t *testing.T) {
	for _, n := range []int{1, 3, 8, 64} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			fleet.InVirtualTime(t, n, func(t *testing.T, f *fleet.Fleet) {
				const lasting = 2 * time.Second
				var mu sync.Mutex
				renewed := map[string]int{}
				r := rand.New(rand.NewPCG(1, uint64(n))) //nolint:gosec // a test
				c := f.Client(func(cfg *quorumlock.Config) {
					cfg.NodeTimeoutMax = 3 * time.Millisecond
					cfg.MaxTTL = time.Hour
					cfg.TTL = 10 * time.Second
					cfg.Hooks.Renewed = func(e quorumlock.RenewedEvent) {
						mu.Lock()
						defer mu.Unlock()
						renewed[e.Owner]++
					}
				})
				names := make([]string, 300)
				for i := range names {
					names[i] = fmt.Sprint("many", i)
				}
				type one struct {
					*quorumlock.Lease
					ttl, began time.Duration
				}
				var leases []one
				for i, ttl := range []time.Duration{10 * time.Millisecond, 11 * time.Millisecond, 127 * time.Millisecond, 128 * time.Millisecond, time.Second, 9999 * time.Millisecond, 10 * time.Second, time.Hour} {
					for j := range 5 {
						l := c.RedLock(fmt.Sprint("l", i, ".", j))
						if j == 4 && n < 10 {
							l = c.MultiLock(names[i*30 : i*30+30]...)
						}
						lease, err := l.With(quorumlock.LockOptions{TTL: ttl}).Acquire(t.Context())
						require.NoError(t, err)
						leases = append(leases, one{lease, ttl, f.Clock.Now()})
						time.Sleep(time.Duration(r.IntN(int(7 * time.Millisecond))))
					}
				}
				time.Sleep(lasting)
				fleet.Settle()
				mu.Lock()
				for _, l := range leases {
					require.NoError(t, l.Err(), "TTL %v", l.ttl)
					held := f.Clock.Now() - l.began
					least, most := int(held/(l.ttl/3))-1, int(held/(l.ttl*28/100))+1
					require.GreaterOrEqual(t, renewed[l.Owner()], least, "TTL %v", l.ttl)
					require.LessOrEqual(t, renewed[l.Owner()], most, "TTL %v", l.ttl)
				}
				mu.Unlock()
				for _, l := range leases {
					require.NoError(t, l.Release(context.Background()))
				}
				f.RequireNoKeys()
			})
		})
	}
}

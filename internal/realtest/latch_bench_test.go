package realtest_test

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// BenchmarkLatchCountDown counts down on real servers. Each caller has its own latch.
func BenchmarkLatchCountDown(b *testing.B) {
	for _, n := range []int{1, 3, 5} {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			c := startCluster(b, n)
			client := c.client()
			for _, callers := range []int{1, 16} {
				b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
					var latches atomic.Int64
					b.SetParallelism(callers)
					b.RunParallel(func(pb *testing.PB) {
						l := client.Latch(b.Name() + strconv.FormatInt(latches.Add(1), 10))
						require.NoError(b, l.Set(b.Context(), quorumlock.MaxLatchCount))
						for i := 0; pb.Next(); i++ {
							if err := l.CountDown(b.Context(), strconv.Itoa(i%100)); err != nil {
								b.Error(err)
								return
							}
						}
					})
				})
			}
		})
	}
}

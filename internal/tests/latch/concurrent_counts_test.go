package latch_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

// Count needs only one round while other clients count down. This holds even if a node loses its memory meanwhile, and
// its ids are restored.
func TestCountDuringCountDownsTakesOneRound(t *testing.T) {
	for _, forgetful := range []bool{false, true} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			const each, n = 50, 8
			once := func(cfg *quorumlock.Config) {
				cfg.Hooks.Latch = func(e quorumlock.LatchEvent) {
					assert.True(t, e.Op != "count latch" || e.Rounds == 1, "%d rounds", e.Rounds)
				}
			}
			one, other := f.Client(once).Latch("a"), f.Client(once).Latch("a")
			require.NoError(t, one.Set(t.Context(), n*each))
			var all sync.WaitGroup
			for g := range n {
				l := one
				if g%2 == 0 {
					l = other
				}
				all.Go(func() {
					for i := range each {
						if forgetful && g == 0 && i%10 == 5 {
							f.Nodes[2].Flush()
						}
						err := l.CountDown(t.Context(), fmt.Sprint(g, ".", i))
						_, err2 := l.Count(t.Context())
						assert.NoError(t, errors.Join(err, err2))
					}
				})
			}
			all.Wait()
			left(t, one, 0)
		})
	}
}

// Count runs during the last count-down. It succeeds once enough nodes agree, although a slower node may already know
// more.
func TestCountDuringLastCountDown(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		one, other := f.Client(), f.Client()
		for i := range 3000 { // This is enough to hit the race several times.
			reads, counts := one.Latch(fmt.Sprint(i)), other.Latch(fmt.Sprint(i))
			require.NoError(t, reads.Set(t.Context(), 1))
			var all sync.WaitGroup
			all.Go(func() { assert.NoError(t, counts.CountDown(t.Context(), "x")) })
			_, err := reads.Count(t.Context())
			all.Wait()
			require.NoError(t, err)
		}
	})
}

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

// A client looks at a latch while others count it down. It gets an answer in one round. This holds
// even if a node forgets the latch meanwhile and is given it back.
func TestALatchIsCountedWhileOthersCountDown(t *testing.T) {
	for _, forgetful := range []bool{false, true} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			const each, n = 50, 8
			once := func(cfg *quorumlock.Config) {
				cfg.Hooks.Latch = func(e quorumlock.LatchEvent) {
					assert.True(t, e.Op != "look at latch" || e.Rounds == 1, "%d rounds", e.Rounds)
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

// A client looks at a latch during the last count-down, and gets an answer. The round ends once
// enough nodes agree. A slower node that knows more does not undo that.
func TestALatchIsCountedWhileTheLastCountsDown(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		one, other := f.Client(), f.Client()
		for i := range 3000 { // Enough iterations to hit the race several times.
			looks, counts := one.Latch(fmt.Sprint(i)), other.Latch(fmt.Sprint(i))
			require.NoError(t, looks.Set(t.Context(), 1))
			var all sync.WaitGroup
			all.Go(func() { assert.NoError(t, counts.CountDown(t.Context(), "x")) })
			_, err := looks.Count(t.Context())
			all.Wait()
			require.NoError(t, err)
		}
	})
}

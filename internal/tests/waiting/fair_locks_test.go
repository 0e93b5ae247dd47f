package waiting_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

// With WaitFair, waiters of all clients are served in the order of their arrival.
func TestFairLockIsFIFOAcrossClients(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		before := fleet.MustAcquire(t, f.Client().RedLock("job"))
		g := &grants{f: f}
		clients := []*quorumlock.Client{f.Client(), f.Client(), f.Client()}
		var wg sync.WaitGroup
		var want []string
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range 40 {
			who := fmt.Sprint(i)
			want = append(want, who)
			job := clients[rng.IntN(3)].RedLock("job").With(quorumlock.LockOptions{Waiting: quorumlock.WaitFair})
			g.wait(t.Context(), &wg, who, job, time.Millisecond)
			fleet.Settle()
			time.Sleep(time.Millisecond)
		}
		require.NoError(t, before.Release(t.Context()))
		wg.Wait()
		require.Equal(t, want, g.order())
	})
}

package quorumlock_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// In fair order, whoever came first has it first, whatever client it is of.
func TestFairOrderAmongClients(t *testing.T) {
	inVirtualTime(t, 5, func(t *testing.T, f *fleet) {
		before := held(t, f.client().RedLock("job"))
		g := &grants{f: f}
		clients := []*quorumlock.Client{f.client(), f.client(), f.client()}
		var wg sync.WaitGroup
		var want []string
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range 40 {
			who := fmt.Sprint(i)
			want = append(want, who)
			job := clients[rng.IntN(3)].RedLock("job").With(quorumlock.LockOptions{Waiting: quorumlock.WaitFair})
			g.wait(t.Context(), &wg, who, job, time.Millisecond)
			settled()
			time.Sleep(time.Millisecond)
		}
		require.NoError(t, before.Release(t.Context()))
		wg.Wait()
		require.Equal(t, want, g.order())
	})
}

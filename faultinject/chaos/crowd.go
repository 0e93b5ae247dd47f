package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock"
)

// crowdPatience is the longest time that a member of a crowd waits for a lock.
const crowdPatience = 50 * time.Millisecond

// crowd is more demand than the nodes can serve: callers with a lock of their own each, which give up soon and ask again
// at once. It costs the workers time, and no lock. It fails if the nodes serve none of the callers, or all.
func (s settings) crowd(ctx context.Context, client *quorumlock.Client) error {
	var served, gaveUp atomic.Int64
	var callers sync.WaitGroup
	for i := range s.Crowd {
		lock := client.RedLock(fmt.Sprintf("crowd/%s/%d", s.Label, i))
		callers.Go(func() {
			for ctx.Err() == nil {
				patience, cancel := context.WithTimeout(ctx, rand.N(crowdPatience)) //nolint:gosec // chance decides, no secret
				lease, err := lock.Acquire(patience)
				cancel()
				if err != nil {
					gaveUp.Add(1)
					continue
				}
				served.Add(1)
				_ = lease.Release(ctx)
			}
		})
	}
	callers.Wait()
	if s.Crowd > 0 && (served.Load() == 0 || gaveUp.Load() == 0) {
		return fmt.Errorf("chaos: %s: of a crowd, %d calls got their locks, and %d gave up", s.Label, served.Load(), gaveUp.Load())
	}
	return nil
}

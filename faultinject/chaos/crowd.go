package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock"
)

// crowdPatience is the longest time that a member of a crowd waits for a lock.
const crowdPatience = 50 * time.Millisecond

// crowd is more demand than the nodes can serve: callers with a lock of their own each, which give up soon and ask again
// at once. It may cost the workers time, but no lock, and the client must close in time.
func (s settings) crowd(ctx context.Context, client *quorumlock.Client) {
	var callers sync.WaitGroup
	for i := range s.Crowd {
		lock := client.RedLock(fmt.Sprintf("crowd/%s/%d", s.Label, i))
		callers.Go(func() {
			for ctx.Err() == nil {
				patience, cancel := context.WithTimeout(ctx, rand.N(crowdPatience)) //nolint:gosec // chance decides, no secret
				lease, err := lock.Acquire(patience)
				cancel()
				if err == nil {
					_ = lease.Release(ctx)
				}
			}
		})
	}
	callers.Wait()
}

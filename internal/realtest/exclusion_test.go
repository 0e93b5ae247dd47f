package realtest_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock"
)

// onlooker checks, outside of Redis, that each name has one holder at a time.
type onlooker struct {
	t        *testing.T
	word     map[string]*atomic.Pointer[quorumlock.Lease]
	sections map[string]*atomic.Int64
}

func newOnlooker(t *testing.T, names []string) *onlooker {
	w := &onlooker{t: t, word: map[string]*atomic.Pointer[quorumlock.Lease]{}, sections: map[string]*atomic.Int64{}}
	for _, name := range names {
		w.word[name] = new(atomic.Pointer[quorumlock.Lease])
		w.sections[name] = new(atomic.Int64)
	}
	return w
}

// A holder calls enter. If there is another holder, the two leases must not both be valid. enter checks
// the other lease first. If both checks succeed, both leases were valid at the time of the first one.
func (w *onlooker) enter(name string, lease *quorumlock.Lease) {
	w.sections[name].Add(1)
	for {
		other := w.word[name].Load()
		w.both(name, other, lease)
		if w.word[name].CompareAndSwap(other, lease) {
			return
		}
	}
}

// total returns the number of sections so far.
func (w *onlooker) total() (n int64) {
	for _, one := range w.sections {
		n += one.Load()
	}
	return n
}

// leave is called before the release.
func (w *onlooker) leave(name string, lease *quorumlock.Lease) {
	if !w.word[name].CompareAndSwap(lease, nil) {
		w.both(name, w.word[name].Load(), lease)
	}
}

func (w *onlooker) both(name string, other, lease *quorumlock.Lease) {
	if other != nil && other.Err() == nil && lease.Err() == nil {
		w.t.Errorf("two holders of %q at once: both %s and %s have valid leases", name, other.Owner(), lease.Owner())
	}
}

func TestRealExclusion(t *testing.T) {
	t.Parallel()
	const clients, each, ttl = 5, 10, time.Second
	names := []string{"north", "south", "west"}
	// The test ends early after this many sections and pauses of a node. A slow machine need not
	// reach these numbers in the given time.
	const enough, enoughPauses, span = 15_000, 15, 30 * time.Second
	c := startCluster(t, 5)
	w := newOnlooker(t, names)
	var attempts atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), span)
	defer cancel()

	shares := make([]int, clients*each)
	var contenders sync.WaitGroup
	for i := range clients {
		client := c.client(withDefaultTimeouts(ttl), func(cfg *quorumlock.Config) {
			cfg.Hooks.AttemptFailed = func(quorumlock.AttemptFailedEvent) { attempts.Add(1) }
			cfg.Hooks.Acquired = func(quorumlock.AcquiredEvent) { attempts.Add(1) }
		})
		for j := range each {
			me := i*each + j
			name := names[me%len(names)]
			contenders.Go(func() {
				for ctx.Err() == nil {
					lease, err := client.RedLock(name).Acquire(ctx)
					if err != nil {
						assert.ErrorIs(t, err, ctx.Err(), "Acquire may fail only at the end of the test")
						return
					}
					w.enter(name, lease)
					shares[me]++
					work(ctx, me, shares[me], ttl)
					w.leave(name, lease)
					_ = lease.Release(ctx) // A paused node may not confirm it. The client repeats it later.
				}
			})
		}
	}
	began := time.Now()
	faults := c.pauseInTurn(ctx, func(pauses int) bool {
		return !*longForm && pauses >= enoughPauses && w.total() >= enough
	})
	cancel()
	contenders.Wait()
	took := time.Since(began).Round(time.Millisecond)

	for _, name := range names {
		n := w.sections[name].Load()
		assert.Greater(t, n, int64(10), "too few sections of %q", name)
	}
	slices.Sort(shares)
	t.Logf("%d sections in %v, %d attempts, %d pauses of a node; sections per contender: least %d, median %d, most %d",
		w.total(), took, attempts.Load(), faults, shares[0], shares[len(shares)/2], shares[len(shares)-1])
	c.noKeys()
}

// work is the contender's work inside a section. Once on each name it outlasts the TTL.
func work(ctx context.Context, contender, section int, ttl time.Duration) {
	length := time.Duration(rand.Int64N(int64(time.Millisecond)))
	if contender < 3 && section == 2 {
		length = ttl * 3 / 2
	}
	select {
	case <-time.After(length):
	case <-ctx.Done():
	}
}

// pauseInTurn pauses one node at a time until ctx ends or enough reports true. It returns the
// number of pauses.
func (c *cluster) pauseInTurn(ctx context.Context, enough func(pauses int) bool) (pauses int) {
	for ctx.Err() == nil && !enough(pauses) {
		i := rand.IntN(len(c.servers))
		c.pause(i)
		pauses++
		wait(ctx, 50*time.Millisecond, 800*time.Millisecond)
		c.resume(i)
		wait(ctx, 10*time.Millisecond, 300*time.Millisecond)
	}
	return pauses
}

func wait(ctx context.Context, least, most time.Duration) {
	select {
	case <-time.After(least + time.Duration(rand.Int64N(int64(most-least)))):
	case <-ctx.Done():
	}
}

package realtest_test

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

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

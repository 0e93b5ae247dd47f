package waiting_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

// While nodes fail, many waiters use every way to wait, give up, exceed their hold limit, or nest leases. No two
// leases are valid at once, and tokens grow. Once the failures have ended, every waiter is served.
func TestWaitersUnderNodeFailures(t *testing.T) {
	for seed := range fleet.Longer[uint64](12, 120) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
				r := &fleet.Referee{T: t}
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				var users, shaking sync.WaitGroup
				options := []quorumlock.LockOptions{
					{},
					{},
					{},
					{NoHandover: true},
					{Spin: true},
					{MaxHold: 5 * time.Millisecond},
					{Fixed: true},
					{TTL: 5 * time.Second},
				}
				for i := range 4 {
					c := f.Client()
					for j := range 4 {
						rng := rand.New(rand.NewPCG(seed, uint64(10*i+j)))
						users.Go(func() {
							for ctx.Err() == nil {
								useOnce(ctx, t, c.RedLock("job").With(options[rng.IntN(len(options))]), r, rng)
							}
						})
					}
				}
				shaking.Go(func() { shake(ctx, f, rand.New(rand.NewPCG(seed, 99))) })
				users.Wait()
				shaking.Wait()
				began := f.Clock.Now()
				for range 4 {
					job := f.Client().RedLock("job")
					users.Go(func() {
						lease, err := job.Acquire(t.Context())
						if assert.NoError(t, err) {
							r.Grant(lease)
							assert.NoError(t, lease.Release(t.Context()))
						}
					})
				}
				users.Wait()
				require.LessOrEqual(t, f.Clock.Now()-began, fleet.RecoveryTime+2*time.Second)
				time.Sleep(2 * time.Second)
				f.RequireNoKeys()
				time.Sleep(fleet.RecoveryTime) // Allow for the recovery of nodes whose failure no client had noticed.
				last := fleet.MustAcquire(t, f.Client().RedLock("job"))
				time.Sleep(5 * time.Second)
				require.Zero(t, f.Waiters())
				r.Grant(last)
			})
		})
	}
}

// useOnce acquires the lock, holds it for a while and releases it. Sometimes it gives up early.
func useOnce(ctx context.Context, t *testing.T, l *quorumlock.Lock, r *fleet.Referee, rng *rand.Rand) {
	patience := time.Hour
	if rng.IntN(4) == 0 {
		patience = time.Duration(rng.IntN(100)) * time.Millisecond
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	lease, err := l.Acquire(waiting)
	if err != nil {
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		return
	}
	r.Grant(lease)
	time.Sleep(time.Duration(rng.IntN(9)) * time.Millisecond)
	if nested, err := l.Acquire(lease.Context()); err == nil { //nolint:contextcheck // leases nest by their context
		assert.Equal(t, lease.Token(), nested.Token())
		first, second := lease.Err() != nil, nested.Err() != nil // The lease may reach its hold limit between the two calls.
		assert.True(t, second || !first, "the nested lease ends with the outer one")
		first, second = nested.Err() != nil, lease.Err() != nil
		assert.True(t, second || !first, "the outer lease ends with the nested one")
		_ = nested.Release(ctx)
	}
	if rng.IntN(20) == 0 {
		time.Sleep(time.Duration(rng.IntN(8)) * time.Second)
	}
	_ = lease.Release(ctx)
}

// shake makes random nodes fail, at most two at a time, until ctx ends. Failures are stops, pauses and losses of memory.
// Every failed node is back when shake returns.
func shake(ctx context.Context, f *fleet.Fleet, rng *rand.Rand) {
	for ctx.Err() == nil {
		time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
		i := rng.IntN(len(f.Nodes))
		j := (i + 1 + rng.IntN(len(f.Nodes)-1)) % len(f.Nodes)
		pause := time.Duration(rng.IntN(3000)) * time.Millisecond
		switch rng.IntN(5) {
		case 0:
			f.Stop(i, j)
			time.Sleep(pause)
			f.Start(i, j)
		case 1:
			f.Pause(i, j)
			time.Sleep(pause)
			f.Resume(i, j)
		case 2:
			f.Stop(i)
			f.Pause(j)
			time.Sleep(pause)
			f.Resume(j)
			f.Start(i)
		case 3:
			f.Nodes[i].Flush()
			time.Sleep(fleet.RecoveryTime)
		default:
			f.Nodes[i].Save()
			time.Sleep(pause)
			f.Nodes[i].Crash()
			time.Sleep(fleet.RecoveryTime)
		}
	}
}

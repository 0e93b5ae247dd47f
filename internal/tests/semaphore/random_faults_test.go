package semaphore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/witness"
)

// Nodes lose their memory, hang, and are cut off from some clients, and messages are late or lost. The permits are
// never exceeded. Once the faults have stopped, every client can acquire all permits.
func TestPermitsUnderFaults(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			fleet.InVirtualTime(t, 3+2*int(seed%2), func(t *testing.T, f *fleet.Fleet) { permitsUnderFaults(t, f, seed) })
		})
	}
}

func permitsUnderFaults(t *testing.T, f *fleet.Fleet, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	p := 1 + rng.IntN(4)
	l := witness.OfPermits(t, p)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var wires [][]*fleet.Wire
	var clients []*quorumlock.Client
	for i := range p + 3 {
		client, ways := f.WiredClient()
		wires, clients = append(wires, ways), append(clients, client)
		s := client.Semaphore("jobs", p).With(quorumlock.LockOptions{Fixed: i%3 == 0})
		mine := rand.New(rand.NewPCG(seed, uint64(i)+2))
		wg.Go(func() {
			for ctx.Err() == nil {
				lease, err := s.Acquire(ctx, 1+mine.IntN(p))
				if err != nil {
					continue
				}
				l.Enter(lease)
				time.Sleep(time.Duration(mine.IntN(4000)) * time.Millisecond)
				l.Leave(lease)
				_ = lease.Release(ctx)
			}
		})
	}
	for range 200 {
		time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
		i, w := rng.IntN(len(f.Nodes)), wires[rng.IntN(len(wires))]
		switch rng.IntN(32) {
		case 0:
			f.Nodes[i].Crash()
		case 1:
			f.Nodes[i].Flush()
		case 2, 3:
			f.Stop(i)
		case 4, 5:
			f.Pause(i)
		case 6, 7:
			w[i].Severed.Store(true)
		case 8, 9:
			w[i].Slow.Store(int64(rng.IntN(2000)) * int64(time.Millisecond))
		case 10, 11:
			w[i].Muted.Store(int64(rng.IntN(2000)) * int64(time.Millisecond))
		default:
			f.Start(i)
			f.Resume(i)
			for _, w := range wires {
				w[i].Severed.Store(false)
				w[i].Slow.Store(0)
				w[i].Muted.Store(0)
			}
		}
	}
	f.Start(fleet.FirstNodes(len(f.Nodes))...)
	f.Resume(fleet.FirstNodes(len(f.Nodes))...)
	for _, w := range wires {
		for _, way := range w {
			way.Severed.Store(false)
			way.Slow.Store(0)
			way.Muted.Store(0)
		}
	}
	stop()
	wg.Wait()
	require.NotZero(t, l.Grants())
	time.Sleep(fleet.RecoveryTime + 2*time.Second)
	for _, c := range clients {
		lease, err := c.Semaphore("jobs", p).Acquire(t.Context(), p)
		require.NoError(t, err)
		l.Enter(lease)
		l.Leave(lease)
		require.NoError(t, lease.Release(t.Context()))
	}
	t.Logf("%d permits, %d grants", p, l.Grants())
}

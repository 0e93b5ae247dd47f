package quorumlock_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/node"
)

// TestExclusionUnderFaults runs clients whose clocks and nodes whose clocks run at
// rates of their own, stops and hangs nodes at random, and checks at every grant that
// no other lease on the name is valid by its own clock. When the faults stop, everybody
// is served and nothing is left.
func TestExclusionUnderFaults(t *testing.T) {
	seeds := 150
	if testing.Short() {
		seeds = 20
	}
	for i := range seeds {
		seed := rand.Uint64()
		if !t.Run(fmt.Sprintf("seed=%#x,n=%d", seed, 3+2*(i%2)), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { simulate(t, seed, 3+2*(i%2)) })
		}) {
			return
		}
	}
}

// simulate is one run of a minute.
func simulate(t *testing.T, seed uint64, n int) {
	rng := rand.New(rand.NewPCG(seed, 1))
	f := &fleet{t: t, clock: clock.Process()}
	for i := range n {
		f.nodes = append(f.nodes, node.NewMemory(fmt.Sprintf("n%d", i+1), skewed(f.clock, rng)))
	}
	w := &witness{t: t, leases: make(map[string]map[*quorumlock.Lease]bool), tokens: make(map[string]uint64)}
	quiet, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	settings := func(cfg *quorumlock.Config) {
		// The wall clocks of clients are anywhere, within what nodes put up with.
		wrong := clock.NewSkewed(f.clock, 1+(rng.Float64()-0.5)*0.0099)
		wrong.StepWall(time.Duration(rng.IntN(1000)-700) * time.Millisecond)
		cfg.Clock = wrong
		cfg.TTL, cfg.MaxTTL, cfg.NodeTimeoutMax = 2*time.Second, 2*time.Second, 100*time.Millisecond
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	var wg sync.WaitGroup
	for c := range 4 {
		client := f.client(settings)
		for g := range 2 {
			rng := rand.New(rand.NewPCG(seed, uint64(10*c+g+2)))
			wg.Go(func() { contend(quiet, client, w, rng) })
		}
	}
	f.misbehave(quiet, rng)
	f.start(upTo(n)...)
	f.resume(upTo(n)...)
	wg.Wait()

	after, cancelAfter := context.WithTimeout(t.Context(), f.limits.Recovery()+2*time.Second)
	defer cancelAfter()
	for _, name := range []string{"a", "b"} {
		lease, err := f.client(settings).MultiLock(name).Acquire(after)
		require.NoError(t, err, "no grant within R and 2 s after the faults stopped")
		w.granted(lease)
		w.released(lease)
		require.NoError(t, lease.Release(t.Context()))
	}
	f.noKeys()
}

func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// skewed is a clock within half of what the drift allowance covers: two of them may
// differ by all of it.
func skewed(base clock.Clock, rng *rand.Rand) clock.Clock {
	return clock.NewSkewed(base, 1+(rng.Float64()-0.5)*0.0099)
}

// contend takes and frees locks of all kinds until ctx ends.
func contend(ctx context.Context, client *quorumlock.Client, w *witness, rng *rand.Rand) {
	for ctx.Err() == nil {
		lock := client.RedLock([]string{"a", "b"}[rng.IntN(2)])
		if rng.IntN(4) == 0 {
			lock = client.MultiLock("a", "b")
		}
		lock = lock.With(quorumlock.LockOptions{Fixed: rng.IntN(3) == 0, MaxHold: 6 * time.Second})
		patience, cancel := context.WithTimeout(ctx, time.Duration(rng.IntN(3000))*time.Millisecond)
		lease, err := lock.Acquire(patience)
		cancel()
		if err != nil {
			time.Sleep(time.Millisecond) // it may have failed at once, and would again
			continue
		}
		w.granted(lease)
		select {
		case <-lease.Context().Done():
		case <-time.After(time.Duration(rng.IntN(4000)) * time.Millisecond):
		}
		if rng.IntN(5) > 0 {
			w.released(lease)
			_ = lease.Release(ctx)
			continue
		}
		// A careless holder: it acts until its lease ends, and then some.
		_ = lease.Extend(ctx)
		<-lease.Context().Done()
		w.released(lease)
		_ = lease.Release(ctx)
	}
}

// misbehave stops, hangs, and restores nodes at random until ctx ends.
func (f *fleet) misbehave(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil {
		i := rng.IntN(len(f.nodes))
		switch rng.IntN(12) {
		case 0, 1:
			f.stop(i)
		case 2, 3:
			f.pause(i)
		case 4:
			f.forget(i, rng)
		default:
			f.start(i)
			f.resume(i)
		}
		time.Sleep(time.Duration(rng.IntN(500)) * time.Millisecond)
	}
}

// forget has a node lose its memory in one of the ways there are. Half of the time it was
// saved before, by half a second at most.
func (f *fleet) forget(i int, rng *rand.Rand) {
	switch rng.IntN(4) {
	case 0:
		f.nodes[i].Flush()
	case 1:
		f.nodes[i].Crash()
	default:
		f.nodes[i].Save()
		time.Sleep(time.Duration(rng.IntN(500)) * time.Millisecond)
		f.nodes[i].Crash()
	}
}

// witness knows every lease that somebody acts on, and the tokens that there were.
type witness struct {
	t      *testing.T
	mu     sync.Mutex
	leases map[string]map[*quorumlock.Lease]bool
	tokens map[string]uint64
}

// granted records a lease, and checks that it is alone, and that its token is larger than
// all before.
func (w *witness) granted(lease *quorumlock.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range lease.Names() {
		if lease.Token() <= w.tokens[name] {
			w.t.Errorf("token %d of %q after %d", lease.Token(), name, w.tokens[name])
		}
		w.tokens[name] = lease.Token()
		for other := range w.leases[name] {
			if lease.Err() == nil && other.Err() == nil {
				w.t.Errorf("two leases of %q: %s and %s", name, lease.Owner(), other.Owner())
			}
		}
		if w.leases[name] == nil {
			w.leases[name] = make(map[*quorumlock.Lease]bool)
		}
		w.leases[name][lease] = true
	}
}

func (w *witness) released(lease *quorumlock.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range lease.Names() {
		delete(w.leases[name], lease)
	}
}

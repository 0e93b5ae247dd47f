package faultinject_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

// sometimes lets a call go wrong in one of these ways, with a chance of one in four.
func sometimes(rng *rand.Rand, hits *atomic.Int64) faultinject.Effect {
	var mu sync.Mutex
	ways := []faultinject.Effect{
		faultinject.Delay(20*time.Millisecond, 10*time.Millisecond), faultinject.Delay(time.Hour, 0),
		faultinject.FailBefore(node.ErrUnreachable), faultinject.FailAfter(node.ErrUnreachable),
		func(ctx context.Context, x *faultinject.Exchange) { x.Run(ctx); x.Run(ctx) },
		func(_ context.Context, x *faultinject.Exchange) { x.Fail(node.ErrRejected, false) },
	}
	return func(ctx context.Context, x *faultinject.Exchange) {
		mu.Lock()
		way := rng.IntN(4 * len(ways))
		mu.Unlock()
		if way >= len(ways) {
			x.Run(ctx)
			return
		}
		hits.Add(1)
		ways[way](ctx, x)
	}
}

// Clients exclude each other while everything goes wrong now and then, and when they and
// their nodes are closed nothing is left: the bubble would not end.
func TestClientsOnFaultyNodes(t *testing.T) {
	const clients, rounds = 3, 10
	synctest.Test(t, func(t *testing.T) {
		var hits atomic.Int64
		cfg := quorumlock.Config{
			TTL: 2 * time.Second, Clock: clock.Process(), Logger: slog.New(slog.DiscardHandler),
		}
		for i := range 5 {
			n := faultinject.Wrap(memory.New(fmt.Sprintf("n%d", i+1), cfg.Clock))
			t.Cleanup(func() { assert.NoError(t, n.Close()) })
			cfg.Nodes = append(cfg.Nodes, n)
		}
		_, err := admin.Init(t.Context(), cfg)
		require.NoError(t, err)
		for i, n := range cfg.Nodes {
			n.(*faultinject.Node).Set(sometimes(rand.New(rand.NewPCG(1, uint64(i))), &hits))
		}

		var inside, held atomic.Int64
		var wg sync.WaitGroup
		for range clients {
			client, err := quorumlock.New(cfg)
			require.NoError(t, err)
			wg.Go(func() {
				defer func() { _ = client.Close(context.Background()) }() // some undos may not have got through
				for range rounds {
					if err := holdAlone(t, client, &inside, &held); err != nil {
						t.Log(err)
					}
				}
			})
		}
		wg.Wait()
		require.Greater(t, held.Load(), int64(clients*rounds/2))
		t.Log(held.Load(), "leases,", hits.Load(), "faults")
		require.Greater(t, hits.Load(), int64(50))
	})
}

// holdAlone holds a lock for a while, and counts that it did.
func holdAlone(t *testing.T, client *quorumlock.Client, inside, held *atomic.Int64) error {
	t.Helper()
	patience, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return client.RedLock("one").Do(patience, func(ctx context.Context) error {
		assert.Equal(t, int64(1), inside.Add(1), "two at once")
		defer inside.Add(-1)
		held.Add(1)
		select {
		case <-ctx.Done():
		case <-time.After(3 * time.Second):
		}
		return nil
	})
}

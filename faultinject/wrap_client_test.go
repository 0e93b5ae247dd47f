package faultinject_test

import (
	"context"
	"fmt"
	"log/slog"
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

// everyEffect is a way for a call to go wrong, of each kind.
func everyEffect() []faultinject.Effect {
	return []faultinject.Effect{
		faultinject.Delay(20*time.Millisecond, 10*time.Millisecond), faultinject.FailBefore(node.ErrUnreachable),
		faultinject.FailAfter(node.ErrUnreachable), faultinject.Duplicate(), faultinject.Late(time.Second), faultinject.Stall(),
		faultinject.CutAfter(1), faultinject.Reject(node.ErrRejected),
	}
}

// Clients exclude each other while everything goes wrong now and then, and when they and
// their nodes are closed nothing is left: the bubble would not end.
func TestClientsOnFaultyNodes(t *testing.T) {
	const clients, rounds = 3, 10
	synctest.Test(t, func(t *testing.T) {
		var hits []*faultinject.Active
		cfg := quorumlock.Config{
			TTL: 2 * time.Second, Clock: clock.Process(), Logger: slog.New(slog.DiscardHandler),
		}
		for i := range 5 {
			n := faultinject.Wrap(memory.New(fmt.Sprintf("n%d", i+1), cfg.Clock), faultinject.Seed(1))
			t.Cleanup(func() { assert.NoError(t, n.Close()) })
			cfg.Nodes = append(cfg.Nodes, n)
		}
		_, err := admin.Init(t.Context(), cfg)
		require.NoError(t, err)
		for _, n := range cfg.Nodes {
			for _, do := range everyEffect() {
				rule := faultinject.Rule{Chance: 0.03, Do: do}
				hits = append(hits, n.(*faultinject.Node).Add(rule))
			}
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
		total := 0
		for _, h := range hits {
			total += h.Hits()
		}
		t.Log(held.Load(), "leases,", total, "faults")
		require.Greater(t, total, 50)
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

package quorumlock

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

// A lock is granted just after the loss of another lock of the joint lease. It is released, too.
func TestJoinGrantedAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Clock: clock.Process(), Logger: slog.New(slog.DiscardHandler)}
		m := memory.New("n", cfg.Clock)
		cfg.Nodes = []node.Node{m}
		replies := make([]wire.Reply, 1)
		m.Do(t.Context(), []wire.Op{{Kind: wire.Mark, Limits: cfg.Limits()}}, replies)
		m.Do(t.Context(), []wire.Op{{Kind: wire.Open, Limits: cfg.Limits(), Marker: replies[0].Marker}}, replies)
		c, err := New(cfg)
		require.NoError(t, err)
		var first *Lease
		j := &Joined{steps: []joinStep{{
			take: func(ctx context.Context, _ bool) (_ *Lease, err error) {
				first, err = c.RedLock("a").With(LockOptions{MaxHold: time.Second}).Acquire(ctx)
				return first, err
			},
		}, {
			take: func(ctx context.Context, _ bool) (*Lease, error) {
				second, err := c.RedLock("b").Acquire(ctx)
				time.Sleep(time.Second)
				synctest.Wait()
				return second, err
			},
		}}}
		_, err = j.TryAcquire(t.Context())
		require.ErrorIs(t, err, ErrHoldLimit)
		synctest.Wait()
		require.Empty(t, m.Keys())
		require.NoError(t, c.Close(t.Context()))
	})
}

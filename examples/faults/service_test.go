package faults

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/node/memory"
)

// inMemory makes three in-memory nodes that a test can break, and a configuration for their clients. In a bubble of
// synctest, all of them need the time of the bubble: clock.Process, called in the bubble.
func inMemory(t *testing.T) ([]*memory.Node, quorumlock.Config) {
	t.Helper()
	var nodes []*memory.Node
	cfg := quorumlock.Config{Clock: clock.Process(), Logger: slog.New(slog.DiscardHandler)}
	for i := range 3 {
		n := memory.New(fmt.Sprintf("n%d", i+1), cfg.Clock)
		t.Cleanup(func() { _ = n.Close() })
		nodes, cfg.Nodes = append(nodes, n), append(cfg.Nodes, n)
	}
	_, err := admin.Init(t.Context(), cfg) // The nodes are new: let them grant locks at once.
	require.NoError(t, err)
	return nodes, cfg
}

// start runs an instance with a client of its own, until the test ends.
func start(t *testing.T, cfg quorumlock.Config, ledger *Ledger, name string, interval time.Duration) {
	t.Helper()
	client, err := quorumlock.New(cfg)
	require.NoError(t, err)
	s := &Service{Name: name, Lock: client.RedLock("ledger"), Ledger: ledger, Interval: interval}
	done := make(chan error, 1)
	go func() { done <- s.Run(t.Context()) }()
	t.Cleanup(func() { // t.Context has ended.
		err := <-done
		_ = client.Close(context.Background())
		require.NoError(t, err)
	})
}

// An hour of work in virtual time. It takes a moment, and its result does not depend on the machine.
func TestInstancesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, cfg := inMemory(t)
		ledger := &Ledger{}
		start(t, cfg, ledger, "a", time.Second)
		start(t, cfg, ledger, "b", time.Second)
		time.Sleep(time.Hour)
		lines := map[string]int{}
		for _, l := range ledger.Lines() {
			lines[l.Writer]++
		}
		assert.InDelta(t, 1800, lines["a"], 20)
		assert.InDelta(t, 1800, lines["b"], 20)
	})
}

// Two of three nodes stop answering for a minute. The service must stop writing within a TTL, though it is in the middle
// of its turn, and go on afterwards.
func TestServiceStopsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, cfg := inMemory(t)
		ledger := &Ledger{}
		start(t, cfg, ledger, "a", 3*time.Second)
		time.Sleep(5 * time.Second)
		failed := time.Now()
		for _, n := range nodes[:2] {
			n.Stop()
		}
		time.Sleep(time.Minute)
		healed := time.Now()
		for _, n := range nodes[:2] {
			n.Start()
		}
		time.Sleep(time.Minute)

		before, after := 0, 0
		for _, l := range ledger.Lines() {
			switch {
			case l.At.Before(failed):
				before++
			case l.At.After(healed):
				after++
			default:
				assert.Less(t, l.At.Sub(failed), quorumlock.DefaultTTL, "the lock may be another's by now")
			}
		}
		assert.Equal(t, 1, before)
		assert.Greater(t, after, 15)
	})
}

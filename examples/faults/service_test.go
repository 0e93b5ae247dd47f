package faults_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/examples/faults"
	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/process"
)

// Three instances of the service, on five Redis servers that are killed, paused, emptied and
// cut off at random for ten seconds.
func TestServiceUnderFaults(t *testing.T) {
	const ttl = time.Second
	group, err := process.Start(t.Context(), 5) // With Docker, use container.Start.
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, group.Close()) })

	cfg := quorumlock.Config{TTL: ttl, MaxTTL: ttl}
	for _, server := range group.Servers() {
		cfg.Addresses = append(cfg.Addresses, server.Addr())
	}
	_, err = admin.Init(t.Context(), cfg)
	require.NoError(t, err)

	ctx, stop := context.WithCancel(t.Context())
	var instances sync.WaitGroup
	ledger := &faults.Ledger{}
	for range 3 {
		client, err := quorumlock.New(cfg)
		require.NoError(t, err)
		t.Cleanup(func() { _ = client.Close(context.Background()) })
		service := &faults.Service{Client: client, Ledger: ledger}
		instances.Go(func() { service.Run(ctx) })
	}

	plan, err := faultinject.Nemesis{Seed: 1, Nodes: 5, TTL: ttl}.Plan(10 * time.Second)
	require.NoError(t, err)
	t.Logf("the plan:\n%s", plan)
	require.NoError(t, plan.Run(t.Context(), faultinject.Nodes(group.Servers()), func(line string) { t.Log(line) }))
	before := ledger.Count()
	require.Eventually(t, func() bool { return ledger.Count() > before }, time.Minute, 10*time.Millisecond,
		"the service must go on after the faults")
	stop()
	instances.Wait()
	require.True(t, slices.IsSorted(ledger.Lines), "an instance wrote a line after its lease had ended")
}

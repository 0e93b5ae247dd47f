package faults

import (
	"cmp"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/container"
	"github.com/quorumlock/quorumlock/faultinject/process"
)

// onServers starts Redis servers, and returns them with a configuration for their clients. They are processes, or with
// SERVERS=docker containers.
func onServers(t *testing.T, n int, ttl time.Duration) ([]faultinject.Server, quorumlock.Config) {
	t.Helper()
	var group *faultinject.Group
	var err error
	if os.Getenv("SERVERS") == "docker" {
		group, err = container.Start(t.Context(), n)
	} else {
		group, err = process.Start(t.Context(), n)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, group.Close()) })
	cfg := quorumlock.Config{TTL: ttl, MaxTTL: ttl}
	for _, server := range group.Servers() {
		cfg.Addresses = append(cfg.Addresses, server.Addr())
	}
	_, err = admin.Init(t.Context(), cfg)
	require.NoError(t, err)
	return group.Servers(), cfg
}

// writes waits until an instance has written a line after the given moment.
func writes(t *testing.T, ledger *Ledger, writer string, after time.Time) {
	t.Helper()
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(ledger.Lines(), func(l Line) bool { return l.Writer == writer && l.At.After(after) })
	}, time.Minute, 10*time.Millisecond)
}

// The network between one instance and two of three servers is cut. Another instance, which reaches all of them, must
// take over.
func TestOtherInstanceTakesOver(t *testing.T) {
	servers, near := onServers(t, 3, time.Second)
	far := near
	far.Addresses = nil
	var proxies []*faultinject.Proxy
	for _, server := range servers {
		proxy, err := faultinject.NewProxy(server.Addr())
		require.NoError(t, err)
		t.Cleanup(func() { _ = proxy.Close() })
		proxies, far.Addresses = append(proxies, proxy), append(far.Addresses, proxy.Addr())
	}
	ledger := &Ledger{}
	start(t, far, ledger, "far", 10*time.Millisecond)
	writes(t, ledger, "far", time.Time{})
	for _, proxy := range proxies[:2] {
		proxy.Cut(faultinject.BothWays)
	}
	start(t, near, ledger, "near", 10*time.Millisecond)
	writes(t, ledger, "near", time.Now())
	for _, proxy := range proxies {
		proxy.Heal()
	}
	writes(t, ledger, "far", time.Now())
}

// Three instances work on five servers that are killed, paused, emptied and cut off at random for ten seconds.
func TestServiceUnderFaults(t *testing.T) {
	const ttl = time.Second
	servers, cfg := onServers(t, 5, ttl)
	ledger := &Ledger{}
	for _, name := range []string{"a", "b", "c"} {
		start(t, cfg, ledger, name, 10*time.Millisecond)
	}
	plan, err := faultinject.Nemesis{Seed: 1, Nodes: 5, TTL: ttl}.Plan(10 * time.Second)
	require.NoError(t, err)
	t.Logf("the plan:\n%s", plan)
	require.NoError(t, plan.Run(t.Context(), faultinject.Nodes(servers), func(line string) { t.Log(line) }))
	end := time.Now()
	for _, name := range []string{"a", "b", "c"} {
		writes(t, ledger, name, end)
	}
	require.True(t, slices.IsSortedFunc(ledger.Lines(), func(a, b Line) int { return cmp.Compare(a.Token, b.Token) }),
		"an instance has written after a later one")
}

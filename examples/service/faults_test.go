package main

import (
	"errors"
	"os"
	"sync"
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

// leads waits until a replica leads.
func leads(t *testing.T, s *Service) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, leads := s.Candidate.Leading()
		return leads
	}, time.Minute, 10*time.Millisecond)
}

// The network between the leader and two of three servers is cut. Another replica, which reaches all of them, must take
// over.
func TestOtherReplicaTakesOver(t *testing.T) {
	t.Parallel()
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
	l := newLedger()
	first, _ := start(t, far, l, time.Second)
	leads(t, first)
	for _, proxy := range proxies[:2] {
		proxy.Cut(faultinject.BothWays)
	}
	second, stop := start(t, near, l, time.Second)
	leads(t, second)
	for _, proxy := range proxies {
		proxy.Heal()
	}
	stop()
	leads(t, first)
}

// Three replicas work on five servers that are killed, paused, emptied and cut off at random for ten seconds. Afterwards
// each of them gets locks.
func TestServiceUnderFaults(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	servers, cfg := onServers(t, 5, ttl)
	l := newLedger()
	var mu sync.Mutex
	lost := map[string]bool{}
	note := func(name string, err error) {
		mu.Lock()
		defer mu.Unlock()
		lost[name] = lost[name] || errors.Is(err, quorumlock.ErrLost)
	}
	cfg.Hooks.Ended = func(e quorumlock.EndedEvent) { note(e.Names[0], e.Err) }
	cfg.Hooks.LossFound = func(e quorumlock.LossFoundEvent) { note(e.Names[0], e.Err) }
	var replicas []*Service
	var stops []func()
	for range 3 {
		s, stop := start(t, cfg, l, time.Second)
		replicas, stops = append(replicas, s), append(stops, stop)
	}
	plan, err := faultinject.Nemesis{Seed: 1, Nodes: 5, TTL: ttl}.Plan(10 * time.Second)
	require.NoError(t, err)
	t.Logf("the plan:\n%s", plan)
	require.NoError(t, plan.Run(t.Context(), faultinject.Nodes(servers), func(line string) { t.Log(line) }))
	for _, s := range replicas {
		require.Eventually(t, func() bool { return ask(t, s, "POST", "/accounts/1") == 200 }, time.Minute, 10*time.Millisecond)
	}
	for _, stop := range stops {
		stop()
	}
	for _, w := range l.wrong {
		require.True(t, lost[w.lock], "%s: %s, and no lease of it was lost", w.lock, w.what)
	}
}

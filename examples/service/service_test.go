package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/election"
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

// start runs a replica with a client of its own, until the test ends or stop is called.
func start(t *testing.T, cfg quorumlock.Config, l *ledger, night time.Duration) (s *Service, stop func()) {
	t.Helper()
	client, err := quorumlock.New(cfg)
	require.NoError(t, err)
	s = &Service{Client: client, Ledger: l.book, Candidate: election.New(client, "auditor", election.Config{Logger: slog.New(slog.DiscardHandler)})}
	s.Serving.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	var jobs sync.WaitGroup
	jobs.Go(func() { s.Work(ctx, night) })
	stop = sync.OnceFunc(func() {
		cancel()
		jobs.Wait()
		_ = client.Close(context.Background())
	})
	t.Cleanup(stop)
	return s, stop
}

// ask sends a request to a replica, and returns the status of the answer.
func ask(t *testing.T, s *Service, method, path string) int {
	t.Helper()
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
	return w.Code
}

// Seven nights, of ten minutes each, in virtual time. They take a moment, and the result does not depend on the machine.
func TestSevenNights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const night = 10 * time.Minute
		_, cfg := inMemory(t)
		l, first := newLedger(), time.Now().Truncate(night)
		for range 3 {
			start(t, cfg, l, night)
		}
		time.Sleep(7*night - time.Minute)
		assert.Empty(t, l.wrong)
		for i := range 7 {
			assert.Len(t, l.bookings("report@"+first.Add(time.Duration(i)*night).UTC().Format(time.RFC3339)), 1)
		}
		assert.Len(t, l.bookings("auditor"), 69, "one replica audits, each minute")
	})
}

// Replicas that start late in a long night do not repeat its job.
func TestLateReplicasRepeatNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, cfg := inMemory(t)
		runs := 0
		for range 3 {
			client, err := quorumlock.New(cfg)
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			Nightly(ctx, client, "report", 7*24*time.Hour, func(context.Context, string) error {
				runs++
				return nil
			})
			cancel()
			_ = client.Close(context.Background())
			time.Sleep(16 * time.Hour)
		}
		assert.Equal(t, 1, runs)
	})
}

// Replicas take turns at an account, and have three calls to the ledger at once.
func TestDepositsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, cfg := inMemory(t)
		l := newLedger()
		var callers sync.WaitGroup
		for range 3 {
			s, _ := start(t, cfg, l, time.Hour)
			assert.Equal(t, http.StatusOK, ask(t, s, http.MethodGet, "/ready"))
			for i := range 10 {
				callers.Go(func() { assert.Equal(t, http.StatusOK, ask(t, s, http.MethodPost, fmt.Sprint("/accounts/", i%5))) })
			}
		}
		callers.Wait()
		assert.Empty(t, l.wrong)
		for i := range 5 {
			assert.Len(t, l.bookings(fmt.Sprint("account:", i)), 6)
		}
	})
}

// Two of three nodes stop answering for a minute. The leader must stop within a TTL, deposits must fail soon, and both must
// go on afterwards.
func TestServiceStopsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, cfg := inMemory(t)
		l := newLedger()
		l.work = func(string) time.Duration { return 3 * time.Second }
		s, _ := start(t, cfg, l, 40*time.Second) // an audit each four seconds
		time.Sleep(5 * time.Second)
		failed := time.Now()
		for _, n := range nodes[:2] {
			n.Stop()
		}
		time.Sleep(30 * time.Second)
		assert.Equal(t, http.StatusServiceUnavailable, ask(t, s, http.MethodGet, "/ready"))
		began := time.Now()
		assert.Equal(t, http.StatusServiceUnavailable, ask(t, s, http.MethodPost, "/accounts/1"))
		assert.Less(t, time.Since(began), 4*time.Second)
		time.Sleep(30 * time.Second)
		healed := time.Now()
		for _, n := range nodes[:2] {
			n.Start()
		}
		time.Sleep(time.Minute)
		before, after := 0, 0
		for _, b := range l.bookings("auditor") {
			switch {
			case b.at.Before(failed):
				before++
			case b.at.After(healed):
				after++
			default:
				assert.Less(t, b.at.Sub(failed), quorumlock.DefaultTTL, "another may lead by now")
			}
		}
		assert.Equal(t, 1, before)
		assert.Greater(t, after, 8)
		assert.Equal(t, http.StatusOK, ask(t, s, http.MethodPost, "/accounts/1"))
	})
}

// A replica that ends makes room for another leader at once.
func TestLeaderEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, cfg := inMemory(t)
		l := newLedger()
		first, stop := start(t, cfg, l, time.Hour)
		time.Sleep(time.Second)
		second, _ := start(t, cfg, l, time.Hour)
		time.Sleep(time.Second)
		_, leads := first.Candidate.Leading()
		require.True(t, leads)
		stop()
		time.Sleep(time.Second)
		_, leads = second.Candidate.Leading()
		require.True(t, leads)
	})
}

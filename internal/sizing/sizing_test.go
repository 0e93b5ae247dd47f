package sizing_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/sizing"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write the tables into the documents")

var ttls = []time.Duration{time.Second, 3 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute}

// TestTablesInDocuments compares the tables in docs/ with the computed ones.
func TestTablesInDocuments(t *testing.T) {
	for path, table := range map[string]string{
		"../../docs/sizing.md":   sizing.TTLTable(ttls...),
		"../../docs/choosing.md": sizing.NodesTable(1, 3, 5, 7),
	} {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		place := regexp.MustCompile(`(?s)(<!-- calculated -->\n)(.*?)(<!-- end -->)`)
		require.True(t, place.Match(text), "%s must have a place for its table", path)
		want := place.ReplaceAllString(string(text), "${1}"+table+"${3}")
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(want), 0o600))
			continue
		}
		require.Equal(t, want, string(text), "go test ./internal/sizing -update writes %s anew", path)
	}
}

// world returns in-memory nodes in virtual time, and a client of them.
func world(t *testing.T, n int, cfg quorumlock.Config) ([]*node.Memory, *quorumlock.Client) {
	t.Helper()
	cfg.Clock, cfg.Logger = clock.Process(), slog.New(slog.DiscardHandler)
	var nodes []*node.Memory
	for i := range n {
		nd := node.NewMemory(fmt.Sprintf("n%d", i+1), cfg.Clock)
		nodes, cfg.Nodes = append(nodes, nd), append(cfg.Nodes, nd)
	}
	_, err := admin.Init(t.Context(), cfg)
	require.NoError(t, err)
	client, err := quorumlock.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	return nodes, client
}

// each runs a test for each TTL, in virtual time.
func each(t *testing.T, test func(t *testing.T, s sizing.Sizes)) {
	for _, ttl := range ttls {
		t.Run(ttl.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, sizing.Of(ttl)) })
		})
	}
}

func TestRenewalsAndTimeouts(t *testing.T) {
	each(t, func(t *testing.T, s sizing.Sizes) {
		c := clock.Process()
		var last, widest time.Duration
		nodes, client := world(t, 5, quorumlock.Config{MaxTTL: s.TTL, TTL: s.TTL, Hooks: quorumlock.Hooks{Renewed: func(quorumlock.RenewedEvent) {
			now := c.Now()
			widest, last = max(widest, now-last), now
		}}})
		last = c.Now()
		lease, err := client.RedLock("job").Acquire(t.Context())
		require.NoError(t, err)
		require.Equal(t, s.Valid, lease.Remaining().Round(time.Millisecond))
		time.Sleep(100 * s.TTL)
		synctest.Wait()
		require.LessOrEqual(t, widest, s.Renewal)
		require.Greater(t, widest, s.Renewal*8/10, "renewals are not much more frequent")
		require.NoError(t, lease.Release(t.Context()))

		for _, nd := range nodes {
			nd.Pause()
		}
		began := c.Now()
		_, err = client.RedLock("other").TryAcquire(t.Context())
		require.ErrorIs(t, err, node.ErrTimeout)
		require.LessOrEqual(t, c.Now()-began, s.NodeTimeout)
		require.GreaterOrEqual(t, c.Now()-began, s.NodeTimeout/2)
		for _, nd := range nodes {
			nd.Resume()
		}
	})
}

// TestOutagesAreSurvived runs outages of the promised length, from every moment of a lease.
func TestOutagesAreSurvived(t *testing.T) {
	each(t, func(t *testing.T, s sizing.Sizes) {
		nodes, client := world(t, 5, quorumlock.Config{MaxTTL: s.TTL, TTL: s.TTL})
		lease, err := client.RedLock("job").Acquire(t.Context())
		require.NoError(t, err)
		for i := range 200 {
			time.Sleep(s.TTL + s.TTL*time.Duration(i)/400)
			for _, nd := range nodes {
				nd.Pause()
			}
			time.Sleep(s.Outage)
			for _, nd := range nodes {
				nd.Resume()
			}
			require.NoError(t, lease.Err(), "outage %d", i)
		}
	})
}

// TestOutagesAreNotSurvived runs outages longer than the validity of a lease. No lease survives them.
func TestOutagesAreNotSurvived(t *testing.T) {
	each(t, func(t *testing.T, s sizing.Sizes) {
		nodes, client := world(t, 5, quorumlock.Config{MaxTTL: s.TTL, TTL: s.TTL})
		lease, err := client.RedLock("job").Acquire(t.Context())
		require.NoError(t, err)
		for _, nd := range nodes {
			nd.Pause()
		}
		time.Sleep(s.Valid + time.Millisecond)
		require.ErrorIs(t, lease.Err(), quorumlock.ErrLost)
		for _, nd := range nodes {
			nd.Resume()
		}
	})
}

// TestNodesThatMayBeDown checks the table of nodes with nodes that are down.
func TestNodesThatMayBeDown(t *testing.T) {
	for _, n := range []int{1, 3, 5, 7} {
		for _, rule := range []quorum.Rule{quorum.Majority(), quorum.All()} {
			for down := range n + 1 {
				synctest.Test(t, func(t *testing.T) {
					nodes, client := world(t, n, quorumlock.Config{})
					for _, nd := range nodes[:down] {
						nd.Stop()
					}
					_, err := client.RedLock("job").With(quorumlock.LockOptions{Rule: rule}).TryAcquire(t.Context())
					require.Equal(t, down <= n-rule.Need(n), err == nil, "%s of %d, %d down: %v", rule, n, down, err)
				})
			}
		}
	}
}

// Package sizing_test compares the tables of docs/sizing.md and docs/choosing.md with what clients do in virtual time.
package sizing_test

import (
	"flag"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write the tables into the documents")

var ttls = []time.Duration{time.Second, 3 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute}

// TestTablesInDocuments compares the tables in docs/ with the computed ones.
func TestTablesInDocuments(t *testing.T) {
	for path, table := range map[string]string{
		"../../../docs/sizing.md":   ttlTable(ttls...),
		"../../../docs/choosing.md": nodesTable(1, 3, 5, 7),
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
		require.Equal(t, want, string(text), "go test ./internal/tests/sizing -update writes %s anew", path)
	}
}

// each runs a test for each TTL, with a client of five nodes in virtual time.
func each(t *testing.T, test func(t *testing.T, f *fleet.Fleet, s sizes, c *quorumlock.Client), changes ...func(*quorumlock.Config)) {
	for _, ttl := range ttls {
		t.Run(ttl.String(), func(t *testing.T) {
			fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
				own := func(cfg *quorumlock.Config) { cfg.MaxTTL, cfg.TTL = ttl, ttl }
				test(t, f, sizesOf(ttl), f.Client(append(changes, own)...))
			})
		})
	}
}

var everyNode = fleet.FirstNodes(5)

func TestRenewalsAndTimeouts(t *testing.T) {
	var now func() time.Duration
	var last, widest time.Duration
	hooks := func(cfg *quorumlock.Config) {
		now, last, widest = cfg.Clock.Now, cfg.Clock.Now(), 0
		cfg.Hooks.Renewed = func(quorumlock.RenewalEvent) { widest, last = max(widest, now()-last), now() }
	}
	each(t, func(t *testing.T, f *fleet.Fleet, s sizes, c *quorumlock.Client) {
		lease := fleet.MustAcquire(t, c.RedLock("job"))
		require.Equal(t, s.Valid, lease.Remaining().Round(time.Millisecond))
		time.Sleep(100 * s.TTL)
		fleet.Settle()
		require.LessOrEqual(t, widest, s.Renewal)
		require.Greater(t, widest, s.Renewal*8/10, "renewals are not much more frequent")
		require.NoError(t, lease.Release(t.Context()))

		f.Pause(everyNode...)
		took := f.Elapsed(func() {
			_, err := c.RedLock("other").TryAcquire(t.Context())
			require.ErrorIs(t, err, node.ErrTimeout)
		})
		require.LessOrEqual(t, took, s.NodeTimeout)
		require.GreaterOrEqual(t, took, s.NodeTimeout/2)
		f.Resume(everyNode...)
	}, hooks)
}

// TestOutagesAreSurvived runs outages of the promised length, from every moment of a lease.
func TestOutagesAreSurvived(t *testing.T) {
	each(t, func(t *testing.T, f *fleet.Fleet, s sizes, c *quorumlock.Client) {
		lease := fleet.MustAcquire(t, c.RedLock("job"))
		for i := range 200 {
			time.Sleep(s.TTL + s.TTL*time.Duration(i)/400)
			f.Pause(everyNode...)
			time.Sleep(s.Outage)
			f.Resume(everyNode...)
			require.NoError(t, lease.Err(), "outage %d", i)
		}
	})
}

// TestNodesThatMayBeDown checks the table of nodes with nodes that are down.
func TestNodesThatMayBeDown(t *testing.T) {
	for _, n := range []int{1, 3, 5, 7} {
		rules := []quorum.Rule{quorum.Majority(), quorum.All()}
		if n > 4 {
			rules = append(rules, quorum.AtLeast(4))
		}
		for _, rule := range rules {
			for down := range n + 1 {
				fleet.InVirtualTime(t, n, func(t *testing.T, f *fleet.Fleet) {
					f.Stop(fleet.FirstNodes(down)...)
					_, err := f.Client().RedLock("job").With(quorumlock.LockOptions{Rule: rule}).TryAcquire(t.Context())
					require.Equal(t, down <= n-rule.Need(n), err == nil, "%s of %d, %d down: %v", rule, n, down, err)
				})
			}
		}
	}
}

package realtest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// TestRealProtocols: programs of protocol 0, whose lists have no terms, and of a protocol too far ahead keep a program out while
// their lists count, and the error names both versions. One of the next protocol, that bears this one, works beside it.
func TestRealProtocols(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	list := wire.NewList(c.addresses())
	in := func(d time.Duration) string { return fmt.Sprint(time.Now().Add(d).UnixMilli()) }
	note := func(terms string, life time.Duration) {
		for i := range c.servers {
			c.command(i, "HSET", wire.ListKey(""), terms+strings.Join(list.Addresses, "\n"), in(life)+"\nother\n\n\n")
		}
	}
	changing := func(cfg *quorumlock.Config) {
		withTTL(2 * time.Second)(cfg)
		cfg.MaxTTL, cfg.MaxClockSkew = cfg.TTL, cfg.TTL/10
	}
	client := c.client(changing)
	note("2 1 2000 200 2200 more\n", time.Hour)
	require.NoError(t, acquire(t, client.RedLock("job")).Release(t.Context()))
	require.Equal(t, 2, c.number(0, "HLEN", wire.ListKey("")), "each knows the other")
	for terms, protocol := range map[string]int{"": 0, "3 2 ?\n": 3} {
		another := c.client(changing)
		note(terms, 3*time.Second)
		_, err := another.RedLock("job").TryAcquire(t.Context())
		var settings *node.SettingsError
		require.ErrorAs(t, err, &settings)
		require.ErrorContains(t, err, fmt.Sprintf("this program speaks protocol 1, and other speaks protocol %d", protocol))
		var lease *quorumlock.Lease
		require.Eventually(t, func() bool {
			lease, err = another.RedLock("job").TryAcquire(t.Context())
			return err == nil
		}, atMost, 100*time.Millisecond, "its list runs out")
		require.NoError(t, lease.Release(t.Context()))
	}
}

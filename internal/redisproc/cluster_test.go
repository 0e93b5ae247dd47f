package redisproc_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
)

// A slot moves to a server that has not heard of a failover yet. Such a server takes no news of a slot that it imports: in
// its view the slot would have no owner, and it would refuse the rest of the keys.
func TestMoveToAServerThatMissedAFailover(t *testing.T) {
	t.Parallel()
	c := redisproc.StartCluster(t, redisproc.WithPatience())
	const key = "{slot}"
	owner, to := c.Owner(key), c.OtherMaster(key)
	for _, key := range []string{key, key + "2", key + "3"} {
		_, err := owner.Command("SET", key, "value")
		require.NoError(t, err)
	}
	c.CutOff(to)
	c.Failover(key)
	c.Rejoin(to)
	c.Move(key, to, func(from *redisproc.Server) {
		require.Eventually(t, func() bool {
			nodes, err := to.Command("CLUSTER", "NODES")
			require.NoError(t, err)
			_, rest, _ := strings.Cut(nodes, from.Addr())
			line, _, _ := strings.Cut(rest, "\n")
			return strings.Contains(line, "master")
		}, 20*time.Second, 10*time.Millisecond, "the server hears of the failover")
	})
	c.AwaitHealthy()
	require.Equal(t, to, c.Owner(key))
}

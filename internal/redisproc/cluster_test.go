package redisproc_test

import (
	"net"
	"strconv"
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

// The servers of a cluster dial a dead one again and again. If such a connection got the port of the dead server as
// its own, it would reach itself. The servers would then take their own messages for messages of the dead one, and
// might never replace it.
func TestNoConnectionGetsThePortOfADeadServer(t *testing.T) {
	t.Parallel()
	const busOffset, outgoing = 10_000, 32_768 // the lowest port of outgoing connections on Linux
	c := redisproc.StartCluster(t, redisproc.WithPatience())
	for _, s := range c.Servers() {
		require.Less(t, portOf(t, s)+busOffset, outgoing)
	}
	dead := c.Servers()[0]
	dead.Kill()
	for _, port := range []int{portOf(t, dead), portOf(t, dead) + busOffset} {
		here := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}
		conn, err := net.DialTCP("tcp", here, here)
		if err == nil {
			_ = conn.SetLinger(0)
			_ = conn.Close()
		}
		require.Error(t, err, "a connection reached itself at port %d", port)
	}
	dead.Restart()
	c.AwaitHealthy()
}

func portOf(t *testing.T, s *redisproc.Server) int {
	t.Helper()
	_, text, err := net.SplitHostPort(s.Addr())
	require.NoError(t, err)
	port, err := strconv.Atoi(text)
	require.NoError(t, err)
	return port
}

package node_test

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
)

// A surplus reply must not become the answer to the next command. It would shift all later answers
// by one command.
func TestRedisReplacesAConnectionWithASurplusReply(t *testing.T) {
	var connections atomic.Int32
	says, said := make(chan struct{}), make(chan error)
	server := redisproc.Serve(t, func(c net.Conn) {
		if connections.Add(1) == 1 {
			go func() {
				<-says
				_, err := io.WriteString(c, "+PONG\r\n")
				said <- err
			}()
		}
		hostileAt("no command", "", "", always(":1\r\n"))(c)
	})
	n := open(t, server.Addr())
	require.NoError(t, n.Probe(t.Context()))
	close(says)
	require.NoError(t, <-said)
	poll(t, func() bool {
		time.Sleep(2 * time.Millisecond) // the connection has to be idle
		return !n.Connected()
	}, func() any { return "the look finds nothing" })
	require.False(t, n.Connected(), "a second look comes too soon")
	require.NoError(t, n.Probe(t.Context()))
	require.EqualValues(t, 2, connections.Load())
}

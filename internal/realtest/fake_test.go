package realtest_test

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
)

// fakeServer listens until the test ends and serves each connection with a function.
func fakeServer(t *testing.T, serve func(conn net.Conn)) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var mu sync.Mutex
	var conns []net.Conn
	closed := false
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			if closed { // The connection came when the server was closing.
				_ = conn.Close()
			}
			mu.Unlock()
			all.Go(func() {
				serve(conn)
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		closed = true
		for _, conn := range conns {
			_ = conn.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return listener.Addr().String()
}

// A client uses the other nodes if a minority of its addresses lead to servers that are not Redis, and says which ones do.
func TestRealServersThatAreNotRedis(t *testing.T) {
	t.Parallel()
	for what, fake := range map[string]struct {
		serve func(net.Conn)
		// reason is the required reason of a node's error, or nil if it is not certain.
		reason error
	}{
		"closes at once":     {func(net.Conn) {}, node.ErrUnreachable},
		"speaks HTTP":        {func(conn net.Conn) { _, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n") }, node.ErrProtocol},
		"says nothing":       {func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }, nil},
		"echoes":             {func(conn net.Conn) { _, _ = io.Copy(conn, conn) }, nil},
		"sends random bytes": {func(conn net.Conn) { _, _ = io.WriteString(conn, "\x00\x01\x02\xff\xfe\r\n\r\n") }, node.ErrProtocol},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := startCluster(t, 3)
			fakes := []string{fakeServer(t, fake.serve), fakeServer(t, fake.serve), fakeServer(t, fake.serve)}

			// The client tolerates two such nodes of five, but not three.
			client := newClient(t, func(cfg *quorumlock.Config) { cfg.Addresses = append(c.addresses(), fakes[:2]...) })
			lease := acquire(t, client.RedLock("job"))
			require.NoError(t, lease.Extend(t.Context()))
			require.NoError(t, lease.Release(t.Context()))
			c.noKeys()

			client = newClient(t, func(cfg *quorumlock.Config) { cfg.Addresses = append(c.addresses()[:2], fakes...) })
			_, err := client.RedLock("job").TryAcquire(t.Context())
			var noQuorum *quorumlock.NoQuorumError
			require.ErrorAs(t, err, &noQuorum)
			namesNodes(t, noQuorum.Nodes, fakes...)
			for _, n := range noQuorum.Nodes {
				var nodeErr *node.Error
				require.ErrorAs(t, n.Err, &nodeErr, "each failed node needs a reason")
				if fake.reason != nil {
					require.ErrorIs(t, n.Err, fake.reason)
				}
			}
			t.Log(noQuorum.Nodes[0].Err)
			c.noKeys()
		})
	}
}

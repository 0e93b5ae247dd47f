package node_test

import (
	"bytes"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// connections returns the number of this library's connections to a server.
func connections(t testing.TB, server *redisproc.Server) int {
	t.Helper()
	return strings.Count(command(t, server, "CLIENT", "LIST"), "name=quorumlock ")
}

// awaitClosed returns once a server has closed all connections of this library.
func awaitClosed(t testing.TB, server *redisproc.Server) {
	t.Helper()
	poll(t, func() bool { return connections(t, server) == 0 }, func() any { return "the server keeps the connection" })
}

// The server closes the idle connection in each of the ways that servers have. The next operation
// succeeds.
func TestRedisSurvivesIdleConnectionsThatTheServerCloses(t *testing.T) {
	for name, c := range map[string]struct {
		opts    []redisproc.Option
		address func(*redisproc.Server) string
		closes  func(t *testing.T, server *redisproc.Server)
		// steps is the number of operations to try. idle is set if the connection was certainly idle
		// for long enough for a look.
		steps int
		idle  bool
	}{
		"timeout": {
			address: (*redisproc.Server).Addr,
			closes:  func(_ *testing.T, server *redisproc.Server) { server.Config("timeout", "1") },
			steps:   3, // each takes more than a second
			idle:    true,
		},
		"client kill": {
			address: (*redisproc.Server).Addr,
			closes: func(t *testing.T, server *redisproc.Server) {
				command(t, server, "CLIENT", "KILL", "TYPE", "normal")
			},
			steps: 6,
		},
		"client kill on a unix socket": {
			address: (*redisproc.Server).Socket,
			closes: func(t *testing.T, server *redisproc.Server) {
				command(t, server, "CLIENT", "KILL", "TYPE", "normal")
			},
			steps: 6,
		},
		"restart": {
			opts:    []redisproc.Option{redisproc.WithAOF()},
			address: (*redisproc.Server).Addr,
			closes: func(t *testing.T, server *redisproc.Server) {
				server.Kill()
				server.Restart()
				admit(t, server)
				command(t, server, "CLIENT", "KILL", "TYPE", "normal")
			},
			steps: 6,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t, c.opts...)
			n := open(t, c.address(server))
			for _, step := range []struct {
				op      wire.Op
				outcome wire.Outcome
			}{
				{acquire("o1", "a"), wire.Granted},
				{renew("o1", "a"), wire.Granted},
				{release("o1", "a"), wire.Released},
				{acquire("o1", "a"), wire.Granted},
				{inspect("a"), wire.Inspected},
				{force("a"), wire.Released},
			}[:c.steps] {
				c.closes(t, server)
				awaitClosed(t, server)
				r := want(t, step.outcome, n, step.op)
				if c.idle {
					assert.False(t, r.Repeated, "%v: a connection that is known to be closed is not written to", step.op.Kind)
				}
			}
			c.closes(t, server)
			awaitClosed(t, server)
			require.NoError(t, n.Probe(t.Context()))
		})
	}
}

// The same over TLS, where a server that closes says so in a record.
func TestRedisSurvivesIdleTLSConnectionsThatTheServerCloses(t *testing.T) {
	t.Parallel()
	server := start(t, redisproc.WithTLS())
	opt, err := node.ParseAddress("rediss://" + server.TLSAddr())
	require.NoError(t, err)
	opt.TLSConfig.RootCAs = server.CertPool()
	n := openWith(t, opt)
	want(t, wire.Granted, n, acquire("o1", "a"))
	server.Config("timeout", "3") // with 1, a busy machine may not get from the new connection to its first command in time
	for range 2 {
		awaitClosed(t, server)
		r := want(t, wire.Granted, n, renew("o1", "a"))
		assert.False(t, r.Repeated)
	}
}

// A Sentinel and the master close their idle connections. The next operation asks the Sentinel again.
func TestRedisSurvivesIdleConnectionsBehindASentinel(t *testing.T) {
	server := start(t)
	sentinel := redisproc.StartSentinel(t, "mymaster", server)
	n := openWith(t, sentinelOf(sentinel.Addr()))
	eventually(t, wire.Granted, n, acquire("o1", "a"))
	for range 3 {
		_, err := sentinel.Command("CLIENT", "KILL", "TYPE", "normal")
		require.NoError(t, err)
		command(t, server, "CLIENT", "KILL", "TYPE", "normal")
		awaitClosed(t, server)
		want(t, wire.Granted, n, renew("o1", "a"))
	}
}

// cutter is a proxy to a server that breaks connections in the middle of an exchange.
type cutter struct {
	*redisproc.Front
	target string
	conns  atomic.Int32
	// cuts counts the scripts that still lead to a cut. If answered is set, the server runs them first.
	cuts     atomic.Int32
	answered atomic.Bool
}

func newCutter(t testing.TB, target string) *cutter {
	t.Helper()
	c := &cutter{target: target}
	c.Front = redisproc.Relay(t, target, c.carry, redisproc.Copy)
	return c
}

// carry forwards in turns, because the client has one exchange at a time.
func (c *cutter) carry(up, down net.Conn) {
	c.conns.Add(1)
	for asked := make([]byte, 1<<20); ; {
		n, err := down.Read(asked)
		if err != nil {
			return
		}
		if !bytes.Contains(asked[:n], []byte("EVAL")) || c.cuts.Add(-1) < 0 {
			_, _ = up.Write(asked[:n])
			continue
		}
		if c.answered.Load() {
			c.run(asked[:n])
		}
		return
	}
}

// run sends the commands to the server on another connection, and waits for the answer.
func (c *cutter) run(commands []byte) {
	conn, err := net.Dial("tcp", c.target)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = conn.Write(commands)
	_, _ = conn.Read(make([]byte, 1<<16))
}

// arm makes the next scripts end in a cut.
func (c *cutter) arm(cuts int32, answered bool) {
	c.answered.Store(answered)
	c.cuts.Store(cuts)
}

// A connection may break between the look at it and the answer. The node replaces it and sends the
// batch once more. The replies say so.
func TestRedisSendsABatchAgainAfterABrokenConnection(t *testing.T) {
	server := start(t)
	c := newCutter(t, server.Addr())
	n := open(t, c.Addr())
	warm(t, n)
	require.EqualValues(t, 1, c.conns.Load())

	again := func(outcome wire.Outcome, op wire.Op) {
		t.Helper()
		before := c.conns.Load()
		r := want(t, outcome, n, op)
		assert.True(t, r.Repeated, "%v", op.Kind)
		assert.Equal(t, before+1, c.conns.Load(), "%v", op.Kind)
		assert.Negative(t, c.cuts.Load(), "the way was cut, and then free")
	}
	c.arm(1, false)
	again(wire.Granted, acquire("o1", "a"))
	c.arm(1, false)
	again(wire.Released, release("o1", "a"))

	c.arm(1, true)
	again(wire.Granted, acquire("o2", "b"))
	c.arm(1, true)
	again(wire.Granted, renew("o2", "b"))
	c.arm(1, true)
	again(wire.Absent, release("o2", "b"))
	assert.Empty(t, held(server))

	// The node sends the whole batch again, in order.
	c.arm(1, true)
	replies := do(n, acquire("o3", "c"), renew("o3", "c"), release("o3", "c"), acquire("o4", "c"))
	for i, outcome := range []wire.Outcome{wire.Granted, wire.Granted, wire.Released, wire.Granted} {
		require.NoError(t, replies[i].Err)
		assert.True(t, replies[i].Repeated)
		if i < 3 { // what o4 has kept of the first run denies these in the second
			continue
		}
		assert.Equal(t, outcome, replies[i].Outcome)
	}
	assert.Equal(t, []string{"c"}, held(server))
	assert.False(t, want(t, wire.Released, n, release("o4", "c")).Repeated)
}

// A new connection that breaks at once is a failure of the node: nothing is sent a third time.
func TestRedisSendsABatchAgainOnlyOnce(t *testing.T) {
	server := start(t)
	c := newCutter(t, server.Addr())
	n := open(t, c.Addr())

	c.arm(100, false)
	r := do(n, acquire("o1", "a"))[0]
	require.ErrorIs(t, r.Err, node.ErrUnreachable)
	assert.False(t, r.Unsent)
	assert.EqualValues(t, 1, c.conns.Load(), "a fresh connection")

	c.arm(0, false)
	want(t, wire.Granted, n, acquire("o1", "a"))
	c.conns.Store(0)
	c.arm(100, false)
	r = do(n, release("o1", "a"))[0]
	require.ErrorIs(t, r.Err, node.ErrUnreachable)
	assert.False(t, r.Unsent)
	assert.EqualValues(t, 1, c.conns.Load(), "one more for a connection that was used before")
	assert.EqualValues(t, 98, c.cuts.Load())
}

// turns counts the round trips of a client above TCP: the client writes after the server wrote.
type turns struct {
	*redisproc.Front
	n atomic.Int32
}

func newTurns(t testing.TB, target string) *turns {
	t.Helper()
	w := &turns{}
	w.Front = redisproc.Serve(t, func(down net.Conn) {
		up, err := net.Dial("tcp", target)
		if err != nil {
			return
		}
		var answers sync.WaitGroup
		defer answers.Wait()
		defer func() { _ = up.Close() }()
		var spoke atomic.Bool // the client was the last to say something
		answers.Go(func() {
			defer func() { _ = down.Close() }()
			for buf := make([]byte, 1<<16); ; {
				n, err := up.Read(buf)
				if err != nil {
					return
				}
				spoke.Store(false)
				_, _ = down.Write(buf[:n])
			}
		})
		for buf := make([]byte, 1<<16); ; {
			n, err := down.Read(buf)
			if err != nil {
				return
			}
			if !spoke.Swap(true) {
				w.n.Add(1)
			}
			_, _ = up.Write(buf[:n])
		}
	})
	return w
}

// Connecting takes two round trips above TCP.
func TestRedisConnectsInFewRoundTrips(t *testing.T) {
	server := start(t)
	warm(t, open(t, server.Addr()))
	w := newTurns(t, server.Addr())

	n := open(t, w.Addr())
	assert.False(t, n.Connected())
	require.NoError(t, n.Probe(t.Context()))
	assert.EqualValues(t, 2, w.n.Load(), "HELLO, and what the server is")
	assert.True(t, n.Connected())
	want(t, wire.Granted, n, acquire("o1", "a"))
	assert.EqualValues(t, 3, w.n.Load())
	require.NoError(t, n.Probe(t.Context()))
	assert.EqualValues(t, 4, w.n.Load(), "a PING")

	want(t, wire.Granted, open(t, w.Addr()), acquire("o1", "a"))
	assert.EqualValues(t, 7, w.n.Load(), "an operation connects, too")

	w.Sever()
	poll(t, func() bool { return !n.Connected() }, func() any { return "the end of the connection is seen" })
	require.NoError(t, n.Close())
	assert.True(t, n.Connected(), "so that the next operation says that it is closed")
}

package realtest_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
)

// hangUp makes all servers close the connections of clients. It closes a connection only after a script
// ran on it, or after a second without any command: a connection that closes while it is being made counts
// as a failure of the node. A client whose answer was lost connects again and repeats the operation. So
// hangUp goes on until no connection is left. A node that is not asked has none for a second.
func (c *cluster) hangUp() {
	c.t.Helper()
	closed := 0
	for i := range c.servers {
		ran, began := false, time.Now()
		eventually(c.t, 30*time.Second, func() bool {
			connected := false
			for line := range strings.Lines(c.command(i, "CLIENT", "LIST")) {
				if !strings.Contains(line, "name=quorumlock ") {
					continue
				}
				connected, began = true, time.Now()
				id, _, ok := strings.Cut(strings.TrimPrefix(line, "id="), " ")
				if ok && (strings.Contains(line, "cmd=eval") || !strings.Contains(line, " idle=0 ")) {
					ran = true
					c.command(i, "CLIENT", "KILL", "ID", id)
				}
			}
			return !connected && (ran || time.Since(began) > time.Second)
		}, "node %d closed each connection", i)
		if ran {
			closed++
		}
	}
	require.Greater(c.t, closed, len(c.servers)/2, "a majority took part in the operation, and closed its connections")
}

// hungUp returns once no server has a client connection.
func (c *cluster) hungUp() {
	c.t.Helper()
	for i := range c.servers {
		last := ""
		eventually(c.t, 30*time.Second, func() bool {
			last = c.command(i, "CLIENT", "LIST")
			return !strings.Contains(last, "name=quorumlock ")
		}, "node %d has closed idle connections; left: %v", i, func() []string { return []string{last} })
	}
}

// watchNodes counts the reports of nodes that are down.
func watchNodes(down *atomic.Int32) func(*quorumlock.Config) {
	return func(cfg *quorumlock.Config) {
		cfg.Hooks.NodeDown = func(string, error) { down.Add(1) }
	}
}

// TestRealClosedIdleConnectionsAreReplaced makes all servers close their idle connections at once, so no majority
// helps. The next call must succeed, and no node may count as failed.
func TestRealClosedIdleConnectionsAreReplaced(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Parallel()
			var down atomic.Int32
			c := startCluster(t, n)
			client := c.client(watchNodes(&down), func(cfg *quorumlock.Config) {
				// The test pauses no node, and the leases last longer than the pause between two operations.
				cfg.TTL, cfg.MaxTTL = time.Minute, time.Minute
				cfg.NodeTimeoutMin, cfg.NodeTimeoutMax = cfg.TTL/3, cfg.TTL/3
			})
			lock := client.RedLock("a").With(quorumlock.LockOptions{Fixed: true})
			cycle := func(between func()) {
				lease, err := lock.TryAcquire(t.Context())
				require.NoError(t, err)
				between()
				require.NoError(t, lease.Extend(t.Context()))
				between()
				require.NoError(t, lease.Release(t.Context()))
				between()
			}
			cycle(func() {}) // The servers learn the scripts.
			for range 3 {
				cycle(c.hangUp)
			}
			for i := range c.servers {
				c.servers[i].Config("timeout", "1")
			}
			cycle(c.hungUp)
			cycle(c.hungUp)
			require.NoError(t, client.Close(t.Context()))
			assert.Zero(t, down.Load(), "a node whose idle connection was closed must not count as down")
			c.noKeys()
		})
	}
}

// distant makes a client reach the servers with this round trip, half of it in each direction. It
// sets the timeouts that the client would give to addresses.
func (c *cluster) distant(roundTrip time.Duration) func(*quorumlock.Config) {
	c.t.Helper()
	var nodes []node.Node
	for _, s := range c.servers {
		opt, err := node.ParseAddress(delayed(c.t, s.Addr(), roundTrip/2))
		require.NoError(c.t, err)
		opt.ConnWriteTimeout, opt.Dialer.Timeout = 500*time.Millisecond, 2*time.Second
		opt.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			time.Sleep(roundTrip) // This stands for the TCP handshake, which the proxy does not delay.
			return d.DialContext(ctx, "tcp", addr)
		}
		nd, err := node.NewRedis(opt)
		require.NoError(c.t, err)
		c.t.Cleanup(func() { _ = nd.Close() })
		nodes = append(nodes, nd)
	}
	return func(cfg *quorumlock.Config) { cfg.Addresses, cfg.Nodes = nil, nodes }
}

// delayed is a proxy to a server that adds latency.
func delayed(t testing.TB, target string, way time.Duration) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	all.Go(func() {
		for {
			down, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer func() { _ = down.Close() }()
				up, err := net.Dial("tcp", target)
				if err != nil {
					return
				}
				defer func() { _ = up.Close() }()
				stop := context.AfterFunc(ctx, func() { _, _ = down.Close(), up.Close() })
				defer stop()
				var back sync.WaitGroup
				defer back.Wait()
				back.Go(func() { crawl(down, up, way) })
				crawl(up, down, way)
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		cancel()
		all.Wait()
	})
	return listener.Addr().String()
}

// crawl copies bytes and delays each piece.
func crawl(to, from net.Conn, way time.Duration) {
	type piece struct {
		due  time.Time
		data []byte
	}
	pieces := make(chan piece, 1024)
	var writer sync.WaitGroup
	writer.Go(func() {
		defer func() { _ = to.Close() }()
		for p := range pieces {
			time.Sleep(time.Until(p.due)) // This is the latency of the link.
			_, _ = to.Write(p.data)
		}
	})
	defer writer.Wait()
	defer close(pieces)
	for buf := make([]byte, 64<<10); ; {
		n, err := from.Read(buf)
		if n > 0 {
			pieces <- piece{time.Now().Add(way), append([]byte(nil), buf[:n]...)}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				_ = from.Close()
			}
			return
		}
	}
}

// TestRealFirstAcquireOnRemoteNodes requires success of a new client's first attempt, although
// connecting takes several round trips.
func TestRealFirstAcquireOnRemoteNodes(t *testing.T) {
	for _, roundTrip := range []time.Duration{100, 200, 300} {
		roundTrip *= time.Millisecond
		t.Run(roundTrip.String(), func(t *testing.T) {
			t.Parallel()
			c := startCluster(t, 3)
			lease := acquire(t, c.client().RedLock("a")) // The servers learn the scripts.
			require.NoError(t, lease.Release(t.Context()))

			// On a busy machine a stall adds to the round trips, and breaks an attempt.
			var err error
			for range 10 {
				if err = c.connectsFrom(t, roundTrip); err == nil {
					return
				}
				t.Log(err)
			}
			t.Fatal(err)
		})
	}
}

// connectsFrom returns nil if a new client at a distance gets and releases locks, and takes no node for down.
func (c *cluster) connectsFrom(t *testing.T, roundTrip time.Duration) error {
	t.Helper()
	var down atomic.Int32
	far := c.client(watchNodes(&down), c.distant(roundTrip))
	defer closeClient(t, far)
	cycle := func(name string) (left time.Duration, err error) {
		lease, err := far.RedLock(name).TryAcquire(t.Context())
		if err != nil {
			return 0, err
		}
		left = lease.Remaining()
		return left, lease.Release(t.Context())
	}
	began := time.Now()
	left, err := cycle("a")
	if err != nil {
		return err
	}
	t.Logf("the first attempt and the release took %.1f round trips", float64(time.Since(began))/float64(roundTrip))
	assert.Greater(t, left, quorumlock.DefaultTTL*9/10-3*time.Second)

	// A reconnect after an idle time has the same bound.
	c.hangUp()
	time.Sleep(roundTrip) // The client notices the closed connections after this time.
	if _, err = cycle("b"); err == nil && down.Load() > 0 {
		err = fmt.Errorf("%d nodes count as down", down.Load())
	}
	return err
}

// TestRealConnect requires that a connected client needs one round trip for its first lock.
func TestRealConnect(t *testing.T) {
	c := startCluster(t, 3)
	client := c.client()
	require.NoError(t, client.Connect(t.Context()))
	require.NoError(t, client.Connect(t.Context()), "a second Connect does no harm")
	lease, err := client.RedLock("a").TryAcquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Release(t.Context()))

	// Connect succeeds without a minority of the nodes.
	c.servers[0].Kill()
	require.NoError(t, c.client().Connect(t.Context()))

	// Connect fails without a majority. The error names each node that is not connected.
	c.servers[1].Kill()
	lost := c.client()
	err = lost.Connect(t.Context())
	var failure *quorumlock.NoQuorumError
	require.ErrorAs(t, err, &failure)
	assert.Equal(t, quorumlock.OpConnect, failure.Op)
	assert.Equal(t, 1, failure.Agreed)
	assert.Len(t, failure.Nodes, 2)
	require.ErrorIs(t, err, node.ErrUnreachable)
	assert.Contains(t, err.Error(), c.servers[0].Addr())
	assert.Contains(t, err.Error(), c.servers[1].Addr())

	// A client whose Connect failed can connect once the nodes are back.
	c.servers[0].Restart()
	c.servers[1].Restart()
	c.open(c.limits)
	require.NoError(t, lost.Connect(t.Context()), "Connect does not wait for the next probe of a node")
	_, err = lost.RedLock("b").TryAcquire(t.Context())
	require.NoError(t, err)

	closing := c.client()
	require.NoError(t, closing.Close(t.Context()))
	require.ErrorIs(t, closing.Connect(t.Context()), quorumlock.ErrClosed)
}

package node_test

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// slotOf returns a node that is the slot of the tag ql, and asks these servers for it first.
func slotOf(t *testing.T, seeds ...string) serverNode {
	t.Helper()
	opt := node.Options{Addresses: seeds, ConnectTimeout: patience, Timeout: patience, Tag: "ql"}
	n, err := node.New(opt)
	require.NoError(t, err)
	t.Cleanup(func() { _ = n.Close() })
	return n.(serverNode)
}

const marker = "quorumlock:node:{ql}"

// The node follows its slot through failovers and moves. Each new owner is another server, which grants nothing new
// until its recovery has ended, and confirms what was granted.
func TestRedisFollowsTheSlotOfACluster(t *testing.T) {
	t.Parallel()
	c := redisproc.StartCluster(t, redisproc.WithPatience())
	owner := c.Owner(marker)
	n := opened(t, slotOf(t, c.Addresses()...))
	seed := opened(t, slotOf(t, c.OtherMaster(marker).Addr())) // it learns the owner from another server
	require.Equal(t, owner.Addr(), n.Address())
	require.Equal(t, owner.Addr(), seed.Address())

	// All operations, and batches of them, stay in the slot.
	for i, r := range do(n, wire.Op{Kind: wire.Mark}, acquire("o1", "{ql}:x", "{ql}:y"), renew("o1", "{ql}:x", "{ql}:y"),
		inspect("{ql}:x", "{ql}:y"), release("o1", "{ql}:x", "{ql}:y"), force("{ql}:x"),
		reads(acquire("r1", "{ql}:z")), reads(renew("r1", "{ql}:z")), reads(release("r1", "{ql}:z"))) {
		require.NoError(t, r.Err, "operation %d", i)
	}
	wantAll(t, seed, []wire.Op{acquire("o1", "{ql}:a"), acquire("o1", "{ql}:b"), renew("o1", "{ql}:a"), release("o1", "{ql}:b")},
		wire.Granted, wire.Granted, wire.Granted, wire.Released)
	for _, key := range owner.Keys() {
		require.Equal(t, c.Slot(marker), c.Slot(key), key)
	}

	killsOldConnection(t, c)

	var resubscribed, woken atomic.Int64
	inbox, err := n.Listen(t.Context(), "c", false, func(m wire.Message) {
		switch m.Kind {
		case wire.Resubscribed:
			resubscribed.Add(1)
		case wire.Woken:
			woken.Add(1)
		default:
		}
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = inbox.Close() })
	waits := acquire("o9", "{ql}:a")
	waits.Waiter = wire.Waiter{ID: "c:w1", Ticket: 1, Keep: long}
	want(t, wire.Denied, n, waits)

	follows := func(event string, to *redisproc.Server, move func()) {
		t.Helper()
		before := resubscribed.Load()
		move()
		poll(t, func() bool { return n.Probe(context.Background()) == nil && do(n, inspect("{ql}:a"))[0].Err == nil }, func() any { return event })
		require.Equal(t, to.Addr(), n.Address(), event)
		require.ErrorIs(t, do(n, acquire("o2", "{ql}:c"))[0].Err, node.ErrRecovering, event)
		assert.Positive(t, want(t, wire.Granted, n, renew("o1", "{ql}:a")).Recovering, event)
		// The seed's connection still leads to the old owner. Its operations follow the slot within the call.
		followed := do(seed, renew("o1", "{ql}:a"), acquire("o2", "{ql}:d"), reads(acquire("r2", "{ql}:e")))
		require.NoError(t, followed[0].Err, event)
		require.Equal(t, wire.Granted, followed[0].Outcome, event)
		require.ErrorIs(t, followed[1].Err, node.ErrRecovering, event)
		require.ErrorIs(t, followed[2].Err, node.ErrRecovering, event)
		poll(t, func() bool { return resubscribed.Load() > before }, func() any { return event + ": the inbox" })
		opened(t, n)
		eventually(t, wire.Granted, seed, acquire("o2", "{ql}:"+strings.ReplaceAll(event, " ", "")))
	}
	replica := c.ReplicaOf(owner)
	follows("failover", replica, func() {
		require.Equal(t, replica, c.Failover(marker))
		c.AwaitHealthy()
	})
	other := c.OtherMaster(marker)
	follows("move", other, func() {
		c.Move(marker, other, func(from *redisproc.Server) {
			// While the slot moves, no key can be created at the old owner, and the new one does not own it yet.
			require.Error(t, do(n, acquire("o2", "{ql}:new"))[0].Err)
			require.NotContains(t, from.Keys(), "{ql}:new")
			require.Error(t, do(slotOf(t, other.Addr()), acquire("o2", "{ql}:new"))[0].Err)
		})
	})
	require.NotContains(t, other.Keys(), "{ql}:new")
	follows("move back", replica, func() { c.Move(marker, replica, nil) })
	want(t, wire.Released, n, release("o1", "{ql}:a"))
	poll(t, func() bool { return woken.Load() > 0 }, func() any { return "the waiter" })
}

// silentConn is a connection that the client cannot close on the server.
type silentConn struct {
	net.Conn
	silent *atomic.Bool
}

func (c silentConn) Read(b []byte) (int, error) {
	if c.silent.Load() {
		return 0, os.ErrDeadlineExceeded
	}
	return c.Conn.Read(b)
}

func (c silentConn) Close() error {
	if c.silent.Load() {
		return nil
	}
	return c.Conn.Close()
}

// killsOldConnection requires that the node, after a timeout, kills its old connection at the owner of the slot, although
// it asks other servers first.
func killsOldConnection(t *testing.T, c *redisproc.Cluster) {
	t.Helper()
	owner, seed := c.Owner(marker), c.OtherMaster(marker)
	var dialled []string
	var conns []net.Conn // A connection that nothing references is closed by the garbage collector.
	t.Cleanup(func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	})
	silent := new(atomic.Bool)
	opt := node.With(rueidis.ClientOption{
		InitAddress: []string{owner.Addr(), seed.Addr()}, ConnWriteTimeout: patience, ClientName: "silent",
		DialCtxFn: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			dialled = append(dialled, addr)
			conn, err := d.DialContext(ctx, "tcp", addr)
			if err == nil {
				conns = append(conns, conn)
			}
			return silentConn{conn, silent}, err
		},
	})
	opt.Tag = "ql"
	n, err := node.New(opt)
	require.NoError(t, err)
	t.Cleanup(func() { _ = n.Close() })
	connections := func(of *redisproc.Server) int { return strings.Count(command(t, of, "CLIENT", "LIST"), "name=silent ") }

	want(t, wire.Granted, n, acquire("o1", "{ql}:silent"))
	require.Equal(t, []string{owner.Addr()}, dialled)
	silent.Store(true)
	fails(t, node.ErrTimeout, n, renew("o1", "{ql}:silent"))
	require.Equal(t, 1, connections(owner), "the server still has the old connection")
	silent.Store(false)
	want(t, wire.Released, n, release("o1", "{ql}:silent"))
	require.Equal(t, []string{owner.Addr(), seed.Addr(), owner.Addr()}, dialled)
	require.Equal(t, 1, connections(owner), "the server has the new connection only")
	require.Zero(t, connections(seed))
}

// A node without a tag does not use a cluster, and a node with a tag uses nothing else.
func TestTagsAndServersMatch(t *testing.T) {
	server := start(t)
	err := failure(t, node.ErrMisconfigured, slotOf(t, server.Addr()), acquire("o1", "{ql}:a"))
	require.ErrorContains(t, err, "remove the tag")
	assert.True(t, err.Permanent())

	alone := redisproc.Start(t, redisproc.WithArgs("--cluster-enabled", "yes"))
	began := time.Now()
	err = failure(t, node.ErrRejected, slotOf(t, alone.Addr()), acquire("o1", "{ql}:a"))
	require.ErrorContains(t, err, "CLUSTERDOWN")
	assert.False(t, err.Permanent(), "the slots may be given out later")
	assert.Less(t, time.Since(began), patience)
}

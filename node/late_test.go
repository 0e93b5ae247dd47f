package node_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// big is a batch size that a server does not read at once.
const big = 1000

// warm connects and loads the scripts into the server, because late commands name them by hash.
func warm(t *testing.T, n node.Node) {
	t.Helper()
	eventually(t, wire.Granted, n, acquire("o1", "a"))
	eventually(t, wire.Released, n, release("o1", "a"))
}

// batch makes one operation for each of many names.
func batch(n int, op func(owner string, names ...string) wire.Op) []wire.Op {
	ops := make([]wire.Op, n)
	for i := range ops {
		ops[i] = op("o1", fmt.Sprint("n", i))
	}
	return ops
}

// timesOut waits for a connection. It then sends a batch that must time out.
func timesOut(t *testing.T, n node.Node, ops []wire.Op) {
	t.Helper()
	var replies []wire.Reply
	poll(t, func() bool {
		replies = do(n, ops...)
		return replies[0].Err != nil && !replies[0].Unsent && errors.Is(replies[0].Err, node.ErrTimeout)
	}, func() any { return replies[0].Err })
	for i, r := range replies {
		require.ErrorIs(t, r.Err, node.ErrTimeout, "operation %d", i)
		require.False(t, r.Unsent, "the operation was sent, and may happen")
	}
}

// releases undoes a batch and retries until it gets a connection.
func releases(t *testing.T, n node.Node, ops []wire.Op) {
	t.Helper()
	var replies []wire.Reply
	poll(t, func() bool {
		replies = do(n, ops...)
		return !slices.ContainsFunc(replies, func(r wire.Reply) bool { return r.Err != nil })
	}, func() any { return replies[0].Err })
}

// The kernel buffers commands for a paused server. Commands sent after a reconnect run after the
// buffered ones, or the buffered ones never run.
func TestRedisNothingLateFromAPausedServer(t *testing.T) {
	server := start(t)
	n := openWith(t, hasty(server.Addr()))
	warm(t, n)
	for range 3 {
		server.Pause()
		began := time.Now()
		timesOut(t, n, batch(big, acquire))
		assert.Less(t, time.Since(began), soon)

		began = time.Now()
		err := failure(t, node.ErrTimeout, n, acquire("o2", "b"))
		assert.Less(t, time.Since(began), soon)
		assert.False(t, err.Permanent())
		server.Resume()

		releases(t, n, batch(big, release))
		assert.Empty(t, held(server))
	}
}

// late makes the releases of an owner overtake its batch of acquires. The proxy holds the batch
// back until the node has connected again and released all locks.
func late(t *testing.T, server *redisproc.Server, user, password string) (keys []string) {
	t.Helper()
	r := newRelay(t, server.Addr())
	opt := hasty(r.Addr())
	opt.Username, opt.Password = user, password
	n := openWith(t, opt)
	warm(t, n)

	r.holding.Store(true)
	timesOut(t, n, batch(big, acquire))
	r.holding.Store(false)
	releases(t, n, batch(big, release))
	require.Empty(t, held(server))
	require.Positive(t, r.deliver(), "nothing was held back")
	return held(server)
}

func TestRedisNothingLateFromABrokenConnection(t *testing.T) {
	server := start(t)
	assert.Empty(t, late(t, server, "", ""))
}

// This test shows the damage that the test above prevents. A server without CLIENT KILL executes
// late commands. They leave locks without an owner until their TTL ends.
func TestRedisLateCommandsWithoutClientKill(t *testing.T) {
	server := start(t, redisproc.WithACL("user mute on >secret ~* &* +@all -client"))
	assert.Len(t, late(t, server, "mute", "secret"), big)
}

// closeTold is a connection that signals when the client closes it.
type closeTold struct {
	net.Conn
	once   *sync.Once
	closed chan struct{}
}

func (c closeTold) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// The client library's own keep-alives would notice a broken connection between two calls. It
// would then open the next one by itself. The node must send nothing on a connection that it
// cannot kill later.
func TestRedisNothingLateAfterABreakBetweenCalls(t *testing.T) {
	server := start(t)
	r := newRelay(t, server.Addr())
	closed := make(chan chan struct{}, 1)
	opt := hasty(r.Addr())
	opt.Dialer.KeepAlive = time.Millisecond
	opt.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
		c, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		told := closeTold{Conn: c, once: new(sync.Once), closed: make(chan struct{})}
		select {
		case closed <- told.closed:
		default:
		}
		return told, nil
	}
	n := openWith(t, opt)
	warm(t, n)
	r.Sever()
	<-<-closed

	// The first batch fails if the library has not yet finished with the old connection.
	r.holding.Store(true)
	timesOut(t, n, batch(big, acquire))
	r.holding.Store(false)
	releases(t, n, batch(big, release))
	require.Positive(t, r.deliver(), "nothing was held back")
	assert.Empty(t, held(server))
}

// A Sentinel moves the master, here to another address of the same server. The late commands must
// not run either.
func TestRedisNothingLateAfterASentinelMovedTheMaster(t *testing.T) {
	server := start(t)
	before, after := newRelay(t, server.Addr()), newRelay(t, server.Addr())
	var master atomic.Pointer[relay]
	master.Store(before)
	sentinel := redisproc.Serve(t, fake(fakeSentinel(func() string { return master.Load().Addr() })))
	n := openWith(t, sentinelOf(sentinel.Addr()))
	warm(t, n)

	master.Store(after)
	sentinel.Sever() // the library asks again, and follows
	poll(t, func() bool { return after.count() > 0 }, func() any { return "the library does not follow" })
	releases(t, n, []wire.Op{release("o1", "a")})

	before.holding.Store(true)
	after.holding.Store(true)
	timesOut(t, n, batch(big, acquire))
	before.holding.Store(false)
	after.holding.Store(false)
	releases(t, n, batch(big, release))
	require.Positive(t, before.deliver()+after.deliver(), "nothing was held back")
	assert.Empty(t, held(server))
}

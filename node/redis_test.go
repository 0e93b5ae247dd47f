package node_test

import (
	"context"
	"crypto/tls"
	"net"
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

// dials counts the connections that are made with the options.
func dials(opt *rueidis.ClientOption) *atomic.Int64 {
	var n atomic.Int64
	opt.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
		n.Add(1)
		return d.DialContext(ctx, "tcp", addr)
	}
	return &n
}

func TestNewRedisRefusesWhatIsNotOneDeployment(t *testing.T) {
	for name, opt := range map[string]rueidis.ClientOption{
		"no address":      {},
		"many addresses":  {InitAddress: []string{"a:1", "b:1"}},
		"replicas only":   {InitAddress: []string{"a:1"}, ReplicaOnly: true},
		"some replicas":   {InitAddress: []string{"a:1"}, Standalone: rueidis.StandaloneOption{ReplicaAddress: []string{"b:1"}}},
		"reading replica": {InitAddress: []string{"a:1"}, SendToReplicas: func(rueidis.Completed) bool { return true }},
	} {
		_, err := node.NewRedis(opt)
		require.Error(t, err, name)
	}
}

func TestRedisServerThatRestarts(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	want(t, wire.Granted, n, acquire("o1", "a"))
	server.Kill()
	r := do(n, renew("o1", "a"))[0]
	require.ErrorIs(t, r.Err, node.ErrUnreachable)
	r = do(n, renew("o1", "a"))[0]
	require.ErrorIs(t, r.Err, node.ErrUnreachable)
	assert.True(t, r.Unsent)
	server.Restart()
	want(t, wire.Healed, n, renew("o1", "a"))

	server.Restart()
	want(t, wire.Healed, n, renew("o1", "a"))

	server.Restart()
	require.NoError(t, n.Probe(context.Background()))
}

func TestRedisPausedServerTimesOut(t *testing.T) {
	server := start(t)
	n := openWith(t, hasty(server.Addr()))
	fresh := openWith(t, hasty(server.Addr()))
	eventually(t, wire.Granted, n, acquire("o1", "a"))
	server.Pause()

	// A patient context does not prolong the node's timeout. An impatient context shortens it.
	patient, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	for _, ctx := range []context.Context{context.Background(), patient} {
		for _, n := range []node.Node{n, fresh} {
			began := time.Now()
			replies := make([]wire.Reply, 1)
			n.Do(ctx, []wire.Op{acquire("o2", "b")}, replies)
			require.ErrorIs(t, replies[0].Err, node.ErrTimeout)
			require.ErrorIs(t, n.Probe(ctx), node.ErrTimeout)
			assert.Less(t, time.Since(began), soon)
		}
	}
	began := time.Now()
	require.NoError(t, n.Close())
	assert.Less(t, time.Since(began), soon)
	fails(t, node.ErrClosed, n, acquire("o2", "b"))

	server.Resume()
	releases(t, fresh, []wire.Op{release("o2", "b")})
	assert.Equal(t, []string{"a"}, held(server))
}

// Rueidis would read these timeouts as no timeout.
func TestRedisNegativeTimeoutsAreBounded(t *testing.T) {
	server := start(t)
	opt := rueidis.ClientOption{InitAddress: []string{server.Addr()}, ConnWriteTimeout: -1}
	opt.Dialer.Timeout = -1
	n, err := node.NewRedis(opt)
	require.NoError(t, err)
	t.Cleanup(func() { _ = n.Close() })
	eventually(t, wire.Granted, n, acquire("o1", "a"))
	server.Pause()
	fails(t, node.ErrTimeout, n, acquire("o2", "b"))
	fails(t, node.ErrTimeout, n, acquire("o2", "b"))
}

func TestRedisScriptsAreForgotten(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	for range 3 {
		command(t, server, "FLUSHALL")
		admit(t, server)
		command(t, server, "SCRIPT", "FLUSH")
		wantAll(t, n,
			[]wire.Op{acquire("o1", "a"), acquire("o2", "a"), renew("o1", "a"), inspect("a"), release("o1", "a"), acquire("o2", "a"), force("a"), renew("o2", "a")},
			wire.Granted, wire.Denied, wire.Granted, wire.Inspected, wire.Released, wire.Granted, wire.Released, wire.Denied)
		assert.Empty(t, locks(t, server))
	}
}

// The server knows only the script of the later operation. It runs at once and again after the
// earlier one.
func TestRedisScriptsArePartlyForgotten(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	only := func(op wire.Op) {
		command(t, server, "SCRIPT", "FLUSH")
		do(n, op)
		command(t, server, "FLUSHALL")
		admit(t, server)
	}

	only(release("o1", "a"))
	wantAll(t, n, []wire.Op{renew("o1", "a"), release("o1", "a")}, wire.Healed, wire.Released)
	assert.Empty(t, held(server), "the renewal ran behind the release")

	only(release("o1", "a"))
	wantAll(t, n, []wire.Op{release("o1", "a"), acquire("o1", "a"), release("o1", "a")}, wire.Absent, wire.Granted, wire.Released)
	assert.Empty(t, held(server))

	only(acquire("o1", "a"))
	wantAll(t, n, []wire.Op{acquire("o1", "a"), release("o1", "a"), acquire("o2", "a")}, wire.Granted, wire.Released, wire.Granted)
	assert.Equal(t, []string{"a"}, held(server))
}

// A repeated release reports success although it no longer finds the lock.
func TestRedisScriptsArePartlyForgottenAndReleasesRepeated(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())

	want(t, wire.Granted, n, acquire("o1", "a"))
	command(t, server, "SCRIPT", "FLUSH")
	want(t, wire.Absent, n, release("o9", "a"))
	wantAll(t, n, []wire.Op{inspect("b"), release("o1", "a")}, wire.Inspected, wire.Released)

	want(t, wire.Granted, n, acquire("o1", "a"))
	command(t, server, "SCRIPT", "FLUSH")
	want(t, wire.Absent, n, force("b"))
	replies := do(n, inspect("b"), force("a"))
	assert.Equal(t, wire.Released, replies[1].Outcome)
	require.Len(t, replies[1].Holders, 1)
	assert.Equal(t, "o1", replies[1].Holders[0].Owner)
	assert.Empty(t, locks(t, server))
}

// Redis keeps the order of commands within one connection only.
func TestRedisUsesOneConnection(t *testing.T) {
	server := start(t)
	opt := rueidis.ClientOption{
		InitAddress:           []string{server.Addr()},
		DisableAutoPipelining: true,
		ConnLifetime:          time.Millisecond,
		PipelineMultiplex:     3,
		BlockingPipeline:      1,
	}
	made := dials(&opt)
	n := openWith(t, opt)
	ops := batch(5000, acquire)
	for _, r := range do(n, ops...) {
		require.NoError(t, r.Err)
		require.Equal(t, wire.Granted, r.Outcome)
	}
	pass(t, server, 5*time.Millisecond)
	releases(t, n, batch(5000, release))
	want(t, wire.Granted, n, acquire("o1", "a"))
	assert.EqualValues(t, 1, made.Load())
	assert.Equal(t, []string{"a"}, held(server))
}

// The node's master has become a replica. The node looks for the master elsewhere.
func TestRedisReplicaIsLeft(t *testing.T) {
	servers := redisproc.StartN(t, 2)
	admit(t, servers[0])
	opt := rueidis.ClientOption{InitAddress: []string{servers[0].Addr()}}
	made := dials(&opt)
	n := openWith(t, opt)
	want(t, wire.Granted, n, acquire("o1", "a"))
	host, port, _ := strings.Cut(servers[1].Addr(), ":")
	command(t, servers[0], "REPLICAOF", host, port)
	err := failure(t, node.ErrRejected, n, acquire("o2", "b"))
	assert.False(t, err.Permanent())
	assert.Contains(t, err.Error(), "READONLY")
	for i := range int64(2) {
		assert.Equal(t, i+1, made.Load(), "a new connection for each attempt")
		err := failure(t, node.ErrRejected, n, acquire("o2", "b"))
		assert.False(t, err.Permanent(), "the server may become a master again")
		assert.Contains(t, err.Error(), "is a replica")
	}
	command(t, servers[0], "REPLICAOF", "NO", "ONE")
	admit(t, servers[0])
	want(t, wire.Granted, n, acquire("o2", "b"))
	want(t, wire.Granted, n, acquire("o2", "c"))
	assert.EqualValues(t, 4, made.Load())
}

// Redisson's RLock blocks ours. It holds a counter and here has no TTL.
func TestRedisLockOfAnotherLibrary(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	command(t, server, "HSET", "a", "uuid:1", "2")
	r := want(t, wire.Denied, n, acquire("o1", "a"))
	assert.Equal(t, wire.Holder{Name: "a", Owner: "uuid:1", TTL: wire.NoExpiry}, r.Holder)
	want(t, wire.Granted, n, acquire("o2", "b"))
	assert.Equal(t, "a", want(t, wire.Denied, n, acquire("o1", "b", "a")).Holder.Name, "the lock on a lives longest")
	assert.Equal(t, "a", want(t, wire.Denied, n, acquire("o1", "a", "b")).Holder.Name, "the lock on a lives longest")
	assert.Equal(t, r.Holder, want(t, wire.Denied, n, renew("o1", "a")).Holder)
	want(t, wire.Absent, n, release("o1", "a"))

	// A renewal by the owner gives it a TTL.
	want(t, wire.Granted, n, renew("uuid:1", "a"))
	left := want(t, wire.Inspected, n, inspect("a")).Holders[0].TTL
	assert.Positive(t, left)
	want(t, wire.Released, n, force("a"))
	assert.Empty(t, command(t, server, "HKEYS", "a"))
}

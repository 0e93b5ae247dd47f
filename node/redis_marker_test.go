package node_test

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// recovering requires that a server refuses an operation because it recovers. It returns the
// error.
func recovering(t *testing.T, n node.Node, op wire.Op) node.RecoveryError {
	t.Helper()
	var err *node.RecoveryError
	require.ErrorAs(t, failure(t, node.ErrRecovering, n, op), &err)
	return *err
}

// with returns the operation with this token.
func with(token uint64, op wire.Op) wire.Op {
	op.Token = token
	return op
}

// now returns this machine's time as a token.
func now() uint64 { return complete(wire.Op{})[0].Token }

// The node judges a server by its answers about itself.
func TestRedisFitness(t *testing.T) {
	text := bulk
	for answer, c := range map[string]struct {
		reason   error
		identity string
	}{
		text("# Replication\r\nrole:master\r\nmaster_replid:id\r\nmaster_replid2:0\r\nmaxmemory_policy:noeviction\r\n"): {identity: "id"},
		text("role:master\r\nmaster_replid:id"):                                                 {identity: "id"},
		text("role:slave\r\nmaster_replid:id\r\nmaxmemory_policy:noeviction"):                   {reason: node.ErrRejected},
		text("role:active-replica\r\nmaster_replid:id\r\nmaxmemory_policy:noeviction"):          {reason: node.ErrMisconfigured},
		text("master_replid:id\r\nmaxmemory_policy:noeviction"):                                 {reason: node.ErrMisconfigured},
		text("role:master\r\nmaster_replid:id\r\nmaxmemory_policy:allkeys-lru"):                 {reason: node.ErrMisconfigured},
		text("role:master\nmaster_replid:id\nmaxmemory_policy:any\n"):                           {reason: node.ErrMisconfigured},
		text("role:master\r\nmaster_replid:id\r\nmaxmemory_policy:any\r\nmaxmemory:0"):          {identity: "id"},
		text("role:master\r\nmaster_replid:id\r\nmaxmemory_policy:any\r\nmaxmemory:1"):          {reason: node.ErrMisconfigured},
		text("role:master\r\nmaster_replid:id\r\nmaxmemory_policy:noeviction\r\nmaxmemory:1"):   {identity: "id"},
		text("role:master\r\nmaxmemory_policy:noeviction"):                                      {reason: node.ErrMisconfigured},
		text("role:master\r\nmaster_replid:"):                                                   {reason: node.ErrMisconfigured},
		text("role:master\r\nmaster_replid2:id"):                                                {reason: node.ErrMisconfigured},
		text("role:master\r\nmaster_replid:id\r\nredis_mode:cluster"):                           {reason: node.ErrMisconfigured},
		text("role:master\r\nmaster_replid:id\r\nserver_mode:cluster"):                          {reason: node.ErrMisconfigured},
		text("role:master\r\nmaster_replid:id\r\nredict_mode:cluster"):                          {reason: node.ErrMisconfigured},
		text("role:master\r\nmaster_replid:id\r\nredis_mode:standalone\r\nredis_version:6.2.6"): {reason: node.ErrMisconfigured},
		text("role:master\r\nmaster_replid:id\r\nredis_mode:standalone\r\nredis_version:6.2.7"): {identity: "id"},
		text(""):                                    {reason: node.ErrMisconfigured},
		"-NOPERM no permissions\r\n":                {reason: node.ErrAuth},
		"-ERR unknown command 'INFO'\r\n":           {reason: node.ErrMisconfigured},
		"-BUSY Redis is busy running a script.\r\n": {reason: node.ErrRejected},
		"-LOADING Redis is loading\r\n":             {reason: node.ErrRejected},
	} {
		t.Run(answer, func(t *testing.T) {
			greeted := fake(always(":1\r\n"))
			f := redisproc.Serve(t, greeted)
			n := open(t, f.Addr())
			f.Serve(fakeInfo(answer))
			f.Sever()
			r := do(n, acquire("o1", "a"))[0]
			assert.Equal(t, c.identity, identity(n))
			if c.reason == nil {
				require.Equal(t, wire.Granted, r.Outcome)
				return
			}
			require.ErrorIs(t, r.Err, c.reason)
			assert.True(t, r.Unsent)
			f.Serve(greeted)
			f.Sever()
			eventually(t, wire.Granted, n, acquire("o1", "a"))
			assert.Equal(t, "fake", identity(n))
		})
	}
}

func TestRedisIdentity(t *testing.T) {
	server := redisproc.Start(t)
	n, twin := open(t, server.Addr()), open(t, "unix://"+server.Socket())
	assert.Empty(t, identity(n))
	require.NoError(t, n.Probe(context.Background()))
	assert.NotEmpty(t, identity(n))
	assert.Equal(t, server.ReplicationID(), identity(n))
	recovering(t, twin, acquire("o1", "a"))
	assert.Equal(t, identity(n), identity(twin), "two ways to one server")

	other := open(t, redisproc.Start(t).Addr())
	require.NoError(t, other.Probe(context.Background()))
	assert.NotEqual(t, identity(n), identity(other))

	before := identity(n)
	server.Kill()
	require.Error(t, n.Probe(context.Background()))
	assert.Equal(t, before, identity(n), "of the last exchange")
	server.Restart()
	require.NoError(t, n.Probe(context.Background()))
	assert.NotEqual(t, before, identity(n))
	assert.Equal(t, server.ReplicationID(), identity(n))
	require.NoError(t, n.Close())
	assert.Equal(t, server.ReplicationID(), identity(n))
}

// Another version of this library will read these keys, and other libraries the locks: one field, the owner, with its token.
// Redisson has a count there.
func TestRedisMarkerAndFenceLayout(t *testing.T) {
	server := redisproc.Start(t)
	n := open(t, server.Addr())
	m := want(t, wire.Inspected, n, marks).Marker
	fields := func(since int64, restarted, open string) []string {
		return []string{
			"identity", server.ReplicationID(), "since", strconv.FormatInt(since, 10),
			"restarted", restarted, "open", open, "version", "1",
		}
	}
	stands := func() []string { return strings.Split(command(t, server, "HGETALL", "quorumlock:node"), "\n") }
	assert.Equal(t, []string{"quorumlock:node"}, server.Keys())
	assert.ElementsMatch(t, fields(m.Since, "0", ""), stands())
	opened(t, n)
	assert.ElementsMatch(t, fields(0, "0", ""), stands())

	token := now()
	want(t, wire.Granted, n, with(token, acquire("o1", "a")))
	assert.ElementsMatch(t, fields(0, "0", "master_replid:"+server.ReplicationID()+" 7260000"), stands())
	want(t, wire.Healed, n, with(token, renew("o1", "b")))
	want(t, wire.Granted, n, with(token, acquire("o1", "{c}")))
	assert.ElementsMatch(t, []string{"a", "b", "{c}", "quorumlock:fences", "quorumlock:node"}, server.Keys())
	for _, name := range []string{"a", "b", "{c}"} {
		assert.Equal(t, strconv.FormatUint(token, 10), storedFence(t, server, name))
		assert.Equal(t, "o1\n"+strconv.FormatUint(token, 10), command(t, server, "HGETALL", name), "the owner with its token")
	}
	assert.Equal(t, "-1", command(t, server, "PTTL", "quorumlock:fences"))

	renewIdentity(t, server)
	m = want(t, wire.Inspected, n, marks).Marker
	assert.ElementsMatch(t, fields(m.Since, "1", ""), stands())
}

func TestRedisMarkerOfAnotherType(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	want(t, wire.Granted, n, acquire("o1", "a", "b"))
	command(t, server, "SET", "quorumlock:node", "what")
	keys := server.Keys()
	for _, op := range []wire.Op{acquire("o2", "c"), acquire("o1", "a"), renew("o1", "a"), renew("o1", "a", "c"), inspect("a"), marks, opens} {
		err := failure(t, node.ErrWrongType, n, op)
		assert.True(t, err.Permanent())
		assert.Equal(t, keys, server.Keys(), "%v", op.Kind)
	}
	want(t, wire.Released, n, release("o1", "a"))
	want(t, wire.Released, n, force("b"))
	assert.Equal(t, "what", command(t, server, "GET", "quorumlock:node"))

	command(t, server, "DEL", "quorumlock:node")
	recovering(t, n, acquire("o2", "c"))
	want(t, wire.Granted, opened(t, n), acquire("o2", "c"))
}

// An incomplete marker does not count. The node completes it.
func TestRedisMarkerInPart(t *testing.T) {
	server := redisproc.Start(t)
	n := open(t, server.Addr())
	for name, damage := range map[string][]string{
		"no identity":          {"HDEL", "quorumlock:node", "identity"},
		"no beginning":         {"HDEL", "quorumlock:node", "since"},
		"a beginning in words": {"HSET", "quorumlock:node", "since", "today"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, op := range []wire.Op{acquire("o1", "a"), renew("o1", "b"), marks} {
				admit(t, server)
				command(t, server, damage...)
				assert.Equal(t, limits.Recovery(), want(t, wire.Inspected, n, inspect("a")).Recovering)
				do(n, op)
				err := recovering(t, n, acquire("o1", "a"))
				assert.Greater(t, err.Left, limits.Recovery()-patience)
				assert.Equal(t, limits.Recovery(), err.Length)
				m := want(t, wire.Inspected, n, marks).Marker
				assert.Equal(t, identity(n), m.Identity)
			}
		})
	}
	t.Run("not its cause", func(t *testing.T) {
		admit(t, server)
		command(t, server, "HDEL", "quorumlock:node", "restarted")
		assert.Zero(t, want(t, wire.Inspected, n, inspect("a")).Recovering)
		want(t, wire.Granted, n, acquire("o1", "a"))
		assert.Equal(t, &wire.Marker{Identity: identity(n)}, want(t, wire.Inspected, n, marks).Marker)
	})
}

// The machine fails before the last writes reach its disk. The marker is there, but the lock is
// not.
func TestRedisRestartFromDiskWithoutTheLastWrites(t *testing.T) {
	server := start(t, redisproc.WithAOF())
	n := open(t, server.Addr())
	size := server.AOFSize()
	token := now()
	want(t, wire.Granted, n, with(token, acquire("o1", "a")))
	server.Kill()
	server.TruncateAOF(size)
	server.Restart()
	require.NoError(t, n.Probe(context.Background()))
	assert.Empty(t, held(server))
	assert.True(t, recovering(t, n, acquire("o2", "a")).HadMarker)
	assert.Positive(t, want(t, wire.Healed, n, with(token, renew("o1", "a"))).Recovering)
	opened(t, n)
	assert.Equal(t, token, want(t, wire.Denied, n, acquire("o2", "a")).Holder.Token)
}

// A first replica gives its master a new identity. The price is a recovery, and safety is not
// affected.
func TestRedisFirstReplica(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	want(t, wire.Granted, n, acquire("o1", "a"))
	redisproc.StartReplica(t, server)
	recovering(t, n, acquire("o2", "b"))
	opened(t, n)
	redisproc.StartReplica(t, server)
	want(t, wire.Granted, n, acquire("o2", "b"))
}

// The server knows only the acquisition's script, which comes later in the batch. The script runs
// twice, and its token is accepted the first time.
func TestRedisScriptsArePartlyForgottenAndTokensTaken(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	only := func(op wire.Op) {
		command(t, server, "SCRIPT", "FLUSH")
		do(n, op)
	}
	token := now()
	only(acquire("o1", "b"))
	replies := do(n, inspect("a"), with(token, acquire("o1", "a")))
	assert.Equal(t, wire.Reply{Outcome: wire.Granted}, replies[1])

	only(acquire("o1", "b"))
	replies = do(n, inspect("a"), with(token, acquire("o1", "a")))
	assert.Equal(t, wire.Reply{Outcome: wire.Granted, Token: token}, replies[1], "the name a was taken before")

	only(renew("o1", "b"))
	replies = do(n, inspect("a"), renew("o1", "c"))
	assert.Equal(t, wire.Reply{Outcome: wire.Healed}, replies[1], "the renewal put the name back")
}

// A repeated opening succeeds as well, although its marker is no longer the current one.
func TestRedisScriptsArePartlyForgottenAndANodeOpened(t *testing.T) {
	server := redisproc.Start(t)
	n := open(t, server.Addr())
	m := want(t, wire.Inspected, n, marks).Marker
	command(t, server, "SCRIPT", "FLUSH")
	want(t, wire.Denied, n, opens)
	r := do(n, inspect("a"), wire.Op{Kind: wire.Open, Marker: m})[1]
	assert.Equal(t, wire.Granted, r.Outcome)
	assert.Zero(t, want(t, wire.Inspected, n, marks).Marker.Since)
}

// fill lowers the limit of a server below the memory that it uses even without keys.
func fill(t *testing.T, server *redisproc.Server) {
	t.Helper()
	server.Config("maxmemory", "1")
}

// empty frees the memory again.
func empty(t *testing.T, server *redisproc.Server) {
	t.Helper()
	server.Config("maxmemory", "0")
}

func TestRedisOutOfMemory(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	token := now()
	want(t, wire.Granted, n, with(token, acquire("o1", "a", "b", "c")))
	fill(t, server)
	keys := server.Keys()

	for range 2 {
		for _, op := range []wire.Op{acquire("o2", "d"), acquire("o2", "d", "e"), acquire("o1", "a"), renew("o2", "d"), force("a")} {
			err := failure(t, node.ErrRejected, n, op)
			assert.False(t, err.Permanent())
			assert.Contains(t, err.Error(), "OOM")
			assert.Equal(t, keys, server.Keys(), "%v left something", op.Kind)
		}
	}
	h := want(t, wire.Denied, n, acquire("o2", "a")).Holder
	assert.Equal(t, token, h.Token)
	longer := with(token, renew("o1", "a"))
	longer.TTL = time.Hour
	assert.Equal(t, wire.Reply{Outcome: wire.Granted}, want(t, wire.Granted, n, longer))
	assert.Greater(t, want(t, wire.Inspected, n, inspect("a")).Holders[0].TTL, long)
	want(t, wire.Granted, n, with(token, renew("o1", "a", "b", "c")))
	want(t, wire.Released, n, release("o1", "a", "b"))
	assert.Equal(t, []string{"c"}, held(server))

	empty(t, server)
	want(t, wire.Granted, n, acquire("o2", "d"))
}

// A release needs no memory, also the release of a reader: the first of two leaves the lock, the last one removes it.
func TestRedisReaderReleasesWithoutMemory(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	for _, owner := range []string{"r1", "r2"} {
		want(t, wire.Granted, n, reads(acquire(owner, "a")))
	}
	fill(t, server)
	want(t, wire.Released, n, reads(release("r1", "a")))
	assert.Equal(t, []string{"a"}, held(server))
	want(t, wire.Released, n, reads(release("r2", "a")))
	assert.Empty(t, held(server))
	assert.NotContains(t, strings.Join(server.Keys(), " "), "readers")
}

// A renewal finds one name and misses another on a node that is out of memory. The first name
// stays alive. The second one has a TTL or is not there.
func TestRedisOutOfMemoryInMidRenewal(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	want(t, wire.Granted, n, acquire("o1", "a"))
	want(t, wire.Healed, n, renew("o1", "c"))
	server.Config("maxmemory", "1")
	longer := renew("o1", "a", "b")
	longer.TTL = time.Hour
	do(n, longer)
	for _, h := range want(t, wire.Inspected, n, inspect("a", "b", "c")).Holders {
		assert.NotEqual(t, wire.NoExpiry, h.TTL)
		if h.Name == "a" {
			assert.Greater(t, h.TTL, long)
		}
	}
}

// A server has lost its marker and has no memory for a new one. It cannot begin to recover.
// Holders keep their locks and all others are refused.
func TestRedisOutOfMemoryWithoutAMarker(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	token := now()
	want(t, wire.Granted, n, with(token, acquire("o1", "a")))
	fill(t, server)
	for _, lose := range []func(){
		func() { command(t, server, "DEL", "quorumlock:node") },
		func() { renewIdentity(t, server) },
	} {
		lose()
		longer := with(token, renew("o1", "a"))
		for range 2 {
			longer.TTL += time.Minute
			r := want(t, wire.Granted, n, longer)
			assert.Equal(t, limits.Recovery(), r.Recovering, "from whenever it has room")
			assert.False(t, r.HadMarker)
			left := want(t, wire.Inspected, n, inspect("a"))
			assert.Greater(t, left.Holders[0].TTL, longer.TTL-time.Minute)
			assert.Equal(t, limits.Recovery(), left.Recovering)
		}
		for _, op := range []wire.Op{acquire("o2", "b"), acquire("o1", "a"), marks, opens} {
			err := failure(t, node.ErrRejected, n, op)
			assert.Contains(t, err.Error(), "OOM")
		}
		want(t, wire.Denied, n, renew("o2", "a"))
		assert.Equal(t, []string{"a"}, held(server))

		empty(t, server)
		recovering(t, n, acquire("o2", "b"))
		fill(t, server)
	}
}

// Another program has taken the key of the fences. No token can be compared, so no lock is granted.
func TestRedisFencesOfAnotherType(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	want(t, wire.Granted, n, acquire("o1", "a"))
	command(t, server, "DEL", "quorumlock:fences")
	command(t, server, "HSET", "quorumlock:fences", "of another", "type")
	for _, op := range []wire.Op{
		acquire("o1", "b"), acquire("o1", "c", "b"), reads(acquire("o1", "b")), acquire("o2", "a"),
		renew("o1", "a"), renew("o1", "b"), renew("o1", "c", "b"), reads(renew("o1", "b")),
	} {
		fails(t, node.ErrWrongType, n, op)
	}
	for _, r := range do(n, acquire("o1", "b"), renew("o1", "a"), renew("o1", "b")) {
		require.ErrorIs(t, r.Err, node.ErrWrongType)
	}
	assert.Equal(t, []string{"a"}, held(server))
	old := with(now()-2*uint64(limits.Recovery().Microseconds()), renew("o1", "a"))
	want(t, wire.Granted, n, old)
	assert.Len(t, want(t, wire.Inspected, n, inspect("a")).Holders, 1)
	want(t, wire.Released, n, release("o1", "a"))
}

// fakeInfo is a fake server with a given answer to INFO.
func fakeInfo(info string) func(c net.Conn) {
	return func(c net.Conn) {
		converse(c, func(args []string) (string, bool) {
			switch strings.ToUpper(args[0]) {
			case "PING":
				return "+PONG\r\n", true
			case "INFO":
				return info, true
			}
			if reply, ok := hello(args); ok {
				return reply, true
			}
			return ":1\r\n", true
		})
	}
}

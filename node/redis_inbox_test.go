package node_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/inbox"
	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// resubscribed waits until an inbox has lost its subscription and has it again.
func resubscribed(t testing.TB, messages <-chan wire.Message) {
	t.Helper()
	lost(t, messages)
	again(t, messages)
}

func lost(t testing.TB, messages <-chan wire.Message) {
	t.Helper()
	require.Equal(t, wire.Message{Kind: wire.Lost}, next(t, messages))
}

func again(t testing.TB, messages <-chan wire.Message) {
	t.Helper()
	require.Equal(t, wire.Message{Kind: wire.Resubscribed}, next(t, messages))
}

// wakes requires that a waiter is woken and that its wake is the next message.
func wakes(t testing.TB, n node.Node, id string, messages <-chan wire.Message) {
	t.Helper()
	name := fmt.Sprint("wakes ", tokens.Add(1))
	eventually(t, wire.Granted, n, acquire("o1", name))
	want(t, wire.Denied, n, waits(id, 1, name))
	want(t, wire.Released, n, release("o1", name))
	m := next(t, messages)
	require.Equal(t, wire.Woken, m.Kind)
	require.Equal(t, id, m.Waiter)
	require.Equal(t, name, m.Name)
}

func subscribers(t testing.TB, server *redisproc.Server, client string) int64 {
	t.Helper()
	_, n, _ := strings.Cut(command(t, server, "PUBSUB", "NUMSUB", "quorumlock:inbox:"+client), "\n")
	return number(t, n)
}

func TestRedisInboxWhoseConnectionIsKilled(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	messages := listen(t, n, "c")
	for range 3 {
		wakes(t, n, "c:1", messages)
		assert.Equal(t, "1", command(t, server, "CLIENT", "KILL", "TYPE", "pubsub"))
		resubscribed(t, messages)
		assert.EqualValues(t, 1, subscribers(t, server, "c"))
	}
	wakes(t, n, "c:1", messages)
}

func TestRedisInboxOfAServerThatRestarts(t *testing.T) {
	server := start(t, redisproc.WithAOF())
	n := open(t, server.Addr())
	messages := listen(t, n, "c")
	server.Restart()
	resubscribed(t, messages)
	server.Kill()
	server.Restart()
	resubscribed(t, messages)
	admit(t, server)
	wakes(t, n, "c:1", messages)
}

// The inbox gives up a silent server within seconds. It returns once the server answers.
func TestRedisInboxOfAServerThatFallsSilent(t *testing.T) {
	t.Parallel()
	server := start(t)
	n := openWith(t, hasty(server.Addr()))
	messages := make(chan wire.Message, 100)
	var inbox wire.Inbox
	poll(t, func() (ok bool) {
		var err error
		inbox, err = n.Listen(context.Background(), "c", false, func(m wire.Message) { messages <- m })
		return err == nil
	}, func() any { return "no subscription" })
	t.Cleanup(func() { _ = inbox.Close() })
	server.Pause()
	_, err := n.Listen(context.Background(), "c", false, func(wire.Message) {})
	require.ErrorIs(t, err, node.ErrTimeout)
	lost(t, messages) // and only then it may say something again
	server.Resume()
	again(t, messages)
}

// The inbox retries an unreachable server with a backoff. It can be closed meanwhile.
func TestRedisInboxOfAServerThatIsGone(t *testing.T) {
	t.Parallel()
	server := start(t)
	opt := rueidis.ClientOption{InitAddress: []string{server.Addr()}}
	made := dials(&opt)
	n := openWith(t, opt)
	messages := make(chan wire.Message, 100)
	inbox, err := n.Listen(context.Background(), "c", false, func(m wire.Message) { messages <- m })
	require.NoError(t, err)
	assert.EqualValues(t, 2, made.Load(), "one for operations, one for messages")
	server.Kill()
	lost(t, messages)
	_, err = n.Listen(context.Background(), "d", false, func(wire.Message) {})
	require.ErrorIs(t, err, node.ErrUnreachable)
	poll(t, func() bool { return made.Load() >= 6 }, func() any { return "it is not tried again" })
	assert.Less(t, made.Load(), int64(10))
	require.NoError(t, inbox.Close())
	after := made.Load()
	server.Restart()
	require.NoError(t, n.Close())
	assert.Equal(t, after, made.Load())
	assert.Empty(t, messages)
}

// A server hangs up right after the subscription. The node backs off unless the connection has
// served messages.
func TestRedisInboxOfAServerThatHangsUp(t *testing.T) {
	t.Parallel()
	for _, said := range []string{
		"", "+hello\r\n", "*3\r\n" + bulk("message") + bulk("quorumlock:inbox:d") + bulk("x"), "*1\r\n" + bulk("message"),
		"*3\r\n" + bulk("subscribe") + bulk("quorumlock:inbox:c") + ":2\r\n",
	} {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			hangsUp(t, said)
		})
	}
}

func hangsUp(t *testing.T, said string) {
	t.Helper()
	var subscriptions atomic.Int64
	f := redisproc.Serve(t, fake(func(args []string) (string, bool) {
		if args[0] != "SUBSCRIBE" {
			return "+OK\r\n", true
		}
		subscriptions.Add(1)
		return "*3\r\n" + bulk("subscribe") + bulk(args[1]) + ":1\r\n" + said, false
	}))
	n := open(t, f.Addr())
	began := time.Now()
	messages := listen(t, n, "c")
	for range 5 {
		resubscribed(t, messages)
	}
	least := time.Duration(0)
	for attempt := range 5 {
		least += 25 * time.Millisecond << attempt
	}
	assert.GreaterOrEqual(t, time.Since(began), least)
	assert.LessOrEqual(t, subscriptions.Load(), int64(8))
}

func TestRedisInboxOfANodeThatIsClosed(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	messages := listen(t, n, "c")
	listen(t, n, "d")
	wakes(t, n, "c:1", messages)
	require.NoError(t, n.Close())
	poll(t, func() bool { return subscribers(t, server, "c")+subscribers(t, server, "d") == 0 }, func() any { return "still subscribed" })
	_, err := n.Listen(context.Background(), "c", false, func(wire.Message) {})
	require.ErrorIs(t, err, node.ErrClosed)
}

// Closing takes bounded time while a server hangs, during every operation.
func TestRedisInboxIsClosedWhileTheServerHangs(t *testing.T) {
	t.Parallel()
	for _, opening := range []bool{false, true} {
		server := start(t)
		opt := rueidis.ClientOption{InitAddress: []string{server.Addr()}, ConnWriteTimeout: time.Second}
		opt.Dialer.Timeout = time.Second
		n := openWith(t, opt)
		listen(t, n, "c")
		server.Pause()
		began := time.Now()
		if opening {
			ctx, cancel := context.WithTimeout(context.Background(), impatient)
			_, err := n.Listen(ctx, "d", false, func(wire.Message) {})
			require.ErrorIs(t, err, node.ErrCanceled)
			cancel()
		}
		require.NoError(t, n.Close())
		assert.Less(t, time.Since(began), soon)
	}
}

// Listen returns when its context ends, even if the connection hangs. Close waits for the work
// that Listen left behind.
func TestRedisInboxIsOpenedForAsLongAsTheContext(t *testing.T) {
	t.Parallel()
	server := start(t)
	for _, connected := range []bool{false, true} {
		opt := rueidis.ClientOption{InitAddress: []string{server.Addr()}}
		n := openWith(t, opt) // which waits for very long
		if connected {
			require.NoError(t, n.Probe(t.Context()))
		}
		server.Pause()
		began := time.Now()
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), impatient)
			_, err := n.Listen(ctx, "c", false, func(wire.Message) { assert.Fail(t, "a message to a closed inbox") })
			cancel()
			require.ErrorIs(t, err, node.ErrCanceled)
		}
		assert.Less(t, time.Since(began), soon)
		server.Resume()
		messages := listen(t, n, "c")
		wakes(t, n, "c:1", messages)
		poll(t, func() bool { return subscribers(t, server, "c") == 1 }, func() any { return "some are left" })
		require.NoError(t, n.Close())
	}
}

// Closing the node ends Listen as well.
func TestRedisInboxIsOpenedUntilTheNodeIsClosed(t *testing.T) {
	t.Parallel()
	server := start(t)
	for range 20 {
		n := open(t, server.Addr())
		failed := make(chan error)
		go func() {
			for {
				inbox, err := n.Listen(context.Background(), "c", false, func(wire.Message) {})
				if err != nil {
					failed <- err
					return
				}
				_ = inbox.Close()
			}
		}()
		require.NoError(t, n.Probe(t.Context()))
		require.NoError(t, n.Close())
		require.ErrorIs(t, <-failed, node.ErrClosed)
	}
}

func TestRedisInboxWithAPassword(t *testing.T) {
	const secret = "5ecr+t"
	server := redisproc.Start(t, redisproc.WithPassword(secret), redisproc.WithACL("user u on >"+secret+" ~* &* +@all"))
	n := opened(t, open(t, "redis://:"+secret+"@"+server.Addr()))
	wakes(t, n, "c:1", listen(t, n, "c"))
	named := open(t, "redis://u:"+secret+"@"+server.Addr())
	wakes(t, named, "d:1", listen(t, named, "d"))
	opt := rueidis.ClientOption{InitAddress: []string{server.Addr()}}
	opt.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		return rueidis.AuthCredentials{Username: "u", Password: secret}, nil
	}
	asked := openWith(t, opt)
	wakes(t, asked, "e:1", listen(t, asked, "e"))
	for _, address := range []string{server.Addr(), "redis://:wr0ng@" + server.Addr()} {
		_, err := inbox.Listen(context.Background(), open(t, address), "c", false, func(wire.Message) {})
		permanently(t, node.ErrAuth, err)
		assert.NotContains(t, err.Error(), "wr0ng")
	}

	// An unneeded password is no error here either.
	plain := start(t)
	p := open(t, "redis://:"+secret+"@"+plain.Addr())
	wakes(t, p, "c:1", listen(t, p, "c"))
}

// permanently requires an error of the node that a repetition returns again.
func permanently(t testing.TB, reason, err error) {
	t.Helper()
	require.ErrorIs(t, err, reason)
	var e *node.Error
	require.ErrorAs(t, err, &e)
	assert.True(t, e.Permanent())
	assert.Empty(t, e.Op)
}

// The error names the missing right as soon as the node finds it.
func TestRedisInboxWithoutTheRight(t *testing.T) {
	server := start(t)
	for _, rules := range []string{
		"+@all resetchannels", "+@all resetchannels &quorumlock:inbox:d", "+@all &* -subscribe",
	} {
		n := asUser(t, server, "~*", rules)
		_, err := n.Listen(context.Background(), "c", false, func(wire.Message) {})
		permanently(t, node.ErrAuth, err)
		assert.Contains(t, err.Error(), "+subscribe and &quorumlock:inbox:*")
		require.NoError(t, n.Probe(context.Background()))
	}
	n := asUser(t, server, "~* +@all resetchannels &quorumlock:inbox:*")
	wakes(t, n, "c:1", listen(t, n, "c"))
}

func TestRedisInboxOverTLS(t *testing.T) {
	server := redisproc.Start(t, redisproc.WithTLS(), redisproc.WithPassword("secret"))
	opt, err := node.ParseAddress("rediss://:secret@" + server.TLSAddr())
	require.NoError(t, err)
	opt.TLSConfig.RootCAs = server.CertPool()
	n := opened(t, openWith(t, opt))
	messages := listen(t, n, "c")
	wakes(t, n, "c:1", messages)
	assert.Equal(t, "1", command(t, server, "CLIENT", "KILL", "TYPE", "pubsub"))
	resubscribed(t, messages)
	wakes(t, n, "c:1", messages)
}

// The node notices a moved master between two calls. An old master may not know of the failover and publishes nothing.
// The inbox therefore follows the operations to the new master.
func TestRedisInboxFollowsTheOperations(t *testing.T) {
	t.Parallel()
	servers := redisproc.StartN(t, 2)
	admit(t, servers[0])
	admit(t, servers[1])
	var master atomic.Pointer[string]
	at := func(s *redisproc.Server) { addr := s.Addr(); master.Store(&addr) }
	at(servers[0])
	f := redisproc.Serve(t, fake(fakeSentinel(func() string { return *master.Load() })))
	n := openWith(t, rueidis.ClientOption{InitAddress: []string{f.Addr()}, Sentinel: rueidis.SentinelOption{MasterSet: "mymaster"}})
	messages := listen(t, n, "c")
	wakes(t, n, "c:1", messages)
	at(servers[1])
	f.Sever()
	poll(t, func() bool {
		r := do(n, acquire("o1", "b"))[0]
		return r.Err == nil && len(held(servers[1])) > 0
	}, func() any { return "operations do not follow" })
	assert.Equal(t, []string{"b"}, held(servers[1]))
	resubscribed(t, messages)
	assert.EqualValues(t, 0, subscribers(t, servers[0], "c"))
	assert.EqualValues(t, 1, subscribers(t, servers[1], "c"))
	wakes(t, n, "c:1", messages)
}

// An address may change to another server while the operations stay connected to the first. An
// inbox on the new server would miss all wakes.
func TestRedisInboxOfAnotherServer(t *testing.T) {
	t.Parallel()
	servers := redisproc.StartN(t, 2)
	admit(t, servers[0])
	admit(t, servers[1])
	f := redisproc.Serve(t, redisproc.Forward(servers[0].Addr()))
	lead := func(to *redisproc.Server) {
		f.Serve(redisproc.Forward(to.Addr()))
	}
	opt := rueidis.ClientOption{InitAddress: []string{f.Addr()}}
	made := dials(&opt)
	n := openWith(t, opt)
	want(t, wire.Granted, n, acquire("o1", "x"))
	lead(servers[1])
	_, err := n.Listen(t.Context(), "c", false, func(wire.Message) {})
	require.ErrorIs(t, err, node.ErrUnreachable)
	assert.Contains(t, err.Error(), "different servers")
	lead(servers[0])
	messages := listen(t, n, "c")
	wakes(t, n, "c:1", messages)

	lead(servers[1])
	before := made.Load()
	command(t, servers[0], "CLIENT", "KILL", "TYPE", "pubsub")
	lost(t, messages)
	poll(t, func() bool { return made.Load() >= before+3 }, func() any { return "it is not tried again" })
	// SUBSCRIBE travels with the greeting, so the other server has a subscriber until the node has read
	// which server that is.
	poll(t, func() bool { return subscribers(t, servers[1], "c") == 0 }, func() any { return "the other server keeps a subscriber" })
	lead(servers[0])
	again(t, messages)
	wakes(t, n, "c:1", messages)

	lead(servers[1])
	f.Sever()
	poll(t, func() bool { return n.Probe(t.Context()) == nil }, func() any { return "the operations do not follow" })
	resubscribed(t, messages)
	wakes(t, n, "c:1", messages)
	assert.EqualValues(t, 1, subscribers(t, servers[1], "c"))
}

// A server gets a new identity when its first replica attaches, even during a connection.
func TestRedisInboxWhenAReplicaAttaches(t *testing.T) {
	t.Parallel()
	server := start(t)
	n := open(t, server.Addr())
	want(t, wire.Granted, n, acquire("o1", "x"))
	before, process := n.Server()
	require.NotEmpty(t, process)
	replica := redisproc.StartReplica(t, server)
	replica.CatchUp()
	require.NotEqual(t, before, server.ReplicationID())
	messages := listen(t, n, "c")
	identity, same := n.Server()
	assert.Equal(t, server.ReplicationID(), identity)
	assert.Equal(t, process, same)
	admit(t, server)
	wakes(t, n, "c:1", messages)
	other := open(t, server.Addr())
	require.NoError(t, other.Probe(t.Context()))
	_, same = other.Server()
	assert.Equal(t, process, same, "to a new connection too")
}

// A replica has its master's identity. Its messages do not count.
func TestRedisInboxOfAReplica(t *testing.T) {
	t.Parallel()
	servers := redisproc.StartN(t, 2)
	servers[1].Follow(servers[0])
	admit(t, servers[0])
	servers[1].CatchUp()
	f := redisproc.Serve(t, redisproc.Forward(servers[0].Addr()))
	n := open(t, f.Addr())
	want(t, wire.Granted, n, acquire("o1", "x"))
	f.Serve(redisproc.Forward(servers[1].Addr()))
	_, err := n.Listen(t.Context(), "c", false, func(wire.Message) {})
	require.ErrorIs(t, err, node.ErrRejected)
	assert.Contains(t, err.Error(), "replica")
}

// The inbox ignores messages of other programs. It closes a connection that violates the protocol.
func TestRedisInboxIgnoresForeignMessages(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	messages := listen(t, n, "c")
	for _, noise := range []string{
		"", " ", "woken", "woken 1", "woken 1 3", "woken 1 9 c:1a", "woken -1 3 c:1a", "woken 1 -3 c:1a", "woken x 3 c:1a",
		"woken 1 0 c:1a", "Woken 1 3 c:1a", "woken 1 99999999999999999999 c:1a", "woken 99999999999999999999 3 c:1a",
		"resubscribed 0 3 c:1", "\x00\xff", strings.Repeat("x", 1<<20),
	} {
		assert.Equal(t, "1", command(t, server, "PUBLISH", "quorumlock:inbox:c", noise), noise)
	}
	wakes(t, n, "c:1", messages)
	assert.Empty(t, messages)

	for _, said := range []string{
		"+hello\r\n", ":1\r\n", "$3\r\nabc\r\n", "*-1\r\n", "*99\r\n", "*1\r\n*1\r\n:1\r\n", "*1\r\n$-5\r\n", "*1\r\n$99999999999\r\n",
		"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nxyz\r\n", "*2\r\n$4\r\npong\r\n$0\r\n\r\n", "-ERR no\r\n", ">3\r\n", "\r\n", "", strings.Repeat("x", 9999),
	} {
		f := redisproc.Serve(t, fake(func(args []string) (string, bool) {
			if args[0] != "SUBSCRIBE" {
				return "+OK\r\n", true
			}
			return "*3\r\n" + bulk("subscribe") + bulk(args[1]) + ":1\r\n" + said, false
		}))
		resubscribed(t, listen(t, open(t, f.Addr()), "c"))
	}
}

// A subscription without a confirmation does not count.
func TestRedisInboxIsNotConfirmed(t *testing.T) {
	for said, reason := range map[string]error{
		"+OK\r\n": node.ErrProtocol, "*3\r\n" + bulk("subscribe") + bulk("quorumlock:inbox:d") + ":1\r\n": node.ErrProtocol,
		"*0\r\n": node.ErrProtocol, "": node.ErrUnreachable, "-ERR max number of clients reached\r\n": node.ErrRejected,
		"-LOADING wait\r\n": node.ErrRejected, "what\r\n": node.ErrProtocol,
	} {
		f := redisproc.Serve(t, fake(func(args []string) (string, bool) {
			if args[0] != "SUBSCRIBE" {
				return "+OK\r\n", true
			}
			return said, false
		}))
		_, err := open(t, f.Addr()).Listen(context.Background(), "c", false, func(wire.Message) {})
		var e *node.Error
		require.ErrorAs(t, err, &e, said)
		require.ErrorIs(t, err, reason, said)
	}
}

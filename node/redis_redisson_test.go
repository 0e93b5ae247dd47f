package node_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
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

// follower opens an inbox of the client c that can follow locks.
func follower(t testing.TB, n node.Node) (wire.Follower, <-chan wire.Message) {
	t.Helper()
	messages := make(chan wire.Message, 10_000)
	inbox, err := inbox.Listen(context.Background(), n, "c", func(m wire.Message) { messages <- m })
	require.NoError(t, err)
	t.Cleanup(func() { _ = inbox.Close() })
	return inbox.(wire.Follower), messages
}

func followers(t testing.TB, server *redisproc.Server, channel string) int64 {
	t.Helper()
	_, n, _ := strings.Cut(command(t, server, "PUBSUB", "NUMSUB", channel), "\n")
	return number(t, n)
}

// announced requires that the next message announces a released lock.
func announced(t testing.TB, name string, messages <-chan wire.Message) {
	t.Helper()
	require.Equal(t, wire.Message{Kind: wire.Announced, Name: name}, next(t, messages))
}

// announcing turns an operation into a release that notifies Redisson's clients.
func announcing(op wire.Op) wire.Op {
	op.Announce = true
	return op
}

// The follower receives everything that Redisson's clients publish. It leaves no subscription
// behind.
func TestRedisFollowsRedisson(t *testing.T) {
	server := start(t)
	f, messages := follower(t, open(t, server.Addr()))
	for name, channel := range map[string]string{
		"a": "redisson_lock__channel:{a}", "x{b}": "redisson_lock__channel:x{b}",
	} {
		require.NoError(t, f.Follow(name))
		assert.EqualValues(t, 1, followers(t, server, channel))
		for _, said := range []string{"0", "1", "", "woken 1 3 c:1a"} {
			command(t, server, "PUBLISH", channel, said)
			announced(t, name, messages)
		}
		f.Unfollow(name)
		poll(t, func() bool { return followers(t, server, channel) == 0 }, func() any { return "still subscribed" })
	}
	assert.Empty(t, messages)
}

// Redisson's clients receive the message they expect on the channel they expect.
func TestRedisAnnouncesToRedisson(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	conn, err := net.Dial("tcp", server.Addr())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprint(conn, "PSUBSCRIBE redisson*\r\n")
	require.NoError(t, err)
	in := bufio.NewReader(conn)
	line := func() string {
		text, err := in.ReadString('\n')
		require.NoError(t, err)
		return strings.TrimSpace(text)
	}
	for range 6 {
		line()
	}
	for _, end := range []func(names ...string) wire.Op{
		func(names ...string) wire.Op { return release("o1", names...) }, force,
	} {
		for name, channel := range map[string]string{
			"a": "redisson_lock__channel:{a}", "x{b}": "redisson_lock__channel:x{b}",
		} {
			want(t, wire.Granted, n, acquire("o1", name, "quiet"))
			want(t, wire.Released, n, end("quiet"))
			want(t, wire.Released, n, announcing(end(name, "quiet")))
			said := make([]string, 9)
			for i := range said {
				said[i] = line()
			}
			assert.Equal(t, []string{"pmessage", "redisson*", channel, "0"}, []string{said[2], said[4], said[6], said[8]})
		}
	}
}

// The inbox follows its names again when the server is back.
func TestRedisFollowsAgain(t *testing.T) {
	server := start(t, redisproc.WithAOF())
	n := open(t, server.Addr())
	f, messages := follower(t, n)
	for _, name := range []string{"a", "{a}", "b", "d"} {
		require.NoError(t, f.Follow(name))
	}
	for range 2 {
		command(t, server, "CLIENT", "KILL", "TYPE", "pubsub")
		resubscribed(t, messages)
		f.Unfollow("d")
		command(t, server, "PUBLISH", "redisson_lock__channel:{b}", "0")
		announced(t, "b", messages)
		command(t, server, "PUBLISH", "redisson_lock__channel:{a}", "0")
		announced(t, "a", messages)
		announced(t, "{a}", messages)
		poll(t, func() bool { return followers(t, server, "redisson_lock__channel:{d}") == 0 }, func() any { return "still subscribed" })
	}
	server.Kill()
	lost(t, messages)
	err := f.Follow("e")
	require.ErrorIs(t, err, node.ErrUnreachable)
	require.NoError(t, f.Follow("a"), "the inbox follows this lock again from Resubscribed on")
	f.Unfollow("b")
	server.Restart()
	again(t, messages)
	assert.EqualValues(t, 1, followers(t, server, "redisson_lock__channel:{a}"))
	for _, gone := range []string{"b", "d", "e"} {
		poll(t, func() bool { return followers(t, server, "redisson_lock__channel:{"+gone+"}") == 0 }, func() any { return gone })
	}
	assert.Empty(t, messages)
}

// No other operation needs this right. The inbox continues without it.
func TestRedisFollowsWithoutTheRight(t *testing.T) {
	server := start(t)
	documented := "~* +@all resetchannels &quorumlock:inbox:*"
	user := func(rules string) node.Node {
		command(t, server, append([]string{"ACL", "SETUSER", "u", "reset", "on", ">secret"}, strings.Fields(rules)...)...)
		return open(t, "redis://u:secret@"+server.Addr())
	}
	n := user(documented)
	f, messages := follower(t, n)
	for range 3 {
		err := f.Follow("a")
		permanently(t, node.ErrAuth, err)
		assert.Contains(t, err.Error(), "&redisson_lock__channel:*")
		wakes(t, n, "c:1", messages)
	}
	want(t, wire.Granted, n, acquire("o1", "a"))
	want(t, wire.Released, n, announcing(release("o1", "a")))
	want(t, wire.Granted, n, acquire("o1", "a"))
	want(t, wire.Released, n, announcing(force("a")))

	n = user(documented + " &redisson_lock__channel:* -unsubscribe")
	f, messages = follower(t, n)
	require.NoError(t, f.Follow("a"))
	f.Unfollow("a")
	require.NoError(t, f.Follow("b"))
	command(t, server, "PUBLISH", "redisson_lock__channel:{a}", "0")
	command(t, server, "PUBLISH", "redisson_lock__channel:{b}", "0")
	announced(t, "b", messages)
}

// The documented rights for mixed fleets are enough.
func TestRedisDocumentedACLForRedisson(t *testing.T) {
	server := start(t)
	rules := strings.Fields("resetchannels " + minimalACL + " " + waitingACL + " " + redissonACL)
	command(t, server, append([]string{"ACL", "SETUSER", "u", "on", ">secret"}, rules...)...)
	n := open(t, "redis://u:secret@"+server.Addr())
	f, messages := follower(t, n)
	require.NoError(t, f.Follow("lock:a"))
	want(t, wire.Granted, n, acquire("o1", "lock:a"))
	want(t, wire.Released, n, announcing(release("o1", "lock:a")))
	announced(t, "lock:a", messages)
	want(t, wire.Granted, n, acquire("o1", "lock:a"))
	want(t, wire.Released, n, announcing(force("lock:a")))
	announced(t, "lock:a", messages)
	f.Unfollow("lock:a")
	poll(t, func() bool { return followers(t, server, "redisson_lock__channel:{lock:a}") == 0 }, func() any { return "still subscribed" })
	log := command(t, server, "ACL", "LOG")
	for _, command := range []string{"publish", "subscribe", "unsubscribe", "redisson"} {
		assert.NotContains(t, log, command)
	}
}

// A silent server does not block a follower for ever.
func TestRedisFollowsOnASilentServer(t *testing.T) {
	t.Parallel()
	server := start(t)
	n := openWith(t, rueidis.ClientOption{InitAddress: []string{server.Addr()}, ConnWriteTimeout: time.Second})
	f, messages := follower(t, n)
	require.NoError(t, f.Follow("a"))
	server.Pause()
	began := time.Now()
	require.NoError(t, f.Follow("a"), "the inbox follows this lock already")
	require.ErrorIs(t, f.Follow("b"), node.ErrUnreachable)
	assert.Less(t, time.Since(began), soon)
	server.Resume()
	resubscribed(t, messages)
	poll(t, func() bool { return followers(t, server, "redisson_lock__channel:{a}") == 1 }, func() any { return "the lock has no follower" })
	require.NoError(t, f.Follow("b"))
}

// An unexpected answer ends the connection. The follower does not wait for another answer.
func TestRedisFollowEndsOnUnexpectedAnswers(t *testing.T) {
	for _, said := range []string{
		"*2\r\n" + bulk("pong") + bulk(""), "*3\r\n" + bulk("unsubscribe") + bulk("redisson_lock__channel:{a}") + ":1\r\n", "-LOADING wait\r\n", "+OK\r\n*9\r\n",
	} {
		f := newFront(t, fake(func(args []string) (string, bool) {
			switch {
			case args[0] != "SUBSCRIBE":
				return "+OK\r\n", true
			case strings.HasPrefix(args[1], "redisson"):
				return said, true
			default:
				return "*3\r\n" + bulk("subscribe") + bulk(args[1]) + ":1\r\n", true
			}
		}))
		inbox, _ := follower(t, open(t, f.addr()))
		var e *node.Error
		require.ErrorAs(t, inbox.Follow("a"), &e, said)
	}
}

// A caller that waits for a confirmation gets an error when the inbox is closed.
func TestRedisFollowsUntilTheNodeIsClosed(t *testing.T) {
	server := start(t)
	for range 20 {
		n := open(t, server.Addr())
		f, _ := follower(t, n)
		failed := make(chan error)
		go func() {
			for i := 0; ; i++ {
				if err := f.Follow(fmt.Sprint(i)); err != nil {
					failed <- err
					return
				}
			}
		}()
		require.NoError(t, n.Close())
		require.ErrorIs(t, <-failed, node.ErrClosed)
	}
}

package node_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// follow opens an inbox of the client c that follows Redisson.
func follow(t testing.TB, n node.Node) <-chan wire.Message {
	t.Helper()
	messages := make(chan wire.Message, 10_000)
	inbox, err := n.Listen(context.Background(), "c", true, func(m wire.Message) { messages <- m })
	require.NoError(t, err)
	t.Cleanup(func() { _ = inbox.Close() })
	return messages
}

// announced requires that the next message announces a released lock.
func announced(t testing.TB, name string, messages <-chan wire.Message) {
	t.Helper()
	require.Equal(t, wire.Message{Kind: wire.Announced, Name: wire.RedissonChannel(name)}, next(t, messages))
}

// announcing turns an operation into a release that notifies Redisson's clients.
func announcing(op wire.Op) wire.Op {
	op.Announce = true
	return op
}

// The follower receives everything that Redisson's clients publish.
func TestRedisFollowsRedisson(t *testing.T) {
	server := start(t)
	messages := follow(t, open(t, server.Addr()))
	for name, channel := range map[string]string{
		"a": "redisson_lock__channel:{a}", "x{b}": "redisson_lock__channel:x{b}",
	} {
		for _, said := range []string{"0", "1", "", "woken 1 3 c:1a"} {
			command(t, server, "PUBLISH", channel, said)
			announced(t, name, messages)
		}
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

// The inbox follows Redisson again when the server is back.
func TestRedisFollowsAgain(t *testing.T) {
	server := start(t, redisproc.WithAOF())
	messages := follow(t, open(t, server.Addr()))
	follows := func() {
		command(t, server, "PUBLISH", "redisson_lock__channel:x{b}", "0")
		announced(t, "x{b}", messages)
	}
	for range 2 {
		command(t, server, "CLIENT", "KILL", "TYPE", "pubsub")
		resubscribed(t, messages)
		follows()
	}
	server.Kill()
	lost(t, messages)
	server.Restart()
	again(t, messages)
	follows()
	assert.Empty(t, messages)
}

// No other operation needs these rights. The error names them.
func TestRedisFollowsWithoutTheRight(t *testing.T) {
	server := start(t)
	for lacks, documented := range map[string]string{
		"+psubscribe and &redisson_lock__channel:*": "+@all resetchannels &quorumlock:inbox:*",
		"+subscribe and &quorumlock:inbox:*":        "+@all resetchannels &redisson_lock__channel:*",
	} {
		n := asUser(t, server, "~*", documented)
		_, err := n.Listen(t.Context(), "c", true, func(wire.Message) {})
		permanently(t, node.ErrAuth, err)
		assert.Contains(t, err.Error(), lacks)
		want(t, wire.Granted, n, acquire("o1", "a"))
		want(t, wire.Released, n, announcing(release("o1", "a")))
		want(t, wire.Granted, n, acquire("o1", "a"))
		want(t, wire.Released, n, announcing(force("a")))
	}
}

// A user can lose these rights, or a server that takes over can have other ones. The client still gets its own messages.
func TestRedisListensWhereItMayNoLongerFollow(t *testing.T) {
	server := start(t)
	may := func(channels string) {
		command(t, server, strings.Fields("ACL SETUSER u reset on >secret ~* +@all resetchannels &quorumlock:inbox:* "+channels)...)
	}
	may("&redisson_lock__channel:*")
	n := open(t, "redis://u:secret@"+server.Addr())
	messages := follow(t, n)
	may("") // it ends the connections that are subscribed to other channels
	resubscribed(t, messages)
	wakes(t, n, "c:1", messages)
	may("&redisson_lock__channel:*")
	command(t, server, "CLIENT", "KILL", "TYPE", "pubsub")
	resubscribed(t, messages)
	command(t, server, "PUBLISH", "redisson_lock__channel:{a}", "0")
	announced(t, "a", messages)
}

// The documented rights for mixed fleets are enough.
func TestRedisDocumentedACLForRedisson(t *testing.T) {
	server := start(t)
	n := asUser(t, server, "resetchannels", minimalACL, waitingACL, redissonACL)
	messages := follow(t, n)
	for _, end := range []wire.Op{release("o1", "lock:{a}b"), force("lock:{a}b")} {
		want(t, wire.Granted, n, acquire("o1", "lock:{a}b"))
		want(t, wire.Released, n, announcing(end))
		announced(t, "lock:{a}b", messages)
	}
	log := command(t, server, "ACL", "LOG")
	for _, command := range []string{"publish", "subscribe", "redisson"} {
		assert.NotContains(t, log, command)
	}
}

// A server may send a message before it has confirmed all channels. An unexpected answer ends the attempt.
func TestRedisFollowsOnceBothChannelsAreConfirmed(t *testing.T) {
	message := func(words ...string) string {
		text := fmt.Sprintf("*%d\r\n", len(words))
		for _, word := range words {
			text += bulk(word)
		}
		return text
	}
	confirmed := "*3\r\n" + bulk("psubscribe") + bulk("redisson_lock__channel:*") + ":1\r\n"
	early := message("message", "quorumlock:inbox:c", "woken 1 3 c:1a") + message("pmessage", "redisson_lock__channel:*", "redisson_lock__channel:{a}", "0")
	for said, ok := range map[string]bool{
		confirmed: true, early + confirmed: true,
		message("pong", ""): false, strings.Replace(confirmed, "ps", "s", 1): false, "-LOADING wait\r\n": false, "+OK\r\n*9\r\n": false,
		message("message", "quorumlock:inbox:d", "woken 1 3 d:1a") + confirmed: false,
	} {
		f := redisproc.Serve(t, fake(func(args []string) (string, bool) {
			switch args[0] {
			case "PSUBSCRIBE":
				return said, true
			case "SUBSCRIBE":
				return "*3\r\n" + bulk("subscribe") + bulk(args[1]) + ":1\r\n", true
			default:
				return "+OK\r\n", true
			}
		}))
		inbox, err := open(t, f.Addr()).Listen(t.Context(), "c", true, func(wire.Message) {})
		if ok {
			require.NoError(t, err, said)
			require.NoError(t, inbox.Close())
			continue
		}
		var e *node.Error
		require.ErrorAs(t, err, &e, said)
	}
}

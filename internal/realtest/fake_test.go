package realtest_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
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

// almostRedis answers like a Redis server until a client runs a script.
func almostRedis(script string) func(net.Conn) {
	return func(conn net.Conn) {
		info := fmt.Sprintf("role:master\r\nmaster_replid:%s\r\nmaxmemory_policy:noeviction\r\n", conn.LocalAddr())
		for in := bufio.NewReader(conn); ; {
			words, err := readCommand(in)
			if err != nil {
				return
			}
			reply := "+OK\r\n"
			switch strings.ToUpper(words[0]) {
			case "HELLO":
				reply = "%3\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n$5\r\nproto\r\n:3\r\n"
			case "PING":
				reply = "+PONG\r\n"
			case "INFO":
				reply = fmt.Sprintf("$%d\r\n%s\r\n", len(info), info)
			case "EVALSHA", "EVAL":
				reply = script
			}
			_, err = io.WriteString(conn, reply)
			if err != nil || reply == script && !strings.HasSuffix(script, "\r\n") {
				return // The reply is incomplete.
			}
		}
	}
}

// refuses answers a PING correctly and gives this reply to the handshake.
func refuses(reply string) func(net.Conn) {
	return func(conn net.Conn) {
		in := bufio.NewReader(conn)
		if _, err := readCommand(in); err != nil {
			return
		}
		_, _ = io.WriteString(conn, "+PONG\r\n")
		if _, err := readCommand(in); err == nil {
			_, _ = io.WriteString(conn, reply)
			_, _ = io.Copy(io.Discard, in)
		}
	}
}

// readCommand reads an array of strings.
func readCommand(in *bufio.Reader) (words []string, err error) {
	length := func() (int, error) {
		line, err := in.ReadString('\n')
		if err != nil || len(line) < 2 {
			return 0, io.ErrUnexpectedEOF
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := length()
	for ; n > 0 && err == nil; n-- {
		var size int
		if size, err = length(); err != nil {
			break
		}
		word := make([]byte, size+len("\r\n"))
		_, err = io.ReadFull(in, word)
		words = append(words, string(word[:size]))
	}
	if err == nil && len(words) == 0 {
		err = io.ErrUnexpectedEOF
	}
	return words, err
}

func TestRealServersThatAreNotRedis(t *testing.T) {
	t.Parallel()
	for what, fake := range map[string]struct {
		serve func(net.Conn)
		// reason is the required reason of a node's error, or nil if it is not certain.
		reason error
	}{
		"closes at once":       {func(net.Conn) {}, node.ErrUnreachable},
		"speaks HTTP":          {func(conn net.Conn) { _, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n") }, node.ErrProtocol},
		"says nothing":         {func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }, nil},
		"echoes":               {func(conn net.Conn) { _, _ = io.Copy(conn, conn) }, nil},
		"sends random bytes":   {func(conn net.Conn) { _, _ = io.WriteString(conn, "\x00\x01\x02\xff\xfe\r\n\r\n") }, node.ErrProtocol},
		"a negative token":     {almostRedis("*1\r\n:-1\r\n"), node.ErrProtocol},
		"another integer":      {almostRedis(":7\r\n"), node.ErrProtocol},
		"a string":             {almostRedis("+granted\r\n"), node.ErrProtocol},
		"null":                 {almostRedis("_\r\n"), node.ErrProtocol},
		"a short denial":       {almostRedis("*2\r\n$3\r\njob\r\n$1\r\nx\r\n"), node.ErrProtocol},
		"a denial of integers": {almostRedis("*3\r\n:1\r\n:2\r\n:3\r\n"), nil},
		"closes in a reply":    {almostRedis("*3\r\n$3\r\njo"), node.ErrUnreachable},
		"an error":             {almostRedis("-OOM command not allowed\r\n"), node.ErrRejected},
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

// Some answers crash the Redis client library. They must not crash the program. The test runs the client
// in another process, so a crash is only a failure of this test.
func TestRealServersThatBreakTheProtocol(t *testing.T) {
	t.Parallel()
	for what, serve := range map[string]func(net.Conn){
		"a huge length":              almostRedis("$99999999999999999999\r\n"),
		"a negative length":          almostRedis("*-7\r\n"),
		"one answer too many":        almostRedis(":1\r\n:1\r\n"),
		"a string of 100 GB":         almostRedis("$100000000000\r\n"),
		"a map of 10^9":              almostRedis("%1000000000\r\n"),
		"a line of 64 MiB":           almostRedis("+" + strings.Repeat("x", 64<<20) + "\r\n"),
		"a million nested arrays":    almostRedis(strings.Repeat("*1\r\n", 1_000_000)),
		"too many handshake replies": refuses("-ERR no\r\n" + strings.Repeat("+OK\r\n", 10)),
		"a handshake of 100 GB":      refuses("=100000000000\r\n"),
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := startCluster(t, 3)
			addrs := append(c.addresses(), fakeServer(t, serve), fakeServer(t, serve))
			user := c.spawn("use", childTTL+"=10s", childNodes+"="+strings.Join(addrs, ","))
			lines := user.lines()
			require.Contains(t, lines, "survived", "two bad nodes of five ended the program; its output was %q", lines)
			c.noKeys()
		})
	}
}

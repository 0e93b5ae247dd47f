package node_test

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// says sends its text after the first command and disconnects.
func says(text string) func(net.Conn) {
	return func(c net.Conn) {
		if _, err := c.Read(make([]byte, 4096)); err == nil {
			_, _ = io.WriteString(c, text)
		}
	}
}

// fakeHello answers a PING like a Redis server and every other command with the reply.
func fakeHello(reply string) func(net.Conn) {
	return func(c net.Conn) {
		converse(c, func(args []string) (string, bool) {
			if args[0] == "PING" {
				return "+PONG\r\n", true
			}
			return reply, strings.HasSuffix(reply, "\n")
		})
	}
}

// silent reads and never answers.
func silent(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// TestRedisServersOfOtherProtocols puts a server of another protocol on the port, and a Redis server afterwards.
func TestRedisServersOfOtherProtocols(t *testing.T) {
	server := start(t)
	for name, c := range map[string]struct {
		serve  func(net.Conn)
		reason error
	}{
		"hangs up":            {says(""), node.ErrUnreachable},
		"answers in HTTP":     {says("HTTP/1.1 400 Bad Request\r\n\r\n"), node.ErrProtocol},
		"answers in SSH":      {says("SSH-2.0-OpenSSH_9.6\r\n"), node.ErrProtocol},
		"answers in POP3":     {says("+OK ready\r\n-ERR what\r\n-ERR what\r\n"), node.ErrProtocol},
		"answers in noise":    {says("\x00\x01\x02\xff\n"), node.ErrProtocol},
		"answers for ever":    {says(strings.Repeat("+PONG", 1000)), node.ErrProtocol},
		"shakes hands, badly": {fakeHello("+OK\r\n"), node.ErrProtocol},
		"answers OK":          {says("+OK\r\n"), node.ErrProtocol},
		"answers 7":           {says(":7\r\n"), node.ErrProtocol},
		"has no line ends":    {says(":\n"), node.ErrProtocol},
		"has bad lengths":     {says("*x\r\n"), node.ErrProtocol},
		"is silent":           {silent, node.ErrTimeout},
		"stops in mid-answer": {says("+PO"), node.ErrUnreachable},
		"stops in the hello":  {fakeHello("%2\r\n+proto"), node.ErrUnreachable},
		"wants a password":    {fakeHello("-NOAUTH HELLO must be called with the client already authenticated\r\n"), node.ErrAuth},
		"is full":             {says("-ERR max number of clients reached\r\n"), node.ErrRejected},
		"is protected":        {says("-DENIED Redis is running in protected mode\r\n"), node.ErrMisconfigured},
	} {
		t.Run(name, func(t *testing.T) {
			f := redisproc.Serve(t, c.serve)
			opt := rueidis.ClientOption{InitAddress: []string{f.Addr()}}
			if errors.Is(c.reason, node.ErrTimeout) {
				opt = hasty(f.Addr())
			}
			n := openWith(t, opt)
			began := time.Now()
			for range 2 {
				r := do(n, acquire("o1", "a"))[0]
				require.ErrorIs(t, r.Err, c.reason)
				assert.True(t, r.Unsent)
				require.ErrorIs(t, n.Probe(context.Background()), c.reason)
			}
			assert.Less(t, time.Since(began), soon)

			f.Serve(redisproc.Forward(server.Addr()))
			f.Sever()
			eventually(t, wire.Granted, n, acquire("o1", "a"))
			eventually(t, wire.Released, n, release("o1", "a"))
		})
	}
}

// The errors of a healthy server vary with its version.
func TestRedisErrorReplies(t *testing.T) {
	for text, c := range map[string]struct {
		reason error
		leaves bool
	}{
		"WRONGTYPE Operation against a key holding the wrong kind of value":                                               {reason: node.ErrWrongType},
		"ERR Error running script (call to f_1): @user_script:15: WRONGTYPE Operation against a key":                      {reason: node.ErrWrongType},
		"NOPERM this user has no permissions to run the 'evalsha' command":                                                {reason: node.ErrAuth},
		"ERR The user executing the script can't run this command or subcommand script: 1, on @user_script:15.":           {reason: node.ErrAuth},
		"OOM command not allowed when used memory > 'maxmemory'.":                                                         {reason: node.ErrRejected},
		"LOADING Redis is loading the dataset in memory":                                                                  {reason: node.ErrRejected},
		"BUSY Redis is busy running a script.":                                                                            {reason: node.ErrRejected},
		"MISCONF Redis is configured to save RDB snapshots":                                                               {reason: node.ErrRejected},
		"NOREPLICAS Not enough good replicas to write.":                                                                   {reason: node.ErrRejected},
		"ERR Error running script (call to f_1): @user_script:31: script tried accessing undeclared key":                  {reason: node.ErrMisconfigured},
		"ERR unknown command 'EVALSHA'":                                                                                   {reason: node.ErrMisconfigured},
		"ERR unsupported command 'evalsha'":                                                                               {reason: node.ErrMisconfigured},
		"ERR command evalsha not support for normal user":                                                                 {reason: node.ErrMisconfigured},
		"ERR This instance has Lua scripting support disabled":                                                            {reason: node.ErrMisconfigured},
		"ERR bad lua script for redis cluster, all the keys that the script uses should be passed using the KEYS array":   {reason: node.ErrMisconfigured},
		"READONLY You can't write against a read only replica.":                                                           {reason: node.ErrRejected, leaves: true},
		"ERR Error running script (call to f_1): @user_script:31: -READONLY You can't write against a read only replica.": {reason: node.ErrRejected, leaves: true},
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":                                {reason: node.ErrRejected, leaves: true},
		"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)":                    {reason: node.ErrRejected},
		"NOSCRIPT No matching script. Please use EVAL.":                                                                   {reason: node.ErrRejected},
	} {
		t.Run(text, func(t *testing.T) {
			opt := rueidis.ClientOption{InitAddress: []string{redisproc.Serve(t, fake(always("-"+text+"\r\n"))).Addr()}}
			made := dials(&opt)
			n := openWith(t, opt)
			for range 2 {
				err := failure(t, c.reason, n, acquire("o1", "a"))
				if !errors.Is(err, node.ErrWrongType) { // whose reason says it all
					assert.Contains(t, err.Error(), strings.TrimPrefix(text, "ERR "))
				}
			}
			if c.leaves {
				assert.EqualValues(t, 2, made.Load())
			} else {
				assert.EqualValues(t, 1, made.Load())
			}
		})
	}
}

// The node abandons a connection to a server that hangs within a batch, and does not ask it again. It uses the server again
// once the server answers.
func TestRedisServerThatFallsSilent(t *testing.T) {
	server := start(t)
	var quiet atomic.Bool
	f := redisproc.Serve(t, fake(func([]string) (string, bool) {
		if quiet.Load() {
			return "", true
		}
		return ":0\r\n", true
	}))
	n := openWith(t, hasty(f.Addr()))
	eventually(t, wire.Absent, n, release("o1", "a"))
	quiet.Store(true)
	began := time.Now()
	r := do(n, acquire("o1", "a"))[0]
	require.ErrorIs(t, r.Err, node.ErrTimeout)
	assert.False(t, r.Unsent)
	assert.False(t, r.Repeated, "the server may be about to answer")
	require.NoError(t, n.Probe(context.Background()), "the server answers the greeting of a new connection")
	require.ErrorIs(t, n.Probe(context.Background()), node.ErrTimeout, "the server answers nothing after the greeting")
	assert.Less(t, time.Since(began), soon)
	f.Serve(redisproc.Forward(server.Addr()))
	f.Sever()
	eventually(t, wire.Granted, n, acquire("o1", "a"))
}

// The node does not use a server that cannot list its connections. The node could not stop the
// commands that a broken connection left there.
func TestRedisServerThatCannotGreet(t *testing.T) {
	for answer, usable := range map[string]bool{
		"-BUSY Redis is busy running a script.\r\n": false,
		"-LOADING Redis is loading\r\n":             false,
		"-NOPERM no permissions\r\n":                true,
		"-ERR unknown command 'CLIENT'\r\n":         true,
		"$9\r\nno fields\r\n":                       true,
	} {
		f := redisproc.Serve(t, func(c net.Conn) {
			converse(c, func(args []string) (string, bool) {
				switch args[0] {
				case "PING":
					return "+PONG\r\n", true
				case "CLIENT":
					return answer, true
				}
				if reply, ok := hello(args); ok {
					return reply, true
				}
				return ":1\r\n", true
			})
		})
		r := do(open(t, f.Addr()), acquire("o1", "a"))[0]
		if usable {
			assert.Equal(t, wire.Granted, r.Outcome, answer)
			continue
		}
		require.ErrorIs(t, r.Err, node.ErrRejected, answer)
		assert.True(t, r.Unsent)
	}
}

func TestRedisPushesAreNotAnswers(t *testing.T) {
	push := ">2\r\n$10\r\ninvalidate\r\n*0\r\n"
	n := open(t, redisproc.Serve(t, fake(always(push+":1\r\n"+push))).Addr())
	for range 3 {
		want(t, wire.Granted, n, acquire("o1", "a"))
	}
}

// A truncated answer to a batch counts for none of its operations.
func TestRedisConnectionThatBreaksInAnAnswerToMany(t *testing.T) {
	for _, part := range []string{"", "*4\r\n", "*4\r\n:1\r\n:1\r\n", "*4\r\n:1\r\n:1\r\n:1\r\n:"} {
		n := open(t, redisproc.Serve(t, fake(func([]string) (string, bool) { return part, false })).Addr())
		for _, r := range do(n, acquire("o1", "a"), acquire("o1", "b"), acquire("o1", "c"), acquire("o1", "d")) {
			require.ErrorIs(t, r.Err, node.ErrUnreachable, "%q", part)
			assert.False(t, r.Unsent)
		}
	}
	for _, whole := range []string{":1\r\n", "*0\r\n", "*3\r\n:1\r\n:1\r\n:1\r\n", "*5\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n", "+OK\r\n"} {
		n := open(t, redisproc.Serve(t, fake(always(whole))).Addr())
		for _, r := range do(n, acquire("o1", "a"), acquire("o1", "b"), release("o1", "c"), renew("o1", "d")) {
			require.ErrorIs(t, r.Err, node.ErrProtocol, "%q", whole)
		}
	}
}

// The answer to a batch is a text of digits, or a list that may contain such texts.
func TestRedisAnswersToMany(t *testing.T) {
	ops := []wire.Op{acquire("o1", "a"), release("o1", "b"), release("o1", "c"), renew("o1", "d"), renew("o1", "e")}
	granted := []wire.Outcome{wire.Granted, wire.Absent, wire.Released, wire.Granted, wire.Healed}
	for _, right := range []string{"$5\r\n10112\r\n", "+10112\r\n", array("1", "0", "1", "1", "2"), array(1, 0, 1, 1, 2)} {
		wantAll(t, open(t, redisproc.Serve(t, fake(always(right))).Addr()), ops, granted...)
	}
	for _, wrong := range []string{"", "1011", "101121", "xxxxx", "22233", "\xff\x00/:9"} {
		n := open(t, redisproc.Serve(t, fake(always(fmt.Sprintf("$%d\r\n%s\r\n", len(wrong), wrong)))).Addr())
		for _, r := range do(n, ops...) {
			require.ErrorIs(t, r.Err, node.ErrProtocol, "%q", wrong)
			require.Equal(t, wire.Reply{Err: r.Err}, r)
		}
	}
	// Each digit is an answer to its own operation.
	for i, mixed := range []string{"00112", "12112", "10212", "10102", "10110"} {
		n := open(t, redisproc.Serve(t, fake(always("$5\r\n"+mixed+"\r\n"))).Addr())
		for j, r := range do(n, ops...) {
			if j == i {
				require.ErrorIs(t, r.Err, node.ErrProtocol, "%q", mixed)
			} else {
				require.Equal(t, wire.Reply{Outcome: granted[j]}, r, "%q", mixed)
			}
		}
	}
	n := open(t, redisproc.Serve(t, fake(always(array("1", "", "10", "01", nil)))).Addr())
	for i, r := range do(n, ops...) {
		require.Equal(t, i == 0, r.Err == nil, "%d: %v", i, r.Err)
	}
}

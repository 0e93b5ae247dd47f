package node_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// says answers the first thing it is told, and hangs up.
func says(text string) func(net.Conn) {
	return func(c net.Conn) {
		if _, err := c.Read(make([]byte, 4096)); err == nil {
			_, _ = io.WriteString(c, text)
		}
	}
}

// fakeHello answers a PING as a Redis server, and all else as it is told.
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

// silent reads, and never answers.
func silent(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// TestRedisStrangers has something that is no Redis server on the port, and then one.
func TestRedisStrangers(t *testing.T) {
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
			f := newFront(t, c.serve)
			opt := rueidis.ClientOption{InitAddress: []string{f.addr()}}
			if errors.Is(c.reason, node.ErrTimeout) {
				opt = hasty(f.addr())
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

			f.replace(forward(server.Addr()))
			eventually(t, node.Granted, n, acquire("o1", "a"))
			eventually(t, node.Released, n, release("o1", "a"))
		})
	}
}

// wrong are answers that no script of this package gives to any operation.
var wrong = map[string]string{
	"OK":                "+OK\r\n",
	"a string":          "$3\r\nabc\r\n",
	"nil":               "_\r\n",
	"an old nil":        "$-1\r\n",
	"an old nil array":  "*-1\r\n",
	"true":              "#t\r\n",
	"a float":           ",1.5\r\n",
	"half a holder":     "*2\r\n$1\r\na\r\n$2\r\no1\r\n",
	"nested arrays":     "*3\r\n*0\r\n*1\r\n:1\r\n*0\r\n",
	"a holder of nils":  "*3\r\n_\r\n_\r\n_\r\n",
	"a TTL in words":    "*3\r\n$1\r\na\r\n$2\r\no1\r\n$4\r\nlong\r\n",
	"a name as number":  "*3\r\n:1\r\n:2\r\n:3\r\n",
	"an array of error": "*3\r\n-ERR a\r\n-ERR b\r\n-ERR c\r\n",
	"no length":         "*\r\n",
	"no Redis":          "?what\r\n",
	"too many answers":  "+OK\r\n+OK\r\n+OK\r\n",
	"nil twice":         "_\r\n_\r\n",
}

var kinds = []node.Op{acquire("o1", "a"), renew("o1", "a"), release("o1", "a"), inspect("a"), force("a")}

func TestRedisWrongAnswers(t *testing.T) {
	for name, answer := range wrong {
		t.Run(name, func(t *testing.T) {
			n := open(t, newFront(t, fake(always(answer))).addr())
			for _, op := range kinds {
				err := failure(t, node.ErrProtocol, n, op)
				assert.True(t, err.Permanent(), "%v: %v", op.Kind, err)
				assert.Equal(t, op.Kind, err.Op)
			}
		})
	}
	for name, c := range map[string]struct {
		op     node.Op
		answer string
	}{
		"acquire 0":              {acquire("o1", "a"), ":0\r\n"},
		"acquire 7":              {acquire("o1", "a"), ":7\r\n"},
		"acquire healed":         {acquire("o1", "a"), ":2\r\n"},
		"acquire nobody":         {acquire("o1", "a"), "*0\r\n"},
		"renew -1":               {renew("o1", "a"), ":-1\r\n"},
		"renew two holders":      {renew("o1", "a"), "*6\r\n+a\r\n+o2\r\n:1\r\n+b\r\n+o3\r\n:1\r\n"},
		"release a holder":       {release("o1", "a"), "*3\r\n+a\r\n+o2\r\n:1\r\n"},
		"release -1":             {release("o1", "a"), ":-1\r\n"},
		"release more than all":  {release("o1", "a"), ":2\r\n"},
		"inspect 1":              {inspect("a"), ":1\r\n"},
		"inspect too many":       {inspect("a"), "*6\r\n+a\r\n+o2\r\n:1\r\n+b\r\n+o3\r\n:1\r\n"},
		"inspect what was not":   {inspect("a"), "*3\r\n+b\r\n+o2\r\n:1\r\n"},
		"acquire what was not":   {acquire("o1", "a"), "*3\r\n+b\r\n+o2\r\n:1\r\n"},
		"force-release 0":        {force("a"), ":0\r\n"},
		"force-release too many": {force("a"), "*6\r\n+a\r\n+o2\r\n:1\r\n+b\r\n+o3\r\n:1\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			n := open(t, newFront(t, fake(always(c.answer))).addr())
			fails(t, node.ErrProtocol, n, c.op)
		})
	}
}

// Errors of a healthy server, in the words of its several versions.
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
		"ERR unknown command 'EVALSHA'":                                                                                   {reason: node.ErrMisconfigured},
		"READONLY You can't write against a read only replica.":                                                           {reason: node.ErrRejected, leaves: true},
		"ERR Error running script (call to f_1): @user_script:31: -READONLY You can't write against a read only replica.": {reason: node.ErrRejected, leaves: true},
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":                                {reason: node.ErrRejected, leaves: true},
		"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)":                    {reason: node.ErrRejected},
		"NOSCRIPT No matching script. Please use EVAL.":                                                                   {reason: node.ErrRejected},
	} {
		t.Run(text, func(t *testing.T) {
			opt := rueidis.ClientOption{InitAddress: []string{newFront(t, fake(always("-"+text+"\r\n"))).addr()}}
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

// The server answers some of a batch, and is gone: what it answered counts, the rest is
// unknown, and the next batch goes to a new connection.
func TestRedisConnectionThatBreaksInMidBatch(t *testing.T) {
	for name, last := range map[string]string{"between answers": "", "within an answer": "*3\r\n$1\r\na\r\n$2"} {
		t.Run(name, func(t *testing.T) {
			answered := 0
			n := open(t, newFront(t, fake(func([]string) (string, bool) {
				if answered++; answered <= 2 {
					return ":1\r\n", true
				}
				return last, false
			})).addr())
			replies := do(n, acquire("o1", "a"), acquire("o1", "b"), acquire("o1", "c"), acquire("o1", "d"))
			for _, r := range replies {
				require.ErrorIs(t, r.Err, node.ErrUnreachable)
				assert.False(t, r.Unsent)
			}
		})
	}
}

// A server that hangs in mid-batch is given up, and used again when it is well.
func TestRedisServerThatFallsSilent(t *testing.T) {
	server := start(t)
	f := newFront(t, fake(func([]string) (string, bool) { return "", true }))
	n := openWith(t, hasty(f.addr()))
	began := time.Now()
	r := do(n, acquire("o1", "a"))[0]
	require.ErrorIs(t, r.Err, node.ErrTimeout)
	assert.False(t, r.Unsent)
	require.ErrorIs(t, n.Probe(context.Background()), node.ErrTimeout)
	assert.Less(t, time.Since(began), soon)
	f.replace(forward(server.Addr()))
	eventually(t, node.Granted, n, acquire("o1", "a"))
}

// A server that cannot say now who is connected is not used: what a broken connection
// left there could not be stopped later.
func TestRedisServerThatCannotGreet(t *testing.T) {
	for answer, usable := range map[string]bool{
		"-BUSY Redis is busy running a script.\r\n": false,
		"-LOADING Redis is loading\r\n":             false,
		"-NOPERM no permissions\r\n":                true,
		"-ERR unknown command 'CLIENT'\r\n":         true,
		"$9\r\nno fields\r\n":                       true,
	} {
		f := newFront(t, func(c net.Conn) {
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
		r := do(open(t, f.addr()), acquire("o1", "a"))[0]
		if usable {
			assert.Equal(t, node.Granted, r.Outcome, answer)
			continue
		}
		require.ErrorIs(t, r.Err, node.ErrRejected, answer)
		assert.True(t, r.Unsent)
	}
}

// Answers that come in the smallest pieces are the same answers.
func TestRedisSlowAnswers(t *testing.T) {
	server := start(t)
	n := open(t, newFront(t, func(c net.Conn) {
		up, err := net.Dial("tcp", server.Addr())
		if err != nil {
			return
		}
		defer func() { _ = up.Close() }()
		go func() { _, _ = io.Copy(up, c); _ = up.Close() }()
		_, _ = io.CopyBuffer(struct{ io.Writer }{c}, struct{ io.Reader }{up}, make([]byte, 1))
	}).addr())
	wantAll(t, n, []node.Op{acquire("o1", "a", "b"), acquire("o2", "b"), inspect("a", "b"), release("o1", "a", "b")},
		node.Granted, node.Denied, node.Inspected, node.Released)
}

func TestRedisPushesAreNotAnswers(t *testing.T) {
	push := ">2\r\n$10\r\ninvalidate\r\n*0\r\n"
	n := open(t, newFront(t, fake(always(push+":1\r\n"+push))).addr())
	for range 3 {
		want(t, node.Granted, n, acquire("o1", "a"))
	}
}

// FuzzRedisAnswers has a fake server answer with anything: there is an outcome, or an
// error with a reason, and never a panic.
func FuzzRedisAnswers(f *testing.F) {
	for _, answer := range wrong {
		for kind := range kinds {
			f.Add(byte(kind), answer)
		}
	}
	for _, answer := range []string{":1\r\n", ":2\r\n", "*0\r\n", "*3\r\n+a\r\n+o2\r\n:-2\r\n", "*3\r\n+a\r\n+\r\n:0\r\n", "-ERR x\r\n", "-NOSCRIPT x\r\n"} {
		for kind := range kinds {
			f.Add(byte(kind), answer)
		}
	}
	var answer string
	server := newFront(f, fake(func([]string) (string, bool) { return answer, false }))
	opt := rueidis.ClientOption{InitAddress: []string{server.addr()}}
	f.Fuzz(func(t *testing.T, kind byte, text string) {
		if !measured(text) {
			return
		}
		answer = text
		n, err := node.NewRedis(opt)
		require.NoError(t, err)
		op := kinds[int(kind)%len(kinds)]
		r := do(n, op)[0]
		require.NoError(t, n.Close())
		sound(t, op, r)
	})
}

// sound demands a reply that a caller can rely on.
func sound(t *testing.T, op node.Op, r node.Reply) {
	t.Helper()
	require.Equal(t, r.Err == nil, r.Outcome != node.Unknown, "%+v", r)
	if r.Err != nil {
		var err *node.Error
		require.ErrorAs(t, r.Err, &err)
		require.Error(t, err.Reason)
		require.Equal(t, op.Kind, err.Op)
	}
	if r.Outcome == node.Denied {
		require.Contains(t, op.Names, r.Holder.Name)
	}
	for _, h := range append(r.Holders, r.Holder) {
		require.GreaterOrEqual(t, h.TTL, node.NoExpiry)
	}
}

// measured reports whether no length in an answer is out of all proportion: rueidis
// reserves what a server announces, and panics where that cannot be.
func measured(answer string) bool {
	for line := range strings.SplitSeq(answer, "\n") {
		for i := range line {
			var n int64
			if _, err := fmt.Sscanf(line[i:], "%d", &n); err == nil && (n < -1 || n > 1000) {
				return false
			}
		}
		if strings.ContainsAny(line, "-") && strings.ContainsAny(line, "$*%~>|=!;") && !strings.HasSuffix(line, "-1\r") {
			return false
		}
	}
	return true
}

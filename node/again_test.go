package node_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// A server that has lost a script gets all commands behind it once more. A waiter may have come meanwhile, so that a release
// that has run asks for more keys. Its first reply counts.
func TestRedisReleaseThatAsksForKeysWhenRepeated(t *testing.T) {
	var asked []string
	n := open(t, redisproc.Serve(t, fake(func(args []string) (string, bool) {
		inspects := args[3] == "b"
		asked = append(asked, args[0]+" "+args[3])
		switch {
		case inspects && args[0] == "EVALSHA":
			return "-NOSCRIPT No matching script.\r\n", true
		case inspects:
			return "*1\r\n:0\r\n", true
		case len(asked) == 2:
			return ":1\r\n", true
		case len(asked) == 4:
			return "*1\r\n$4\r\nKEYS\r\n", true
		default:
			return ":0\r\n", true
		}
	})).Addr())
	replies := do(n, inspect("b"), release("o1", "a"))
	for _, r := range replies {
		require.NoError(t, r.Err)
	}
	assert.Equal(t, wire.Released, replies[1].Outcome, strings.Join(asked, ", "))
}

// answered runs a function once the server has answered the first command.
type answered struct {
	rueidis.Client
	asked atomic.Bool
	then  func()
}

func (c *answered) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	r := c.Client.Do(ctx, cmd)
	if !c.asked.Swap(true) {
		c.then()
	}
	return r
}

// Another exchange may find the connection broken before an operation that asked for more keys is sent again. Then it is
// sent on the next connection, as the operations of the other exchange are.
func TestRedisConnectionLostBeforeAnOperationRunsAgain(t *testing.T) {
	server := start(t)
	n := opened(t, open(t, server.Addr()))
	want(t, wire.Granted, n, acquire("o1", "a"))
	want(t, wire.Absent, n, release("o2", "b"))
	want(t, wire.Denied, n, waits("c:1", 1, "a"))
	n.WrapClient(func(c rueidis.Client) rueidis.Client {
		return &answered{Client: c, then: func() { assert.NoError(t, n.Reconnect(t.Context())) }}
	})
	r := want(t, wire.Released, n, release("o1", "a"))
	assert.True(t, r.Repeated)
}

// While a slot of a cluster moves, its owner refuses a command if one of the keys is not there, as the queue of a name that
// is acquired, or the name itself. Renewals in the same command need no such key.
func TestRedisRenewalsBesideAKeyThatHasMoved(t *testing.T) {
	n := open(t, redisproc.Serve(t, fake(func(args []string) (string, bool) {
		for _, key := range args {
			if key == "b" || strings.HasPrefix(key, "quorumlock:tombstone:") {
				return "-TRYAGAIN Multiple keys request during rehashing of slot\r\n", true
			}
		}
		return ":1\r\n", true
	})).Addr())
	replies := do(n, renew("o1", "a"), acquire("o2", "b"), renew("o3", "c"))
	for _, i := range []int{0, 2} {
		require.NoError(t, replies[i].Err)
		assert.Equal(t, wire.Granted, replies[i].Outcome)
	}
	require.ErrorIs(t, replies[1].Err, node.ErrRejected)
}

// The server ends while an operation that lacked keys runs again. The answers of the others in its batch count.
func TestRedisAnswersBeforeALossCount(t *testing.T) {
	var connections atomic.Int32
	first := fake(func(args []string) (string, bool) {
		switch args[3] {
		case "used before":
			return "*1\r\n:0\r\n", true
		case "a":
			return "*3\r\n:1\r\n*1\r\n$4\r\nKEYS\r\n:1\r\n", true
		default:
			return "", false
		}
	})
	n := open(t, redisproc.Serve(t, func(c net.Conn) {
		if connections.Add(1) == 1 {
			first(c)
		}
	}).Addr())
	require.NoError(t, do(n, inspect("used before"))[0].Err)
	replies := do(n, renew("o1", "a"), release("o2", "b"), renew("o3", "c"))
	require.ErrorIs(t, replies[1].Err, node.ErrUnreachable)
	assert.False(t, replies[1].Unsent, "it may have run")
	for _, i := range []int{0, 2} {
		require.NoError(t, replies[i].Err)
		assert.Equal(t, wire.Granted, replies[i].Outcome)
	}
}

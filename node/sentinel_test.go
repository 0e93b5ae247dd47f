package node_test

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// Operations and the inbox follow the master.
func TestRedisBehindASentinel(t *testing.T) {
	t.Parallel()
	servers := redisproc.StartN(t, 2)
	servers[1].Follow(servers[0])
	admit(t, servers[0])
	sentinel := redisproc.StartSentinel(t, "mymaster", servers[0])

	n := open(t, "redis://"+sentinel.Addr()+"?master_set=mymaster")
	assert.Equal(t, "mymaster@"+sentinel.Addr(), n.Name())
	messages := listen(t, n, "c") // before any operation
	assert.EqualValues(t, 1, subscribers(t, servers[0], "c"))
	wakes(t, n, "c:1", messages)
	want(t, wire.Granted, n, acquire("o1", "a"))
	assert.Contains(t, servers[0].Keys(), "a")
	servers[1].CatchUp()

	// The Sentinel discovers the replica a little later.
	var err error
	poll(t, func() bool {
		_, err = sentinel.Command("SENTINEL", "FAILOVER", "mymaster")
		return err == nil
	}, func() any { return err })
	poll(t, func() bool {
		role, err := servers[1].Command("ROLE") // fails where the Sentinel hangs up on all
		return err == nil && strings.HasPrefix(role, "master")
	}, func() any { return "no failover" })

	// The new master may not know all grants of the old one.
	var r wire.Reply
	poll(t, func() bool {
		r = do(n, acquire("o2", "b"))[0]
		return errors.Is(r.Err, node.ErrRecovering)
	}, func() any { return r })
	var recovery *node.RecoveryError
	require.ErrorAs(t, r.Err, &recovery)
	assert.True(t, recovery.HadMarker)
	assert.Positive(t, want(t, wire.Granted, n, renew("o1", "a")).Recovering)
	want(t, wire.Granted, opened(t, n), acquire("o2", "b"))
	assert.Equal(t, []string{"a", "b"}, held(servers[1]))
	poll(t, func() bool {
		_ = n.Probe(t.Context())                                                  // operations, which go to the master
		text, err := servers[1].Command("PUBSUB", "NUMSUB", "quorumlock:inbox:c") // fails where the Sentinel hangs up on all
		return err == nil && strings.HasSuffix(text, "\n1")
	}, func() any { return "the inbox does not follow" })
	resubscribed(t, messages)
}

func TestRedisSentinelThatDoesNotKnowTheMaster(t *testing.T) {
	server := start(t)
	sentinel := redisproc.StartSentinel(t, "mymaster", server)
	n := open(t, "redis://"+sentinel.Addr()+"?master_set=another")
	require.Error(t, do(n, acquire("o1", "a"))[0].Err)
	assert.True(t, do(n, acquire("o1", "a"))[0].Unsent)
}

func sentinelOf(addr string) rueidis.ClientOption {
	opt := hasty(addr)
	opt.ConnWriteTimeout, opt.Dialer.Timeout = 4*impatient, 4*impatient // for more round trips than to a server
	opt.Sentinel.MasterSet = "mymaster"
	return opt
}

func TestRedisSentinelThatHangs(t *testing.T) {
	t.Parallel()
	server := start(t)
	sentinel := redisproc.StartSentinel(t, "mymaster", server)
	n := openWith(t, sentinelOf(sentinel.Addr()))
	eventually(t, wire.Granted, n, acquire("o1", "a"))

	// The client knows the master and does not ask the Sentinel.
	sentinel.Pause()
	eventually(t, wire.Granted, n, renew("o1", "a"))
	server.Kill()
	fails(t, node.ErrTimeout, n, renew("o1", "a")) // it asks the Sentinel for the way
	began := time.Now()
	r := do(n, renew("o1", "a"))[0]
	require.ErrorIs(t, r.Err, node.ErrTimeout)
	assert.True(t, r.Unsent)
	assert.Less(t, time.Since(began), soon)
	server.Restart()
	sentinel.Resume()
	eventually(t, wire.Healed, n, renew("o1", "a"))
}

// The Sentinel completes the handshake and then falls silent.
func TestRedisSentinelThatFallsSilent(t *testing.T) {
	t.Parallel()
	silent := redisproc.Serve(t, fake(func([]string) (string, bool) { return "", true }))
	n := openWith(t, sentinelOf(silent.Addr()))
	began := time.Now()
	r := do(n, acquire("o1", "a"))[0]
	require.Error(t, r.Err)
	assert.True(t, r.Unsent)
	assert.Less(t, time.Since(began), 2*soon)
	require.NoError(t, n.Close())
}

// fakeSentinel is a Sentinel that names the test's master.
func fakeSentinel(master func() string) func([]string) (string, bool) {
	return func(args []string) (string, bool) {
		switch command := strings.ToLower(args[0]); command {
		case "subscribe", "unsubscribe":
			var pushes strings.Builder
			for _, channel := range args[1:] {
				pushes.WriteString(">3\r\n" + bulk(command) + bulk(channel) + ":0\r\n")
			}
			return pushes.String(), true
		case "ping":
			return "+PONG\r\n", true
		}
		if !strings.EqualFold(args[1], "GET-MASTER-ADDR-BY-NAME") {
			return "*0\r\n", true
		}
		host, port, err := net.SplitHostPort(master())
		return "*2\r\n" + bulk(host) + bulk(port), err == nil
	}
}

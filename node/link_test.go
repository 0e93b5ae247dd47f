package node

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
)

func TestParseEndpoint(t *testing.T) {
	for info, want := range map[string]connID{
		"id=7 addr=127.0.0.1:5000 laddr=127.0.0.1:6379 fd=8 name= db=0":     {"7", "127.0.0.1:5000"},
		"txt:id=7 addr=127.0.0.1:5000 laddr=127.0.0.1:6379 fd=8 name= db=0": {"7", "127.0.0.1:5000"},
		"id=7 addr=/run/redis.sock:0 name=a=b\n":                            {"7", "/run/redis.sock:0"},
		"id=7":                                                              {"7", ""},
		"":                                                                  {},
		"OK":                                                                {},
	} {
		assert.Equal(t, want, parseEndpoint(info), info)
	}
}

func FuzzParseEndpoint(f *testing.F) {
	f.Add("txt:id=7 addr=127.0.0.1:5000 laddr=127.0.0.1:6379")
	f.Add("id=7 id=8 = ==")
	f.Fuzz(func(t *testing.T, info string) {
		e := parseEndpoint(info)
		require.Contains(t, info, e.id)
		require.Contains(t, info, e.addr)
		// The id and the address each become one argument of a command.
		require.Empty(t, strings.Fields(e.id + e.addr)[min(1, len(strings.Fields(e.id+e.addr))):])
	})
}

// The connection to the Sentinel is not the connection to the node.
func TestSentinelConnectionIsNotTheNodesConnection(t *testing.T) {
	server := redisproc.Start(t)
	sentinel := redisproc.StartSentinel(t, "mymaster", server)
	opt, err := ParseOptions("redis://" + sentinel.Addr() + "?master_set=mymaster")
	require.NoError(t, err)
	n, err := newRedis(opt)
	require.NoError(t, err)
	defer func() { _ = n.Close() }()
	server.Kill()
	require.Error(t, n.Probe(t.Context()))
	require.Nil(t, n.link.greetedRoute.Load())
	server.Restart()
	require.Eventually(t, func() bool { return n.Probe(t.Context()) == nil }, 30*time.Second, 10*time.Millisecond)
	require.Equal(t, server.Addr(), n.link.greetedRoute.Load().addr)
	server.Kill()
	require.Error(t, n.Probe(t.Context()))
	require.Equal(t, server.Addr(), n.link.greetedRoute.Load().addr)
}

func TestJudge(t *testing.T) {
	for _, line := range []string{"+PONG", "-NOAUTH Authentication required.", "-NOPERM no permissions"} {
		require.NoError(t, judgePing(line), line)
	}
	for line, want := range map[string]error{
		"":                                     ErrProtocol,
		"PONG":                                 ErrProtocol,
		"+OK":                                  ErrProtocol,
		"-":                                    ErrRejected,
		"-LOADING":                             ErrRejected,
		"-ERR max clients":                     ErrRejected,
		"-NOAUTHENTIC":                         ErrRejected,
		"HTTP/1.1 400 Bad":                     ErrProtocol,
		"+PONG\r+PONG":                         ErrProtocol,
		"-ERR without any password configured": ErrAuth,
	} {
		assert.Equal(t, want, reasonOf(judgePing(line)), line)
	}
}

package node_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// nothingTold are the commands that a serverless or a managed service may refuse.
const nothingTold = "INFO CLIENT CONFIG ACL CLUSTER COMMAND DEBUG MONITOR"

// accepting makes a node with AllowUnseenLosses.
func accepting(t *testing.T, address string) serverNode {
	t.Helper()
	opt, err := node.ParseOptions(address)
	require.NoError(t, err)
	opt.AllowUnseenLosses, opt.ConnectTimeout, opt.Timeout = true, patience, patience
	n, err := node.New(opt)
	require.NoError(t, err)
	t.Cleanup(func() { _ = n.Close() })
	return n.(serverNode)
}

// These replacements, of the same length, play servers that refuse INFO in scripts only, as Redis Enterprise does; proxies
// that refuse it outside of scripts; and servers that lack a library of Lua, as miniredis does.
var (
	noInfoInScripts = [2]string{"call('INFO'", "call('INFX'"}
	noPlainInfo     = [2]string{"$4\r\nINFO", "$4\r\nINFX"}
	noMessagePack   = [2]string{"cmsgpack", "cmsgpacX"}
)

// renaming is another address of a server. It replaces a text in what clients send.
func renaming(t testing.TB, server *redisproc.Server, texts [2]string) *redisproc.Front {
	t.Helper()
	replaces := func(to, from net.Conn) { _, _ = io.Copy(&renamer{to: to, texts: texts}, from) }
	return redisproc.Relay(t, server.Addr(), replaces, redisproc.Copy)
}

type renamer struct {
	to    io.Writer
	texts [2]string
	rest  []byte
}

func (r *renamer) Write(p []byte) (int, error) {
	text := bytes.ReplaceAll(append(r.rest, p...), []byte(r.texts[0]), []byte(r.texts[1]))
	keep := 0 // what may be the beginning waits for the rest
	for n := range len(r.texts[0]) {
		if bytes.HasSuffix(text, []byte(r.texts[0][:n])) {
			keep = n
		}
	}
	r.rest = bytes.Clone(text[len(text)-keep:])
	_, err := r.to.Write(text[:len(text)-keep])
	return len(p), err
}

// identityOf returns the identity in the marker of a server.
func identityOf(t *testing.T, server *redisproc.Server) string {
	t.Helper()
	return command(t, server, "HGET", wire.MarkerKey(""), "identity")
}

// The error comes at once, and names the option.
func TestServerWithoutInfoIsRefused(t *testing.T) {
	unfit(t, redisproc.Start(t, without(nothingTold)), "it refuses INFO (unknown command", "AllowUnseenLosses", "--allow-unseen-losses")
}

// With the option all operations work, also waits, latches, and what comes after a broken connection. A server that comes
// back without the marker recovers. One that comes back with data from before cannot tell that: this is what the option
// gives up.
func TestAllowUnseenLosses(t *testing.T) {
	for name, c := range map[string]struct {
		opts   []redisproc.Option
		hides  [2]string
		reason string
	}{
		"no INFO at all":     {[]redisproc.Option{without(nothingTold)}, [2]string{"nothing", "nothing"}, "it refuses INFO in scripts (Unknown"},
		"no INFO in scripts": {nil, noInfoInScripts, "it refuses INFO in scripts (Unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redisproc.Start(t, append(c.opts, redisproc.WithAOF())...)
			way := renaming(t, server, c.hides)
			n := accepting(t, way.Addr())
			assert.Empty(t, n.Unseen(), "the node has not connected")
			for i, r := range everything(n) {
				require.NoError(t, r.Err, "operation %d", i)
			}
			assert.Contains(t, n.Unseen(), c.reason)
			assert.True(t, strings.HasPrefix(identityOf(t, server), wire.UnseenIdentity))
			for i, r := range append(do(opened(t, n), everyWaitOps()...), everyLatch(n, uint64(serverTime(t, server).UnixMicro()))...) {
				require.NoError(t, r.Err, "wait or latch %d", i)
			}
			inbox := listen(t, n, "c")
			wakes(t, n, "c:1", inbox)

			want(t, wire.Granted, n, acquire("o1", "lock:kept"))
			way.Sever()
			want(t, wire.Granted, n, renew("o1", "lock:kept"))
			assert.NotEmpty(t, n.Unseen(), "after the reconnect")

			server.Restart() // with its data
			want(t, wire.Granted, n, acquire("o2", "lock:other"))
			want(t, wire.Denied, n, acquire("o3", "lock:kept"))
			command(t, server, "FLUSHALL")
			recovering(t, n, acquire("o4", "lock:kept"))
			want(t, wire.Healed, n, renew("o1", "lock:kept"))
		})
	}
}

// The option changes nothing on a server that can tell: programs with it and without it read one identity.
func TestAllowUnseenLossesOfServerThatTells(t *testing.T) {
	server := start(t, redisproc.WithAOF())
	with, without := accepting(t, server.Addr()), open(t, server.Addr())
	for _, n := range []serverNode{with, without, with} {
		want(t, wire.Granted, n, acquire("o1", "a"))
		assert.Equal(t, server.ReplicationID(), identityOf(t, server))
		assert.Empty(t, n.Unseen())
	}
	server.Restart()
	recovering(t, with, acquire("o2", "b"))
	recovering(t, without, acquire("o2", "b"))
	assert.Equal(t, server.ReplicationID(), identity(with))
}

// INFO that only a proxy refuses, and no script, hides nothing.
func TestAllowUnseenLossesBehindProxyWithoutInfo(t *testing.T) {
	server := start(t)
	way := renaming(t, server, noPlainInfo)
	n := accepting(t, way.Addr())
	want(t, wire.Granted, n, acquire("o1", "a"))
	assert.Empty(t, n.Unseen())
	assert.Equal(t, server.ReplicationID(), identity(n))
	wakes(t, n, "c:1", listen(t, n, "c"))
	server.Config("maxmemory-policy", "volatile-lru")
	server.Config("maxmemory", "100mb")
	err := failure(t, node.ErrMisconfigured, accepting(t, way.Addr()), acquire("o1", "b"))
	require.ErrorContains(t, err, "maxmemory-policy is volatile-lru")
}

// A server that lacks what batches need is refused at once: otherwise each batch would fail, and be tried again.
func TestServerWithoutMessagePackIsRefused(t *testing.T) {
	server := redisproc.Start(t, without(nothingTold))
	n := accepting(t, renaming(t, server, noMessagePack).Addr())
	r := do(n, acquire("o1", "a"))[0]
	require.ErrorIs(t, r.Err, node.ErrMisconfigured)
	require.ErrorContains(t, r.Err, "cmsgpac")
	assert.True(t, r.Unsent)
	assert.Empty(t, server.Keys())
}

// A program that sees no identity does not take part where another one sees it: it would grant what the other knows to be
// lost, and each would take the other's marker for one of an earlier life of the server.
func TestBlindProgramBesideOneThatSees(t *testing.T) {
	server := start(t)
	way := renaming(t, server, noInfoInScripts)
	seeing, blind := open(t, server.Addr()), accepting(t, way.Addr())
	want(t, wire.Granted, seeing, acquire("o1", "a"))
	for range 3 {
		err := failure(t, node.ErrMisconfigured, blind, acquire("o2", "b"))
		require.ErrorContains(t, err, "other programs see the identity")
		assert.True(t, err.Permanent())
		assert.Equal(t, server.ReplicationID(), identityOf(t, server))
		want(t, wire.Granted, seeing, renew("o1", "a"))
	}
	assert.Equal(t, []string{"a"}, held(server))
	want(t, wire.Granted, seeing, acquire("o3", "c"))

	// Once the way shows the identity, the same node sees it, without a restart of the program.
	way.Serve(redisproc.Forward(server.Addr()))
	want(t, wire.Granted, blind, acquire("o2", "b"))
	assert.Empty(t, blind.Unseen())
}

// The first program that sees the identity makes a node recover, once, on which others saw none.
func TestProgramThatSeesAfterBlindOnes(t *testing.T) {
	server := redisproc.Start(t)
	blind := opened(t, accepting(t, renaming(t, server, noInfoInScripts).Addr()))
	want(t, wire.Granted, blind, acquire("o1", "a"))
	seeing := open(t, server.Addr())
	recovering(t, seeing, acquire("o2", "b"))
	since := command(t, server, "HGET", wire.MarkerKey(""), "since")
	for range 3 {
		fails(t, node.ErrMisconfigured, blind, acquire("o3", "c"))
		want(t, wire.Granted, blind, renew("o1", "a")) // its lease goes on
		recovering(t, seeing, acquire("o2", "b"))
		want(t, wire.Granted, seeing, renew("o1", "a"))
	}
	assert.Equal(t, since, command(t, server, "HGET", wire.MarkerKey(""), "since"), "one recovery")
	require.NoError(t, seeing.Probe(context.Background()))
}

// Each product has its own words for a command that no script may run.
func TestAllowUnseenLossesOnNewestServers(t *testing.T) {
	onNewest(t, func(t *testing.T, program redisproc.Option) {
		n := opened(t, accepting(t, redisproc.Start(t, program, without(nothingTold)).Addr()))
		want(t, wire.Granted, n, acquire("o1", "a"))
		assert.Contains(t, n.Unseen(), "it refuses INFO in scripts")
	})
}

package faultinject_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// behindProxy is a node behind a proxy, on a real server that holds two locks.
type behindProxy struct {
	t     *testing.T
	proxy *faultinject.Proxy
	node  node.Node
}

func newBehindProxy(t *testing.T) behindProxy {
	t.Helper()
	server := redisproc.Start(t)
	for name, owner := range map[string]string{"a": "owner-of-a", "b": "owner-of-b"} {
		_, err := server.Command("HSET", name, owner, "1")
		require.NoError(t, err)
		_, err = server.Command("PEXPIRE", name, "5000000")
		require.NoError(t, err)
	}
	p := startProxy(t, server.Addr())
	opt, err := node.ParseOptions(p.Addr())
	require.NoError(t, err)
	// A node repeats a question only within its timeout, and a busy machine may stop the test for a second.
	opt.Timeout, opt.ConnectTimeout = 20*time.Second, 20*time.Second
	n, err := node.New(opt)
	require.NoError(t, err)
	t.Cleanup(func() { _ = n.Close() })
	return behindProxy{t, p, n}
}

func (b behindProxy) inspect(ctx context.Context, name string) wire.Reply {
	replies := make([]wire.Reply, 1)
	b.node.Do(ctx, []wire.Op{{Kind: wire.Inspect, Names: []string{name}}}, replies)
	return replies[0]
}

// knows asks for a lock, over a new connection if the old one is broken. The client notices that at once or by the
// first question.
func (b behindProxy) knows(name string) {
	b.t.Helper()
	var r wire.Reply
	for range 2 {
		if r = b.inspect(b.t.Context(), name); r.Outcome != wire.Unknown {
			break
		}
	}
	require.Equalf(b.t, wire.Inspected, r.Outcome, "%v", r.Err)
	require.Len(b.t, r.Holders, 1)
	require.Equal(b.t, name, r.Holders[0].Name)
	require.Equal(b.t, "owner-of-"+name, r.Holders[0].Owner)
}

// replySize is the size of the reply that names the holder of a lock.
func (b behindProxy) replySize() int64 {
	b.t.Helper()
	b.knows("a")
	before := b.proxy.Stats().ToClient.Received
	b.knows("a")
	return int64(b.proxy.Stats().ToClient.Received - before)
}

func TestReplyCutInMidFrameIsNoAnswer(t *testing.T) {
	b := newBehindProxy(t)
	size := b.replySize()
	require.Greater(t, size, int64(20))
	for name, then := range map[string]faultinject.CutAction{
		"close": faultinject.ThenClose,
		"reset": faultinject.ThenReset,
	} {
		for n := range size {
			t.Run(fmt.Sprintf("%s after %d of %d", name, n, size), func(t *testing.T) {
				b.t = t
				b.proxy.CutAfter(faultinject.ToClient, n, then)
				r := b.inspect(t.Context(), "a")
				// The node asks once more, on a new connection. The answer is to that question.
				require.Equalf(t, wire.Inspected, r.Outcome, "%v", r.Err)
				require.True(t, r.Repeated)
				require.Len(t, r.Holders, 1)
				require.Equal(t, "owner-of-a", r.Holders[0].Owner)
				b.knows("b")
			})
		}
	}
}

// TestLateReplyInTwoPartsAnswersNoOtherCommand: half a reply that is late, and its even later rest, do not answer the next
// question.
func TestLateReplyInTwoPartsAnswersNoOtherCommand(t *testing.T) {
	b := newBehindProxy(t)
	size := b.replySize()
	for _, n := range []int64{0, 1, size / 2, size - 1} {
		b.proxy.CutAfter(faultinject.ToClient, n, faultinject.ThenHold)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		r := b.inspect(ctx, "a")
		cancel()
		require.Equalf(t, wire.Unknown, r.Outcome, "after %d of %d bytes", n, size)
		require.ErrorIs(t, r.Err, node.ErrTimeout)
		b.proxy.Heal()
		b.knows("b")
	}
}

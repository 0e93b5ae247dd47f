package node_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// answerCut is the way of answers from a server. It cuts one of them after some bytes.
type answerCut struct {
	mu    sync.Mutex
	armed bool
	left  int
	then  func(client net.Conn) (goesOn bool)
	size  int // of the last answer
}

func (c *answerCut) cutAfter(n int, then func(client net.Conn) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed, c.left, c.then = true, n, then
}

// answers is the direction of a relay.
func (c *answerCut) answers(client, server net.Conn) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := server.Read(buffer)
		if err != nil {
			return
		}
		rest := buffer[:n]
		c.mu.Lock()
		c.size = n
		armed, left, then := c.armed, c.left, c.then
		c.left -= min(n, left)
		if armed = armed && n > left; armed {
			c.armed = false
		}
		c.mu.Unlock()
		if armed {
			_, _ = client.Write(rest[:left])
			if rest = rest[left:]; !then(client) {
				return
			}
		}
		_, _ = client.Write(rest)
	}
}

// behindCut is a node behind such a way, on a real server that holds two locks.
type behindCut struct {
	*answerCut
	t    *testing.T
	node node.Node
}

func newBehindCut(t *testing.T) behindCut {
	t.Helper()
	server := redisproc.Start(t)
	for name, owner := range map[string]string{"a": "owner-of-a", "b": "owner-of-b"} {
		_, err := server.Command("HSET", name, owner, "1")
		require.NoError(t, err)
		_, err = server.Command("PEXPIRE", name, "5000000")
		require.NoError(t, err)
	}
	c := &answerCut{}
	opt, err := node.ParseOptions(redisproc.Relay(t, server.Addr(), redisproc.Copy, c.answers).Addr())
	require.NoError(t, err)
	// A node repeats a question only within its timeout, and a busy machine may stop the test for a second.
	opt.Timeout, opt.ConnectTimeout = 20*time.Second, 20*time.Second
	n, err := node.New(opt)
	require.NoError(t, err)
	t.Cleanup(func() { _ = n.Close() })
	return behindCut{c, t, n}
}

func (b behindCut) inspect(ctx context.Context, name string) wire.Reply {
	replies := make([]wire.Reply, 1)
	b.node.Do(ctx, []wire.Op{{Kind: wire.Inspect, Names: []string{name}}}, replies)
	return replies[0]
}

// knows asks for a lock, over a new connection if the old one is broken. The client notices that at once or by the
// first question.
func (b behindCut) knows(name string) {
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
func (b behindCut) replySize() int {
	b.t.Helper()
	b.knows("a")
	b.knows("a")
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.size
}

func TestReplyCutInMidFrameIsNoAnswer(t *testing.T) {
	b := newBehindCut(t)
	size := b.replySize()
	require.Greater(t, size, 20)
	for name, then := range map[string]func(net.Conn) bool{
		"close": func(net.Conn) bool { return false },
		"reset": func(client net.Conn) bool { return client.(*net.TCPConn).SetLinger(0) != nil },
	} {
		for n := range size {
			t.Run(fmt.Sprintf("%s after %d of %d", name, n, size), func(t *testing.T) {
				b.t = t
				b.cutAfter(n, then)
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
	b := newBehindCut(t)
	size := b.replySize()
	for _, n := range []int{0, 1, size / 2, size - 1} {
		late := make(chan struct{})
		b.cutAfter(n, func(net.Conn) bool { <-late; return true })
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		began := time.Now()
		r := b.inspect(ctx, "a")
		cancel()
		require.Less(t, time.Since(began), soon, "the context ends the call")
		require.Equalf(t, wire.Unknown, r.Outcome, "after %d of %d bytes", n, size)
		require.ErrorIs(t, r.Err, node.ErrTimeout)
		close(late)
		b.knows("b")
	}
}

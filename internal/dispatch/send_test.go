package dispatch

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// inFanOut runs a test on the senders of several scripted nodes, in virtual time.
func inFanOut(t *testing.T, nodes int, test func(t *testing.T, n *Nodes, scripts []*scripted)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var list []node.Node
		var scripts []*scripted
		for range nodes {
			s := &scripted{}
			list, scripts = append(list, s), append(scripts, s)
		}
		n := newNodes(&events{}, list...)
		test(t, n, scripts)
		for _, s := range scripts {
			s.set(nil, nil)
		}
		n.Close()
	})
}

// callsTo returns calls of the owner x to all nodes.
func callsTo(n *Nodes, to Receiver) *Calls {
	calls := NewCalls(n.Len(), wire.Op{Kind: wire.Acquire, Owner: "x"})
	for i := range n.Len() {
		calls.To(i).To = to
	}
	return calls
}

// bringDown makes the sender of a node notice that the node fails.
func bringDown(t *testing.T, n *Nodes, i int, s *scripted) {
	t.Helper()
	s.set(nil, node.ErrUnreachable)
	require.NoError(t, n.Submit(i, ask(&answers{}, "probe")))
	synctest.Wait()
}

func nodeSet(nodes ...int) (s decision.Set) {
	for _, i := range nodes {
		s = s.With(i)
	}
	return s
}

func TestSendAsksTheNodesOfTheSetOnly(t *testing.T) {
	inFanOut(t, 5, func(t *testing.T, n *Nodes, scripts []*scripted) {
		a := &answers{}
		asked := n.Send(callsTo(n, a), nodeSet(0, 2, 4), func(i int, err error) bool {
			t.Errorf("node %d refused: %v", i, err)
			return true
		})
		synctest.Wait()
		require.Equal(t, nodeSet(0, 2, 4), asked)
		for i, s := range scripts {
			require.Len(t, s.owners(), int((asked>>i)&1), "node %d", i)
		}
		require.Len(t, a.told["x"], 3)
		require.Equal(t, nodeSet(0, 1, 2, 3, 4), n.All())
	})
}

// underLock is a receiver with a lock of its own, as grants and rounds are.
type underLock struct {
	mu                sync.Mutex
	answered, refused decision.Set
}

func (u *underLock) Answer(c *Call, _ *wire.Reply) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.answered = u.answered.With(c.Node())
}

func TestSendTellsRefusalsBeforeItReturns(t *testing.T) {
	inFanOut(t, 5, func(t *testing.T, n *Nodes, scripts []*scripted) {
		bringDown(t, n, 1, scripts[1])
		bringDown(t, n, 4, scripts[4])
		u := &underLock{}
		u.mu.Lock()
		asked := n.Send(callsTo(n, u), n.All(), func(i int, err error) bool {
			require.ErrorIs(t, err, node.ErrDown)
			u.refused = u.refused.With(i) // under u.mu
			return true
		})
		require.Equal(t, nodeSet(1, 4), u.refused)
		require.Zero(t, u.answered, "no node can answer while the caller holds its lock")
		u.mu.Unlock()
		synctest.Wait()
		require.Equal(t, nodeSet(0, 2, 3), asked)
		require.Equal(t, asked, u.answered)
	})
}

func TestSendStopsWhenToldTo(t *testing.T) {
	inFanOut(t, 5, func(t *testing.T, n *Nodes, scripts []*scripted) {
		for _, i := range []int{1, 2} {
			bringDown(t, n, i, scripts[i])
		}
		var refused []int
		asked := n.Send(callsTo(n, &answers{}), n.All(), func(i int, _ error) bool {
			refused = append(refused, i)
			return i != 2
		})
		synctest.Wait()
		require.Equal(t, []int{1, 2}, refused)
		require.Equal(t, nodeSet(0), asked)
		require.Empty(t, scripts[3].owners())
		require.Empty(t, scripts[4].owners())
	})
}

func TestSendAllocatesNothing(t *testing.T) {
	inFanOut(t, 3, func(t *testing.T, n *Nodes, scripts []*scripted) {
		const runs = 100
		gate := make(chan struct{})
		for i, s := range scripts {
			s.set(gate, nil)
			require.NoError(t, n.Submit(i, ask(&answers{}, "first")))
		}
		synctest.Wait()
		for _, s := range n.senders {
			s.queue.calls = make([]*Call, 0, 2*runs)
		}
		u := &underLock{}
		calls := callsTo(n, u)
		require.Zero(t, testing.AllocsPerRun(runs, func() {
			u.mu.Lock()
			n.Send(calls, n.All(), func(i int, _ error) bool {
				u.refused = u.refused.With(i)
				return true
			})
			u.mu.Unlock()
		}))
		for _, s := range n.senders {
			require.NotEmpty(t, s.queue.calls)
			s.queue.calls = s.queue.calls[:0] // one call must not be sent twice
		}
		close(gate)
	})
}

//go:build unix

package election_test

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRealFrozenLeader freezes the leader until another candidate leads. Then the test sends a question and wakes the former
// leader. Its answer, the first thing that it does, must show that its context has ended.
func TestRealFrozenLeader(t *testing.T) {
	t.Parallel()
	p := newParty(t, 3)
	for range 3 {
		former := p.leader
		former.order(t, "ask")
		require.Equal(t, "leads", receive(t, former.answers, "an answer"))
		require.NoError(t, former.cmd.Process.Signal(syscall.SIGSTOP))
		p.elected(former)
		former.order(t, "ask")
		require.NoError(t, former.cmd.Process.Signal(syscall.SIGCONT))
		require.Equal(t, "ended", receive(t, former.answers, "an answer"))
		receive(t, former.stopped, "the former leader to stop")
	}
}

// TestRealRandomFailuresOfLeaders kills and freezes leaders, and makes them resign, in random order.
func TestRealRandomFailuresOfLeaders(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	p := newParty(t, 4)
	var frozen []*child
	for i := range 8 {
		former, gone := p.leader, p.leader
		time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond) // Some failures come during a renewal.
		switch kind := random.IntN(3); kind {
		case 0:
			require.NoError(t, former.cmd.Process.Kill())
			p.children = append(p.children, spawn(t, "another", p.nodes))
		case 1:
			require.NoError(t, former.cmd.Process.Signal(syscall.SIGSTOP))
			frozen = append(frozen, former)
		case 2:
			former.order(t, "resign")
			gone = nil // The same candidate may lead again.
		}
		p.elected(gone)
		if i%2 == 1 {
			for _, c := range frozen {
				c.order(t, "ask")
				require.NoError(t, c.cmd.Process.Signal(syscall.SIGCONT))
				require.Equal(t, "ended", receive(t, c.answers, "an answer"))
			}
			frozen = nil
		}
	}
}

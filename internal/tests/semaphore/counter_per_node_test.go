package semaphore_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

// naiveNode is a node of a naive semaphore: each node has a counter with a limit, and a client needs a
// majority of admissions.
type naiveNode struct {
	most    int
	holders map[string]bool
}

func (n *naiveNode) acquire(who string) bool {
	if len(n.holders) >= n.most {
		return false
	}
	n.holders[who] = true
	return true
}

func (n *naiveNode) release(who string) { delete(n.holders, who) }

// naiveAcquire asks the nodes that the client reaches. Without a majority it returns its admissions.
func naiveAcquire(who string, nodes []*naiveNode, reaches ...int) bool {
	var granted []*naiveNode
	for _, i := range reaches {
		if nodes[i].acquire(who) {
			granted = append(granted, nodes[i])
		}
	}
	if len(granted) > len(nodes)/2 {
		return true
	}
	for _, n := range granted {
		n.release(who)
	}
	return false
}

// There are three nodes, three clients and two permits. Each client reaches two nodes, and each node is reached
// by two clients. Counters would admit all three clients. Slots admit at most two.
func TestCounterPerNodeWouldAdmitTooMany(t *testing.T) {
	reaches := [][]int{{0, 1}, {1, 2}, {2, 0}}
	const p = 2

	counters := []*naiveNode{{p, map[string]bool{}}, {p, map[string]bool{}}, {p, map[string]bool{}}}
	admitted := 0
	for who, nodes := range reaches {
		if naiveAcquire(string(rune('a'+who)), counters, nodes...) {
			admitted++
		}
	}
	require.Equal(t, 3, admitted, "three clients hold two permits, although each counter keeps its limit")
	for _, n := range counters {
		require.LessOrEqual(t, len(n.holders), p)
	}

	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var leases []*quorumlock.Lease
		for round := range 20 { // Each client asks for a random slot first.
			for _, nodes := range reaches {
				client, wires := f.WiredClient()
				for i, w := range wires {
					w.Severed.Store(i != nodes[0] && i != nodes[1])
				}
				lease, err := client.Semaphore("jobs", p).TryAcquire(t.Context(), 1)
				if err == nil {
					leases = append(leases, lease)
					continue
				}
				require.True(t, errors.Is(err, quorumlock.ErrHeld) || errors.Is(err, quorumlock.ErrNoQuorum), "%v", err)
			}
			require.LessOrEqual(t, len(leases), p, "round %d", round)
			require.NotEmpty(t, leases)
			for _, l := range leases {
				require.NoError(t, l.Err())
				require.NoError(t, l.Release(t.Context()))
			}
			leases = nil
			fleet.Settle()
		}
	})
}

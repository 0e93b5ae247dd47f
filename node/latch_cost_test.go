package node

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
)

// The server runs as many commands for an operation with a thousand ids as for one with a single
// id, whether the ids are new or were counted before.
func TestCostOfACountDownDoesNotDependOnTheNumberOfIDs(t *testing.T) {
	server := redisproc.Start(t)
	limits := Limits{MaxTTL: time.Hour, MaxClockSkew: time.Minute}
	n := costNode(t, server, limits)
	var last LatchState
	// costs returns the number of commands that an operation runs, without those that extend the TTL: they
	// depend on the time.
	costs := func(ask LatchOp) (calls int) {
		before := costOf(t, server)
		token, replies := uint64(time.Now().UnixMicro()), make([]Reply, 1)
		if ask.First {
			ask.Since = token
		}
		n.Do(context.Background(), []Op{{
			Kind: Latch, Names: []string{"a"}, TTL: time.Hour, Limits: limits, Token: token, Latch: &ask,
		}}, replies)
		require.NoError(t, replies[0].Err)
		require.Equal(t, Granted, replies[0].Outcome)
		last = *replies[0].Latch
		for name, c := range costOf(t, server) {
			switch name {
			case "pexpire", "info", "evalsha", "eval", "ping":
			default:
				calls += c.calls - before[name].calls
			}
		}
		return calls
	}
	ids := make([]string, MaxListed)
	for i := range ids {
		ids[i] = fmt.Sprint("id ", i)
	}
	costs(LatchOp{Count: 2 * MaxListed, First: true})
	one, oneAgain := costs(LatchOp{IDs: []string{"x"}}), costs(LatchOp{IDs: []string{"x"}})
	many, manyAgain := costs(LatchOp{IDs: ids}), costs(LatchOp{IDs: ids})
	require.Equal(t, MaxListed+1, last.Size)
	t.Logf("%d commands for one id, %d for %d ids; %d and %d if they were counted before", one, many, len(ids), oneAgain, manyAgain)
	require.LessOrEqual(t, many, one)
	require.LessOrEqual(t, manyAgain, oneAgain)
}

package decision_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/quorumlock/quorumlock/internal/decision"
)

// told has the messages of one node since the last attempt.
type told struct {
	woken, standby, idle, denied bool
	// The times are when the node first said so. until is the end of the claim by which it denied last, plus
	// the turns of earlier waiters.
	wokenAt, standbyAt, idleAt, until time.Duration
}

// free is when the node can be expected to be free.
func (n told) free() time.Duration {
	free := time.Duration(never)
	if n.standby {
		free = n.standbyAt + 30*time.Millisecond
	}
	if n.woken {
		free = min(free, n.wokenAt)
	}
	if n.idle {
		free = min(free, n.idleAt)
	}
	if n.denied {
		free = min(free, n.until)
	}
	return free
}

const never = 1<<63 - 1

// TestForecastModel sends messages in any order, and compares with a model that keeps all of them.
// Only the next attempt discards messages. A release is newer than a denial, whichever arrives
// first.
func TestForecastModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 7).Draw(t, "nodes")
		need := rapid.IntRange(1, n).Draw(t, "need")
		f := decision.NewForecast(n, need)
		require.Zero(t, f.NextAttempt())
		var now, moment time.Duration
		first := time.Duration(never)
		nodes := make([]told, n)
		steps := rapid.IntRange(0, 30).Draw(t, "steps")
		for step := range steps {
			now += time.Duration(rapid.IntRange(0, 20).Draw(t, "passes")) * time.Millisecond
			i := rapid.IntRange(0, n-1).Draw(t, "node")
			actions := []string{"ask", "denied", "denied", "idle", "woken", "standby"}
			if step == 0 {
				actions = actions[:1]
			}
			switch rapid.SampledFrom(actions).Draw(t, "action") {
			case "ask":
				moment = time.Duration(rapid.IntRange(0, 50).Draw(t, "moment")) * time.Millisecond
				f.StartAttempt(moment)
				first = never
				clear(nodes)
			case "denied":
				rank := rapid.IntRange(-1, 5).Draw(t, "rank")
				until := now + time.Duration(rapid.IntRange(0, 100).Draw(t, "left"))*time.Millisecond
				f.Denied(i, until, rank)
				nodes[i].denied, nodes[i].until = true, until+time.Duration(max(rank, 0))*2*time.Millisecond
			case "idle":
				if nodes[i].idle {
					continue
				}
				f.Free(i, now)
				nodes[i].idle, nodes[i].idleAt = true, now
			case "woken":
				f.Woken(i, now)
				first = min(first, now)
				if !nodes[i].woken {
					nodes[i].woken, nodes[i].wokenAt = true, now
				}
			case "standby":
				f.Standby(i, now)
				if !nodes[i].standby {
					nodes[i].standby, nodes[i].standbyAt = true, now
				}
			}
			want := time.Duration(never)
			if first < never {
				want = first + moment
			}
			free := make([]time.Duration, n)
			for i := range nodes {
				free[i] = nodes[i].free()
			}
			slices.Sort(free)
			require.Equal(t, min(want, free[need-1]), f.NextAttempt())
		}
	})
}

// A standby message is not lost if it overtakes the denial.
func TestStandbyMessageBeforeItsDenial(t *testing.T) {
	f := decision.NewForecast(1, 1)
	f.StartAttempt(time.Millisecond)
	f.Standby(0, 5*time.Millisecond)
	f.Denied(0, 9*time.Second, 1)
	require.Equal(t, 35*time.Millisecond, f.NextAttempt())
}

package quorumlock

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// patient is a call that waits so long for its answer.
func patient(l *lane, c *call, d time.Duration) *call {
	c.deadline = l.client.clock.Now() + d
	return c
}

// count is how many calls were answered.
func (a *answers) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.told)
}

// A call whose deadline passes is answered alone: the others of its exchange, and of the queue, wait
// on, and the node is not given up.
func TestLaneAnswersACallAtItsDeadline(t *testing.T) {
	inLane(t, func(t *testing.T, l *lane, nd *scripted, a *answers) {
		gate := make(chan struct{})
		nd.set(gate, nil)
		l.mu.Lock()
		l.queue = append(l.queue, patient(l, ask(a, "short"), 30*time.Millisecond), ask(a, "long"))
		l.expect(l.queue[0])
		l.start()
		l.mu.Unlock()
		synctest.Wait()
		require.NoError(t, l.submit(patient(l, ask(a, "queued"), 20*time.Millisecond)))
		require.NoError(t, l.submit(ask(a, "behind")))
		require.NoError(t, l.submit(patient(l, undoFor(l, a, "undo", time.Minute), 25*time.Millisecond)))

		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, 1, a.count())
		queued := a.of(t, "queued")
		require.ErrorIs(t, queued.Err, node.ErrBusy)
		require.ErrorIs(t, queued.Err, node.ErrTimeout)
		require.True(t, queued.Unsent, "it cannot have happened")
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, 3, a.count())
		require.ErrorIs(t, a.of(t, "short").Err, node.ErrTimeout)
		require.False(t, a.of(t, "short").Unsent, "it may have happened")
		require.Error(t, a.of(t, "undo").Err)
		require.False(t, l.overdue)

		nd.set(nil, nil)
		close(gate)
		synctest.Wait()
		require.Equal(t, [][]string{{"short", "long"}, {"behind", "undo"}}, nd.owners(), "an undo goes on after its caller was told")
		require.Equal(t, node.Granted, a.of(t, "long").Outcome)
		require.Equal(t, node.Granted, a.of(t, "behind").Outcome)
		a.of(t, "short") // once
		a.of(t, "undo")
	})
}

// The deadline of a call that was answered in time does no harm to the next exchange.
func TestADeadlineEndsWithItsCall(t *testing.T) {
	inLane(t, func(t *testing.T, l *lane, nd *scripted, a *answers) {
		require.NoError(t, l.submit(patient(l, ask(a, "quick"), 10*time.Millisecond)))
		synctest.Wait()
		require.Equal(t, node.Granted, a.of(t, "quick").Outcome)
		gate := make(chan struct{})
		nd.set(gate, nil)
		require.NoError(t, l.submit(ask(a, "hangs")))
		time.Sleep(l.client.cfg.NodeTimeoutMin - 1)
		synctest.Wait()
		require.Equal(t, 1, a.count())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.ErrorIs(t, a.of(t, "hangs").Err, node.ErrTimeout, "the timeout of the exchange holds as ever")
		nd.set(nil, nil)
		close(gate)
	})
}

// The watchdog runs once a millisecond at most, however many deadlines there are.
func TestACrowdOfDeadlines(t *testing.T) {
	inLane(t, func(t *testing.T, l *lane, nd *scripted, a *answers) {
		gate := make(chan struct{})
		nd.set(gate, nil)
		require.NoError(t, l.submit(ask(a, "first")))
		synctest.Wait()
		const crowd = 1000
		began := l.client.clock.Now()
		for i := range crowd {
			require.NoError(t, l.submit(patient(l, ask(a, fmt.Sprint(i)), 30*time.Millisecond)))
			time.Sleep(10 * time.Microsecond)
		}
		runs := 0
		for a.count() < crowd {
			told := a.count()
			time.Sleep(10 * time.Microsecond)
			synctest.Wait()
			if a.count() > told {
				runs++
			}
		}
		require.LessOrEqual(t, l.client.clock.Now()-began, 41*time.Millisecond)
		require.LessOrEqual(t, runs, 12)
		nd.set(nil, nil)
		close(gate)
	})
}

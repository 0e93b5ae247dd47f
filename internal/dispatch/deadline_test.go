package dispatch

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// patient sets the deadline of a call to d from now.
func patient(s *sender, c *Call, d time.Duration) *Call {
	c.Deadline = s.shared.env.Clock.Now() + d
	return c
}

// count returns how many calls were answered.
func (a *answers) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.told)
}

// A call whose deadline passes is answered alone. The other calls of its exchange and of the queue
// go on waiting, and the node is not given up.
func TestSenderAnswersACallAtItsDeadline(t *testing.T) {
	inSender(t, func(t *testing.T, s *sender, nd *scripted, a *answers) {
		gate := make(chan struct{})
		nd.set(gate, nil)
		s.mu.Lock()
		s.queue.calls = append(s.queue.calls, patient(s, ask(a, "short"), 30*time.Millisecond), ask(a, "long"))
		s.expectLocked(s.queue.calls[0])
		s.startLocked()
		s.mu.Unlock()
		synctest.Wait()
		require.NoError(t, s.submit(patient(s, ask(a, "queued"), 20*time.Millisecond)))
		require.NoError(t, s.submit(ask(a, "behind")))
		require.NoError(t, s.submit(patient(s, undoFor(s, a, "undo", time.Minute), 25*time.Millisecond)))

		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, 1, a.count())
		queued := a.of(t, "queued")
		require.ErrorIs(t, queued.Err, node.ErrBusy)
		require.ErrorIs(t, queued.Err, node.ErrTimeout)
		require.True(t, queued.Unsent, "a queued call cannot have happened")
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, 3, a.count())
		require.ErrorIs(t, a.of(t, "short").Err, node.ErrTimeout)
		require.False(t, a.of(t, "short").Unsent, "a call that was sent may have happened")
		require.Error(t, a.of(t, "undo").Err)
		require.Zero(t, s.flights.overdue)

		nd.set(nil, nil)
		close(gate)
		synctest.Wait()
		require.Equal(t, [][]string{{"short", "long"}, {"behind", "undo"}}, nd.owners(), "an undo goes on after its caller was told")
		require.Equal(t, wire.Granted, a.of(t, "long").Outcome)
		require.Equal(t, wire.Granted, a.of(t, "behind").Outcome)
		a.of(t, "short") // once
		a.of(t, "undo")
	})
}

// The deadline of a call that was answered in time does no harm to the next exchange.
func TestDeadlineEndsWithItsCall(t *testing.T) {
	inSender(t, func(t *testing.T, s *sender, nd *scripted, a *answers) {
		require.NoError(t, s.submit(patient(s, ask(a, "quick"), 10*time.Millisecond)))
		synctest.Wait()
		require.Equal(t, wire.Granted, a.of(t, "quick").Outcome)
		gate := make(chan struct{})
		nd.set(gate, nil)
		require.NoError(t, s.submit(ask(a, "hangs")))
		time.Sleep(timeoutMin - 1)
		synctest.Wait()
		require.Equal(t, 1, a.count())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.ErrorIs(t, a.of(t, "hangs").Err, node.ErrTimeout, "the timeout of the exchange holds as ever")
		nd.set(nil, nil)
		close(gate)
	})
}

// The watchdog runs at most once a millisecond, for any number of deadlines.
func TestManyDeadlines(t *testing.T) {
	inSender(t, func(t *testing.T, s *sender, nd *scripted, a *answers) {
		gate := make(chan struct{})
		nd.set(gate, nil)
		require.NoError(t, s.submit(ask(a, "first")))
		synctest.Wait()
		const crowd = 1000
		began := s.shared.env.Clock.Now()
		for i := range crowd {
			require.NoError(t, s.submit(patient(s, ask(a, fmt.Sprint(i)), 30*time.Millisecond)))
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
		require.LessOrEqual(t, s.shared.env.Clock.Now()-began, 41*time.Millisecond)
		require.LessOrEqual(t, runs, 12)
		nd.set(nil, nil)
		close(gate)
	})
}

// Renewals whose deadlines pass in the queue leave room for others.
func TestExpiredRenewalsFreeTheirCapacity(t *testing.T) {
	inSender(t, func(t *testing.T, s *sender, nd *scripted, a *answers) {
		gate := make(chan struct{})
		nd.set(gate, nil)
		defer close(gate)
		require.NoError(t, s.submit(ask(a, "first")))
		synctest.Wait()
		for i := range maxRenewals {
			c := patient(s, ask(a, fmt.Sprint(i)), 30*time.Millisecond)
			c.Renews = 1
			require.NoError(t, s.submit(c))
		}
		_, room, _ := s.capacity(1)
		require.False(t, room)
		time.Sleep(30 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, maxRenewals, a.count())
		_, room, _ = s.capacity(1)
		require.True(t, room)
	})
}

// lateAnswers counts the answers that come after their deadline.
type lateAnswers struct {
	answers
	late atomic.Int32
}

func (a *lateAnswers) AnswerLate(*Call, *wire.Reply) { a.late.Add(1) }

// An undo that was late and is repeated gets no second late answer.
func TestLateUndoIsAnsweredOnce(t *testing.T) {
	inSender(t, func(t *testing.T, s *sender, nd *scripted, _ *answers) {
		a, gate := &lateAnswers{}, make(chan struct{})
		nd.set(gate, node.ErrRejected)
		undo := patient(s, undoFor(s, &a.answers, "undo", time.Minute), 20*time.Millisecond)
		undo.To = a
		require.NoError(t, s.submit(undo))
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		require.ErrorIs(t, a.of(t, "undo").Err, node.ErrTimeout)
		nd.set(nil, nil)
		close(gate)
		time.Sleep(probePauseMax)
		synctest.Wait()
		require.Len(t, nd.owners(), 2, "the node rejected the first one")
		require.EqualValues(t, 1, a.late.Load())
		a.of(t, "undo")
	})
}

// TestExpiredCallsForgetWithdrawnOnes: a withdrawn call leaves the queue with those around it that expire.
func TestExpiredCallsForgetWithdrawnOnes(t *testing.T) {
	inSender(t, func(t *testing.T, s *sender, nd *scripted, a *answers) {
		gate := make(chan struct{})
		nd.set(gate, nil)
		defer close(gate)
		require.NoError(t, s.submit(ask(a, "first")))
		synctest.Wait()
		var calls []*Call
		for i := range 3 {
			calls = append(calls, patient(s, ask(a, fmt.Sprint(i)), 30*time.Millisecond))
			require.NoError(t, s.submit(calls[i]))
		}
		require.True(t, s.withdraw(calls[1]))
		time.Sleep(30 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, 2, a.count())
		require.Zero(t, s.queue.length())
	})
}

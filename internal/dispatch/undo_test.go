package dispatch

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// Undos that a node rejects are retried one at a time. Those whose keys have expired do not take the turns of the others.
func TestMootUndosAreNotRetried(t *testing.T) {
	inSender(t, func(t *testing.T, s *sender, nd *scripted, a *answers) {
		nd.set(nil, node.ErrRejected)
		for i := range 100 {
			require.NoError(t, s.submit(undoFor(s, a, fmt.Sprint(i), 5*time.Second)))
		}
		require.NoError(t, s.submit(undoFor(s, a, "long", time.Minute)))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		before := len(nd.owners())
		time.Sleep(2 * probePauseMax)
		synctest.Wait()
		require.Equal(t, [][]string{{"long"}, {"long"}}, nd.owners()[before:])
		require.Equal(t, 1, keptBy(s))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Zero(t, keptBy(s))
	})
}

// A release that is one too many is given up, and reported as long as its keys may live.
func TestReleasesThatWereGivenUpAreReportedWhileTheirKeysLive(t *testing.T) {
	for wait, reported := range map[time.Duration]int{0: 1, time.Minute: 0} {
		inSender(t, func(t *testing.T, s *sender, nd *scripted, a *answers) {
			s.kept = make([]*Call, maxKept)
			for i := range s.kept {
				s.kept[i] = undoFor(s, a, "kept", 5*time.Second)
			}
			nd.set(nil, node.ErrRejected)
			require.NoError(t, s.submit(undoFor(s, a, "too many", 5*time.Second)))
			synctest.Wait()
			s.mu.Lock()
			s.kept = nil
			s.mu.Unlock()
			time.Sleep(wait)
			require.Equal(t, reported, s.stopTimers())
		})
	}
}

// keptBy returns how many undos a sender keeps.
func keptBy(s *sender) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.kept)
}

// A node that is up again gets no undo whose keys have expired meanwhile.
func TestMootUndosAreNotSentToANodeThatIsUpAgain(t *testing.T) {
	inSender(t, func(t *testing.T, s *sender, nd *scripted, a *answers) {
		nd.set(nil, node.ErrUnreachable)
		require.NoError(t, s.submit(undoFor(s, a, "moot", 5*time.Millisecond)))
		synctest.Wait()
		require.ErrorIs(t, a.of(t, "moot").Err, node.ErrUnreachable)
		nd.set(nil, nil)
		time.Sleep(probePauseMin / 4) // before the first probe
		again := ask(a, "again")
		again.Urgent = true
		require.NoError(t, s.submit(again))
		synctest.Wait()
		require.Equal(t, [][]string{{"moot"}, {"again"}}, nd.owners())
	})
}

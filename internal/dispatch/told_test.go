package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// dawdling is a sink that takes its time.
type dawdling struct{ told chan struct{} }

func (d dawdling) Answer(*Call, *wire.Reply) {
	close(d.told)
	time.Sleep(time.Second)
}

// The watchdog may tell of an undo while the sender puts it aside: run with -race.
func TestFailedUndoIsKeptWhileItsReceiverIsTold(t *testing.T) {
	inSender(t, func(t *testing.T, s *sender, nd *scripted, a *answers) {
		gate, slow := make(chan struct{}), dawdling{make(chan struct{})}
		nd.set(gate, node.ErrTimeout)
		first, undo := ask(a, "x"), undoFor(s, a, "x", time.Minute)
		first.To = slow
		undo.Op.Waiter = wire.Waiter{ID: "c:1", Keep: time.Minute}
		s.mu.Lock()
		s.queue.calls = append(s.queue.calls, first, undo)
		s.startLocked()
		s.mu.Unlock()
		<-slow.told // it tells of the first, and then of the undo
		close(gate)
		time.Sleep(2 * time.Second)
		nd.set(nil, nil)
		time.Sleep(probePauseMax)
		synctest.Wait()
		again := nd.batches[len(nd.batches)-1]
		require.Equal(t, wire.Release, again[0].Kind)
		require.Equal(t, wire.Waiter{ID: "c:1"}, again[0].Waiter, "by then, who waited may have gone")
		require.Equal(t, time.Minute, undo.Op.Waiter.Keep, "others may look at it")
	})
}

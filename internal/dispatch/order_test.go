package dispatch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// gated is a scripted node whose probes wait as well.
type gated struct {
	scripted
	probing chan struct{}
}

func (g *gated) Probe(ctx context.Context) error {
	if g.probing != nil {
		<-g.probing
	}
	return g.scripted.Probe(ctx)
}

func TestUndoDuringProbeStaysBehindItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nd, a := &gated{}, &answers{}
		n := newNodes(&events{}, nd)
		s := n.senders[0]
		nd.set(nil, node.ErrUnreachable)
		require.NoError(t, s.submit(ask(a, "first")))
		synctest.Wait()
		time.Sleep(probePauseMin)
		nd.set(nil, nil)
		nd.probing = make(chan struct{})
		require.NoError(t, s.submit(ask(a, "x")))
		synctest.Wait()
		require.Error(t, s.submit(undoFor(s, a, "x", time.Minute)))
		close(nd.probing)
		synctest.Wait()
		time.Sleep(time.Second)
		var kinds []wire.Kind
		for _, batch := range nd.batches[1:] {
			for _, op := range batch {
				kinds = append(kinds, op.Kind)
			}
		}
		require.Equal(t, []wire.Kind{wire.Acquire, wire.Release}, kinds)
		n.Close()
	})
}

func TestKeptUndosGoFirst(t *testing.T) {
	inSender(t, func(t *testing.T, s *sender, nd *scripted, a *answers) {
		// When a node recovers.
		nd.set(nil, node.ErrUnreachable)
		require.NoError(t, s.submit(undoFor(s, a, "undo", time.Minute)))
		synctest.Wait()
		nd.set(nil, nil)
		again := ask(a, "again")
		again.Urgent = true
		require.NoError(t, s.submit(again))
		synctest.Wait()
		require.Equal(t, [][]string{{"undo"}, {"undo", "again"}}, nd.owners())

		time.Sleep(time.Second)
		// And when a node that rejected them is asked again.
		nd.set(nil, node.ErrRejected)
		require.NoError(t, s.submit(undoFor(s, a, "rejected", time.Minute)))
		synctest.Wait()
		gate := make(chan struct{})
		nd.set(gate, nil)
		time.Sleep(probePauseMax - 100*time.Millisecond)
		require.NoError(t, s.submit(ask(a, "slow")))
		synctest.Wait()
		require.NoError(t, s.submit(ask(a, "behind")))
		s.mu.Lock()
		s.flights.all[0].deadline += time.Hour // let it be slow
		s.mu.Unlock()
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		nd.set(nil, nil)
		close(gate)
		synctest.Wait()
		sent := nd.owners()
		require.Equal(t, []string{"rejected", "behind"}, sent[len(sent)-1])
	})
}

func TestTimeoutCoversEveryExchange(t *testing.T) {
	inSender(t, func(t *testing.T, s *sender, nd *scripted, a *answers) {
		most := timeoutMax
		require.NoError(t, s.submit(ask(a, "quick"))) // sets the timer
		synctest.Wait()
		s.mu.Lock()
		s.health.timeout = most
		s.mu.Unlock()
		time.Sleep(most / 2)
		gate := make(chan struct{})
		nd.set(gate, nil)
		require.NoError(t, s.submit(ask(a, "hangs")))
		time.Sleep(most)
		synctest.Wait()
		require.ErrorIs(t, a.of(t, "hangs").Err, node.ErrTimeout)
		nd.set(nil, nil)
		close(gate)
		synctest.Wait()
		require.NoError(t, s.submit(ask(a, "after")), "once the exchange has ended, the node is asked again")
		synctest.Wait()
		require.Equal(t, wire.Granted, a.of(t, "after").Outcome)
	})
	inSender(t, func(t *testing.T, s *sender, nd *scripted, a *answers) {
		require.NoError(t, s.submit(ask(a, "quick")))
		synctest.Wait()
		require.Equal(t, timeoutMin, s.health.timeout, "a quick answer lowers the timeout")
		gate := make(chan struct{})
		nd.set(gate, nil)
		require.NoError(t, s.submit(ask(a, "hangs")))
		time.Sleep(timeoutMin)
		synctest.Wait()
		require.ErrorIs(t, a.of(t, "hangs").Err, node.ErrTimeout)
		require.Equal(t, 2*timeoutMin, s.health.timeout, "a timeout doubles the timeout")
		nd.set(nil, nil)
		close(gate)
	})
}

func TestOneProbeAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nd, a := &gated{}, &answers{}
		n := newNodes(&events{}, nd)
		s := n.senders[0]
		nd.set(nil, node.ErrUnreachable)
		require.NoError(t, s.submit(ask(a, "first")))
		synctest.Wait()
		time.Sleep(probePauseMin)
		nd.probing = make(chan struct{})
		require.NoError(t, s.submit(ask(a, "probe")))
		synctest.Wait()
		require.ErrorIs(t, s.submit(ask(a, "other")), node.ErrDown)
		close(nd.probing)
		synctest.Wait()
		n.Close()
	})
}

package quorumlock

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock"
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

func TestAnUndoDuringAProbeStaysBehindItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nd, a := &gated{}, &answers{}
		c, err := New(Config{Nodes: []node.Node{nd}, Clock: clock.Process(), Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		l := c.lanes[0]
		nd.set(nil, node.ErrUnreachable)
		require.NoError(t, l.submit(ask(a, "first")))
		synctest.Wait()
		time.Sleep(probePauseMin)
		nd.set(nil, nil)
		nd.probing = make(chan struct{})
		require.NoError(t, l.submit(ask(a, "x")))
		synctest.Wait()
		require.Error(t, l.submit(undoFor(l, a, "x", time.Minute)))
		close(nd.probing)
		synctest.Wait()
		time.Sleep(time.Second)
		var kinds []node.Kind
		for _, batch := range nd.batches[1:] {
			for _, op := range batch {
				kinds = append(kinds, op.Kind)
			}
		}
		require.Equal(t, []node.Kind{node.Acquire, node.Release}, kinds)
		require.NoError(t, c.Close(t.Context()))
	})
}

func TestKeptUndosGoFirst(t *testing.T) {
	inLane(t, func(t *testing.T, l *lane, nd *scripted, a *answers) {
		// When a node recovers.
		nd.set(nil, node.ErrUnreachable)
		require.NoError(t, l.submit(undoFor(l, a, "undo", time.Minute)))
		synctest.Wait()
		nd.set(nil, nil)
		again := ask(a, "again")
		again.urgent = true
		require.NoError(t, l.submit(again))
		synctest.Wait()
		require.Equal(t, [][]string{{"undo"}, {"undo", "again"}}, nd.owners())

		time.Sleep(time.Second)
		// And when a node that rejected them is asked again.
		nd.set(nil, node.ErrRejected)
		require.NoError(t, l.submit(undoFor(l, a, "rejected", time.Minute)))
		synctest.Wait()
		gate := make(chan struct{})
		nd.set(gate, nil)
		time.Sleep(probePauseMax - 100*time.Millisecond)
		require.NoError(t, l.submit(ask(a, "slow")))
		synctest.Wait()
		require.NoError(t, l.submit(ask(a, "behind")))
		l.mu.Lock()
		l.deadline += time.Hour // let it be slow
		l.mu.Unlock()
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		nd.set(nil, nil)
		close(gate)
		synctest.Wait()
		sent := nd.owners()
		require.Equal(t, []string{"rejected", "behind"}, sent[len(sent)-1])
	})
}

func TestTheWatchdogCoversEveryExchange(t *testing.T) {
	inLane(t, func(t *testing.T, l *lane, nd *scripted, a *answers) {
		most := l.client.cfg.NodeTimeoutMax
		require.NoError(t, l.submit(ask(a, "quick"))) // sets the timer
		synctest.Wait()
		l.mu.Lock()
		l.health.timeout = most
		l.mu.Unlock()
		time.Sleep(most / 2)
		gate := make(chan struct{})
		nd.set(gate, nil)
		require.NoError(t, l.submit(ask(a, "hangs")))
		time.Sleep(most)
		synctest.Wait()
		require.ErrorIs(t, a.of(t, "hangs").Err, node.ErrTimeout)
		nd.set(nil, nil)
		close(gate)
		synctest.Wait()
		require.NoError(t, l.submit(ask(a, "after")), "once the exchange has ended, the node is asked again")
		synctest.Wait()
		require.Equal(t, node.Granted, a.of(t, "after").Outcome)
	})
	inLane(t, func(t *testing.T, l *lane, nd *scripted, a *answers) {
		require.NoError(t, l.submit(ask(a, "quick")))
		synctest.Wait()
		require.Equal(t, l.client.cfg.NodeTimeoutMin, l.health.timeout, "it answered at once: less patience from now on")
		gate := make(chan struct{})
		nd.set(gate, nil)
		require.NoError(t, l.submit(ask(a, "hangs")))
		time.Sleep(l.client.cfg.NodeTimeoutMin)
		synctest.Wait()
		require.ErrorIs(t, a.of(t, "hangs").Err, node.ErrTimeout)
		require.Equal(t, 2*l.client.cfg.NodeTimeoutMin, l.health.timeout, "and more after")
		nd.set(nil, nil)
		close(gate)
	})
}

func TestOneProbeAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nd, a := &gated{}, &answers{}
		c, err := New(Config{Nodes: []node.Node{nd}, Clock: clock.Process(), Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		l := c.lanes[0]
		nd.set(nil, node.ErrUnreachable)
		require.NoError(t, l.submit(ask(a, "first")))
		synctest.Wait()
		time.Sleep(probePauseMin)
		nd.probing = make(chan struct{})
		require.NoError(t, l.submit(ask(a, "probe")))
		synctest.Wait()
		require.ErrorIs(t, l.submit(ask(a, "other")), node.ErrDown)
		close(nd.probing)
		synctest.Wait()
		require.NoError(t, c.Close(t.Context()))
	})
}

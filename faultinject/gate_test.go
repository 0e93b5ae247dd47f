package faultinject_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/node"
)

// atGate runs a test in a lab whose only rule is a gate.
func atGate(t *testing.T, test func(t *testing.T, l *lab, g *faultinject.Gate, rule *faultinject.Active)) {
	t.Helper()
	inLab(t, func(t *testing.T, l *lab) {
		g := faultinject.NewGate()
		test(t, l, g, l.Add(faultinject.Rule{Do: g.Hold}))
	})
}

// sends sends an operation, and waits until it can go no further.
func (l *lab) sends(ctx context.Context, o node.Op) <-chan []node.Reply {
	done := make(chan []node.Reply, 1)
	go func() { done <- l.doWith(ctx, o) }()
	synctest.Wait()
	return done
}

func TestGate(t *testing.T) {
	atGate(t, func(t *testing.T, l *lab, g *faultinject.Gate, _ *faultinject.Active) {
		a, b := l.sends(t.Context(), acquireOp("a")), l.sends(t.Context(), acquireOp("b"))
		first, err := g.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "n1", first.Node)
		require.Equal(t, 1, first.N)
		require.False(t, first.Probe)
		require.Equal(t, []string{"a"}, first.Ops[0].Names)
		second, err := g.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, second.N)
		require.Equal(t, []*faultinject.Held{first, second}, g.Waiting())

		time.Sleep(30 * node.DefaultTimeout)
		require.Empty(t, l.ran(), "no timeout ends the wait")
		require.True(t, second.Pass())
		require.Equal(t, []string{"acquire b"}, l.ran(), "the operation has run when Pass returns")
		require.Equal(t, []*faultinject.Held{first}, g.Waiting())
		require.True(t, first.Pass())
		require.Equal(t, []string{"acquire a"}, l.ran())
		l.answered(<-b, node.Granted)
		l.answered(<-a, node.Granted)
		require.False(t, first.Pass())
		require.Equal(t, []string{"a"}, first.Ops[0].Names, "a copy")
	})
}

func TestGatePassAll(t *testing.T) {
	atGate(t, func(t *testing.T, l *lab, g *faultinject.Gate, _ *faultinject.Active) {
		require.Zero(t, g.PassAll())
		a, b := l.sends(t.Context(), acquireOp("a")), l.sends(t.Context(), acquireOp("b"))
		require.Equal(t, 2, g.PassAll())
		require.Equal(t, []string{"acquire a", "acquire b"}, l.ran(), "in the order of their arrival")
		l.answered(<-a, node.Granted)
		l.answered(<-b, node.Granted)
		l.sends(t.Context(), acquireOp("c"))
		require.Len(t, g.Waiting(), 1, "the gate holds later operations too")
	})
}

func TestGateOpen(t *testing.T) {
	atGate(t, func(t *testing.T, l *lab, g *faultinject.Gate, _ *faultinject.Active) {
		a := l.sends(t.Context(), acquireOp("a"))
		held, err := g.Await(t.Context())
		require.NoError(t, err)
		waits := make(chan error, 1)
		go func() {
			_, err := g.Await(t.Context())
			waits <- err
		}()
		synctest.Wait()
		g.Open()
		g.Open()
		l.answered(<-a, node.Granted)
		l.answered(l.do(acquireOp("b")), node.Granted)
		require.Empty(t, g.Waiting())
		require.False(t, held.Pass())
		require.EqualError(t, <-waits, "faultinject: waiting for a call at a gate: the gate is open")
	})
}

func TestGateOfARuleThatIsRemoved(t *testing.T) {
	atGate(t, func(t *testing.T, l *lab, g *faultinject.Gate, rule *faultinject.Active) {
		a := l.sends(t.Context(), acquireOp("a"))
		rule.Remove()
		l.answered(<-a, node.Granted)
		l.answered(l.do(acquireOp("b")), node.Granted)
		require.Empty(t, g.Waiting())
	})
}

// TestGateForgetsCallsThatEnded: a call that has ended is neither awaited nor passed.
func TestGateForgetsCallsThatEnded(t *testing.T) {
	atGate(t, func(t *testing.T, l *lab, g *faultinject.Gate, _ *faultinject.Active) {
		ctx, cancel := context.WithCancel(t.Context())
		a := l.sends(ctx, acquireOp("a"))
		held, err := g.Await(t.Context())
		require.NoError(t, err)
		cancel()
		l.failed(<-a, node.ErrCanceled, true, node.Acquire)
		require.False(t, held.Pass())

		brief, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = g.Await(brief)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "faultinject: waiting for a call at a gate")
	})
}

// TestGateDecidesOnce: when a call is passed and gives up at the same time, exactly one of the two happens.
func TestGateDecidesOnce(t *testing.T) {
	atGate(t, func(t *testing.T, l *lab, g *faultinject.Gate, _ *faultinject.Active) {
		for i := range 200 {
			ctx, cancel := context.WithCancel(t.Context())
			a := l.sends(ctx, acquireOp("a"))
			held, err := g.Await(t.Context())
			require.NoError(t, err)
			if i%2 == 0 {
				cancel()
			} else {
				go cancel()
			}
			passed := held.Pass()
			r := <-a
			if !passed {
				l.failed(r, node.ErrCanceled, true, node.Acquire)
				require.Empty(t, l.ran())
				continue
			}
			if r[0].Err != nil { // the memory was told of the end of the context
				l.failed(r, node.ErrCanceled, true, node.Acquire)
				require.Empty(t, l.ran())
				continue
			}
			require.Equal(t, []string{"acquire a"}, l.ran())
		}
	})
}

// One gate on several nodes puts their calls in an order.
func TestGateOfTwoNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := faultinject.NewGate()
		one, two := newLab(t, faultinject.Rule{Do: g.Hold}), newLab(t, faultinject.Rule{Do: g.Hold})
		a, b := one.sends(t.Context(), acquireOp("a")), two.sends(t.Context(), acquireOp("b"))
		require.NoError(t, one.Close())
		one.failed(<-a, node.ErrClosed, true, node.Acquire)
		require.Equal(t, 1, g.PassAll())
		two.answered(<-b, node.Granted)
	})
}

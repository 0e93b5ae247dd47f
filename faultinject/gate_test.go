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

// atGate runs a test in a lab whose effect is a gate.
func atGate(t *testing.T, test func(t *testing.T, l *lab, g *faultinject.Gate)) {
	t.Helper()
	inLab(t, nil, func(t *testing.T, l *lab) {
		g := faultinject.NewGate()
		l.Set(g.Hold)
		test(t, l, g)
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
	atGate(t, func(t *testing.T, l *lab, g *faultinject.Gate) {
		a, b := l.sends(t.Context(), acquireOp("a")), l.sends(t.Context(), acquireOp("b"))
		first, err := g.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "n1", first.Node)
		require.Equal(t, []string{"a"}, first.Ops[0].Names)
		second, err := g.Await(t.Context())
		require.NoError(t, err)

		time.Sleep(30 * node.DefaultTimeout)
		require.Empty(t, l.ran(), "no timeout ends the wait")
		second.Pass()
		require.Equal(t, []string{"acquire b"}, l.ran(), "the operation has run when Pass returns")
		first.Pass()
		require.Equal(t, []string{"acquire a"}, l.ran())
		l.answered(<-b, node.Granted)
		l.answered(<-a, node.Granted)
		first.Pass()
		require.Equal(t, []string{"a"}, first.Ops[0].Names, "a copy")
	})
}

func TestGateOpen(t *testing.T) {
	atGate(t, func(t *testing.T, l *lab, g *faultinject.Gate) {
		a, b := l.sends(t.Context(), acquireOp("a")), l.sends(t.Context(), acquireOp("b"))
		_, err := g.Await(t.Context())
		require.NoError(t, err)
		g.Open()
		g.Open()
		l.answered(<-a, node.Granted)
		l.answered(<-b, node.Granted)
		l.answered(l.do(acquireOp("c")), node.Granted)
		_, err = g.Await(t.Context())
		require.EqualError(t, err, "faultinject: waiting for a call at a gate: the gate is open")
	})
}

// TestGateForgetsCallsThatEnded: a call that has ended is not awaited, and Pass finds that it has failed.
func TestGateForgetsCallsThatEnded(t *testing.T) {
	atGate(t, func(t *testing.T, l *lab, g *faultinject.Gate) {
		for _, awaited := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			a := l.sends(ctx, acquireOp("a"))
			var held *faultinject.Held
			if awaited {
				var err error
				held, err = g.Await(t.Context())
				require.NoError(t, err)
			}
			cancel()
			l.failed(<-a, node.ErrCanceled, true, node.Acquire)
			if awaited {
				held.Pass()
			}
			require.Empty(t, l.ran())
		}
		brief, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := g.Await(brief)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "faultinject: waiting for a call at a gate")
	})
}

// One gate on several nodes puts their calls in an order.
func TestGateOfTwoNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := faultinject.NewGate()
		one, two := newLab(t, g.Hold), newLab(t, g.Hold)
		a, b := one.sends(t.Context(), acquireOp("a")), two.sends(t.Context(), acquireOp("b"))
		require.NoError(t, one.Close())
		one.failed(<-a, node.ErrClosed, true, node.Acquire)
		held, err := g.Await(t.Context())
		require.NoError(t, err)
		held.Pass()
		two.answered(<-b, node.Granted)
	})
}

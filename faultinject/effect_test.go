package faultinject_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		effect faultinject.Effect
		reason error
		unsent bool
		ran    []string
		probes int
	}{
		"before":      {faultinject.FailBefore(node.ErrAuth), node.ErrAuth, true, nil, 0},
		"after":       {faultinject.FailAfter(node.ErrTimeout), node.ErrTimeout, false, []string{"acquire a", "renew a"}, 1},
		"rejected":    {faultinject.Reject(node.ErrRejected), node.ErrRejected, false, nil, 0},
		"cut at once": {within(faultinject.CutAfter(0), faultinject.FailAfter(node.ErrUnreachable)), node.ErrUnreachable, false, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, faultinject.Rule{Do: c.effect})
			l.failed(l.do(acquireOp("a"), renewOp("a")), c.reason, c.unsent, node.Acquire, node.Renew)
			require.Equal(t, c.ran, l.ran())
			l.probeFailed(c.reason)
			require.Equal(t, c.probes, l.log.probes)
		})
	}
}

// TestRejectWithACause: a reason may have a cause, as a recovering node's has.
func TestRejectWithACause(t *testing.T) {
	cause := &node.RecoveryError{Left: time.Second, Length: time.Minute}
	l := newLab(t, faultinject.Rule{Do: faultinject.Reject(&node.Error{Reason: node.ErrRecovering, Err: cause})})
	r := l.do(acquireOp("a"))
	require.Equal(t, []node.Reply{{Err: &node.Error{Node: "n1", Op: node.Acquire, Reason: node.ErrRecovering, Err: cause}}}, r)
}

// TestFailAfterKeepsAnEarlierError: operations that did not reach the node keep their error.
func TestFailAfterKeepsAnEarlierError(t *testing.T) {
	l := newLab(t, faultinject.Rule{Do: faultinject.FailAfter(node.ErrTimeout)})
	l.memory.Stop()
	l.failed(l.do(acquireOp("a")), node.ErrUnreachable, true, node.Acquire)
	l.probeFailed(node.ErrUnreachable)
}

func TestDelay(t *testing.T) {
	const timeout = node.DefaultTimeout
	for name, c := range map[string]struct {
		before, after, took time.Duration
		reason              error
		ran                 []string
	}{
		"in time":           {400 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond, nil, []string{"acquire a"}},
		"on the way there":  {2 * time.Second, 0, timeout, node.ErrTimeout, nil},
		"on the way back":   {0, 2 * time.Second, timeout, node.ErrTimeout, []string{"acquire a"}},
		"both ways in sum":  {600 * time.Millisecond, 600 * time.Millisecond, timeout, node.ErrTimeout, []string{"acquire a"}},
		"by a nanosecond":   {timeout, 1, timeout, node.ErrTimeout, []string{"acquire a"}},
		"by one, back only": {0, timeout + 1, timeout, node.ErrTimeout, []string{"acquire a"}},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				time.AfterFunc(c.before/2, func() { assert.True(t, c.before == 0 || len(l.log.ran) == 0) })
				var r []node.Reply
				require.Equal(t, c.took, took(func() { r = l.do(acquireOp("a")) }))
				if c.reason == nil {
					l.answered(r, node.Granted)
				} else {
					l.failed(r, c.reason, false, node.Acquire)
				}
				require.Equal(t, c.took, took(func() { require.ErrorIs(t, l.Probe(t.Context()), c.reason) }))
				time.Sleep(time.Minute)
				require.Equal(t, c.ran, l.ran())
			}, faultinject.Rule{Do: faultinject.Delay(c.before, c.after)})
		})
	}
}

func TestCustomTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := faultinject.Wrap(memory.New("n1", nil), faultinject.Timeout(time.Minute))
		defer func() { require.NoError(t, n.Close()) }()
		n.Add(faultinject.Rule{Do: faultinject.Stall()})
		require.Equal(t, time.Minute, took(func() { require.ErrorIs(t, n.Probe(t.Context()), node.ErrTimeout) }))
	})
}

// TestWaitsEnd: while a call waits, its context or the node may end. Either way it does not run.
func TestWaitsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		effect func() faultinject.Effect
		unsent bool
	}{
		"delay": {func() faultinject.Effect { return faultinject.Delay(time.Second, 0) }, true},
		"stall": {faultinject.Stall, true},
		"late":  {func() faultinject.Effect { return faultinject.Late(time.Hour) }, false},
		"gate":  {func() faultinject.Effect { return faultinject.NewGate().Hold }, true},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				l.Add(faultinject.Rule{Do: c.effect()})
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
				defer cancel()
				require.Equal(t, 10*time.Millisecond, took(func() {
					l.failed(l.doWith(ctx, acquireOp("a")), node.ErrCanceled, c.unsent, node.Acquire)
				}))
				time.AfterFunc(20*time.Millisecond, func() { assert.NoError(t, l.Close()) })
				require.Equal(t, 20*time.Millisecond, took(func() {
					l.failed(l.do(acquireOp("a")), node.ErrClosed, c.unsent, node.Acquire)
				}))
				time.Sleep(2 * time.Hour)
				require.Empty(t, l.ran(), "a closed node does not run postponed calls")
			})
		})
	}
}

// TestDelayedAnswerIsLost: on the way back everything has run, so nothing is unsent.
func TestDelayedAnswerIsLost(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		l.failed(l.doWith(ctx, acquireOp("a")), node.ErrCanceled, false, node.Acquire)
		time.AfterFunc(time.Millisecond, func() { assert.NoError(t, l.Close()) })
		l.failed(l.do(renewOp("a")), node.ErrClosed, false, node.Renew)
		require.Equal(t, []string{"acquire a", "renew a"}, l.ran())
	}, faultinject.Rule{Do: faultinject.Delay(0, 10*time.Millisecond)})
}

func TestDuplicate(t *testing.T) {
	l := newLab(t, faultinject.Rule{Do: faultinject.Duplicate()})
	l.answered(l.do(acquireOp("a"), releaseOp("a")), node.Granted, node.Released)
	require.Equal(t, []string{"acquire a", "release a", "acquire a", "release a"}, l.ran())
	require.NoError(t, l.Probe(t.Context()))
	require.Equal(t, 2, l.log.probes)
}

func TestLate(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		late := l.Add(faultinject.Rule{When: faultinject.Kind(node.Acquire), Do: faultinject.Late(3 * time.Second)})
		ctx, cancel := context.WithCancel(t.Context())
		require.Equal(t, node.DefaultTimeout, took(func() {
			l.failed(l.doWith(ctx, acquireOp("a")), node.ErrTimeout, false, node.Acquire)
		}))
		cancel()
		l.answered(l.do(releaseOp("a")), node.Absent)
		require.Equal(t, []string{"release a"}, l.ran())
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"acquire a"}, l.ran(), "regardless of the caller")
		late.Remove()
		l.Add(faultinject.Rule{Do: faultinject.Late(0)})
		l.probeFailed(node.ErrTimeout)
		time.Sleep(time.Minute)
		require.Zero(t, l.log.probes, "a probe just fails")
	})
}

// TestLateCallsPassTheRulesBehind: calls that run later pass the rules behind, with their own timeout, and Close waits for
// them.
func TestLateCallsPassTheRulesBehind(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Add(faultinject.Rule{When: faultinject.Kind(node.Acquire), Do: faultinject.Late(0)})
		behind := l.Add(faultinject.Rule{Do: faultinject.Delay(400*time.Millisecond, 0)})
		held := l.Add(faultinject.Rule{When: faultinject.Kind(node.Acquire), Do: faultinject.NewGate().Hold})
		l.failed(l.do(acquireOp("a")), node.ErrTimeout, false, node.Acquire)
		time.Sleep(200 * time.Millisecond)
		require.Equal(t, 1, behind.Hits())
		require.Zero(t, held.Hits())
		time.Sleep(time.Hour)
		require.Equal(t, 1, held.Hits())
		require.NoError(t, l.Close())
		require.Empty(t, l.ran())
	})
}

func TestStall(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		rule := l.Add(faultinject.Rule{Do: faultinject.Stall()})
		require.Equal(t, node.DefaultTimeout, took(func() {
			l.failed(l.do(acquireOp("a")), node.ErrTimeout, false, node.Acquire)
		}))
		l.probeFailed(node.ErrTimeout)
		require.Empty(t, l.ran())
		time.AfterFunc(300*time.Millisecond, rule.Remove)
		require.Equal(t, 300*time.Millisecond, took(func() { l.answered(l.do(acquireOp("b")), node.Granted) }))
		require.Equal(t, []string{"acquire b"}, l.ran(), "what failed does not run")
	})
}

func TestCutAfter(t *testing.T) {
	l := newLab(t, faultinject.Rule{Do: faultinject.CutAfter(2)})
	r := l.do(acquireOp("a"), renewOp("a"), releaseOp("a"), renewOp("a"))
	l.answered(r[:2], node.Granted, node.Granted)
	l.failed(r[2:], node.ErrUnreachable, false, node.Release, node.Renew)
	require.Equal(t, []string{"acquire a", "renew a"}, l.ran())
	l.answered(l.do(renewOp("a"), releaseOp("a")), node.Granted, node.Released)
	require.NoError(t, l.Probe(t.Context()))
	l.do()
}

// within makes one effect of two, of which the first encloses the second.
func within(outer, inner faultinject.Effect) faultinject.Effect {
	return func(ctx context.Context, x *faultinject.Exchange, next faultinject.Next) {
		outer(ctx, x, func(ctx context.Context, y *faultinject.Exchange) { inner(ctx, y, next) })
	}
}

// TestCustomEffect drops every other operation by a custom effect.
func TestCustomEffect(t *testing.T) {
	l := newLab(t, faultinject.Rule{Do: func(ctx context.Context, x *faultinject.Exchange, next faultinject.Next) {
		for i := range x.Ops {
			if part := x.Slice(i, i+1); i%2 == 0 {
				next(ctx, part)
			} else {
				part.Fail(node.ErrTimeout, true)
			}
		}
	}})
	r := l.do(acquireOp("a"), releaseOp("a"), renewOp("a"))
	l.answered(r[:1], node.Granted)
	l.failed(r[1:2], node.ErrTimeout, true, node.Release)
	l.answered(r[2:], node.Granted)
}

// TestEffectsThatForgetToAnswerFail: an operation that an effect neither passes on nor fails has failed, whatever its
// reply was before.
func TestEffectsThatForgetToAnswerFail(t *testing.T) {
	forgetful := func(ctx context.Context, x *faultinject.Exchange, next faultinject.Next) {
		if len(x.Ops) > 1 {
			next(ctx, x.Slice(0, 1))
		}
	}
	for name, do := range map[string]faultinject.Effect{
		"alone":  forgetful,
		"in one": within(faultinject.Delay(0, 0), forgetful),
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, faultinject.Rule{Do: do})
			unanswered := func(err error) {
				t.Helper()
				require.ErrorIs(t, err, node.ErrProtocol)
				require.ErrorContains(t, err, "faultinject: an effect has not answered")
			}
			unanswered(l.Probe(t.Context()))
			replies := []node.Reply{{Outcome: node.Granted}, {Outcome: node.Granted, Unsent: true}}
			l.Do(t.Context(), []node.Op{acquireOp("a")}, replies[:1])
			unanswered(replies[0].Err)
			l.Do(t.Context(), []node.Op{acquireOp("a"), acquireOp("b")}, replies)
			l.answered(replies[:1], node.Granted)
			unanswered(replies[1].Err)
			require.False(t, replies[1].Unsent)
		})
	}
}

package faultinject_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/internal/nodetest"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

// A node with an effect that runs all calls is as good as the one within.
func TestWrappedNodeConforms(t *testing.T) {
	nodetest.Run(t, func(t *testing.T) nodetest.Subject {
		c := clock.NewManual(time.Unix(1_700_000_000, 0))
		m := memory.New("memory", c)
		n := faultinject.Wrap(m)
		t.Cleanup(func() { _ = n.Close() })
		n.Set(func(ctx context.Context, x *faultinject.Exchange) { x.Run(ctx) })
		return nodetest.Subject{
			// A node keeps a key until its last millisecond is over.
			Node: n, Pass: func(d time.Duration) { c.Advance(d + time.Millisecond) }, Plant: m.Plant, Keys: m.Keys, Forget: m.Flush,
			Restart: func() { m.Save(); m.Crash() },
		}
	})
}

// A node is as good a listener as the one behind it.
func TestWrappedNodeListens(t *testing.T) {
	m := memory.New("memory", nil)
	n := faultinject.Wrap(m)
	inbox, err := n.Listen(t.Context(), "c", func(wire.Message) {})
	require.NoError(t, err)
	require.NoError(t, inbox.Close())
	deaf := faultinject.Wrap(struct{ node.Node }{m})
	_, err = deaf.Listen(t.Context(), "c", func(wire.Message) {})
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.NoError(t, n.Close())
}

// lab is a node in memory that gives locks, the one wrapped around it, and what ran there.
type lab struct {
	*faultinject.Node
	t      *testing.T
	memory *memory.Node
	log    *ledger
}

// ledger is a node that notes what reaches it, between the effect and the memory.
type ledger struct {
	*memory.Node
	ran    chan string
	probes int
}

func (l *ledger) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	l.Node.Do(ctx, ops, replies)
	for i, op := range ops {
		if replies[i].Err == nil {
			l.ran <- op.Kind.String() + " " + op.Names[0]
		}
	}
}

func (l *ledger) Probe(ctx context.Context) error {
	l.probes++
	return l.Node.Probe(ctx)
}

var labLimits = wire.Limits{MaxTTL: time.Minute, MaxClockSkew: 10 * time.Second}

// newLab makes a lab with this effect, unless it is nil. It is closed at the end of the test.
func newLab(t *testing.T, effect faultinject.Effect) *lab {
	t.Helper()
	m := memory.New("n1", clock.Process())
	marked := []wire.Reply{{}}
	m.Do(t.Context(), []wire.Op{{Kind: wire.Mark, Limits: labLimits}}, marked)
	require.NoError(t, marked[0].Err)
	m.Do(t.Context(), []wire.Op{{Kind: wire.Open, Limits: labLimits, Marker: marked[0].Marker}}, marked)
	require.NoError(t, marked[0].Err)
	l := &lab{t: t, memory: m, log: &ledger{Node: m, ran: make(chan string, 100)}}
	l.Node = faultinject.Wrap(l.log)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	if effect != nil {
		l.Set(effect)
	}
	return l
}

// inLab runs a test in a lab in virtual time.
func inLab(t *testing.T, effect faultinject.Effect, test func(t *testing.T, l *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newLab(t, effect)) })
}

func (l *lab) do(ops ...wire.Op) []wire.Reply {
	l.t.Helper()
	return l.doWith(context.Background(), ops...)
}

// doWith makes a client's call: the slices belong to the client, which reuses them.
func (l *lab) doWith(ctx context.Context, ops ...wire.Op) []wire.Reply {
	l.t.Helper()
	junk := wire.Reply{Outcome: wire.Granted, Token: 1, Err: errors.New("junk"), Unsent: true}
	replies := slices.Repeat([]wire.Reply{junk}, len(ops))
	used := slices.Clone(ops)
	l.Do(ctx, used, replies)
	clear(used)
	return replies
}

// ran returns the operations that have reached the memory since the last call.
func (l *lab) ran() []string {
	var all []string
	for {
		select {
		case line := <-l.log.ran:
			all = append(all, line)
		default:
			return all
		}
	}
}

// answered demands that operations were answered.
func (l *lab) answered(replies []wire.Reply, outcomes ...wire.Outcome) {
	l.t.Helper()
	require.Len(l.t, replies, len(outcomes))
	for i, r := range replies {
		require.NoError(l.t, r.Err)
		require.Equal(l.t, outcomes[i], r.Outcome)
		require.False(l.t, r.Unsent)
	}
}

// failed demands the form that all failures have.
func (l *lab) failed(replies []wire.Reply, reason error, unsent bool, kinds ...wire.Kind) {
	l.t.Helper()
	require.Len(l.t, replies, len(kinds))
	for i, r := range replies {
		require.Equal(l.t, wire.Reply{Err: &node.Error{Node: "n1", Op: kinds[i].String(), Reason: reason}, Unsent: unsent}, r)
	}
}

func (l *lab) probeFailed(reason error) {
	l.t.Helper()
	require.Equal(l.t, &node.Error{Node: "n1", Reason: reason}, l.Probe(context.Background()))
}

func took(what func()) time.Duration {
	began := time.Now()
	what()
	return time.Since(began)
}

// op is an operation of an owner that is called like the lock.
func op(kind wire.Kind, name string) wire.Op {
	o := wire.Op{Kind: kind, Names: []string{name}, Owner: name, TTL: 10 * time.Second, Limits: labLimits}
	o.Token = uint64(time.Now().UnixMicro())
	return o
}

func acquireOp(name string) wire.Op { return op(wire.Acquire, name) }
func renewOp(name string) wire.Op   { return op(wire.Renew, name) }
func releaseOp(name string) wire.Op { return op(wire.Release, name) }

func TestWrapPassesThrough(t *testing.T) {
	l := newLab(t, nil)
	require.Equal(t, "n1", l.Name())
	require.Equal(t, l.memory.Identity(), l.Identity())
	l.answered(l.do(acquireOp("a"), releaseOp("a")), wire.Granted, wire.Released)
	require.NoError(t, l.Probe(t.Context()))
	require.Equal(t, 1, l.log.probes)
	require.Len(t, l.ran(), 2)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	l.Set(faultinject.FailAfter(node.ErrUnreachable))
	l.failed(l.doWith(ended, acquireOp("a")), node.ErrCanceled, true, wire.Acquire)
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
	l.failed(l.do(acquireOp("a")), node.ErrClosed, true, wire.Acquire)
	require.Empty(t, l.ran(), "no effect changes the error of what is not sent")
}

func TestEffectOfSomeKinds(t *testing.T) {
	l := newLab(t, faultinject.Only(faultinject.FailBefore(node.ErrUnreachable), wire.Renew, wire.Release))
	l.answered(l.do(acquireOp("a")), wire.Granted)
	l.failed(l.do(renewOp("a")), node.ErrUnreachable, true, wire.Renew)
	l.failed(l.do(acquireOp("b"), releaseOp("a")), node.ErrUnreachable, true, wire.Acquire, wire.Release)
	require.NoError(t, l.Probe(t.Context()))
	l.Heal()
	l.answered(l.do(releaseOp("a")), wire.Released)
}

// Calls that are under way go on as they began.
func TestEffectChangesMeanwhile(t *testing.T) {
	inLab(t, faultinject.Delay(200*time.Millisecond, 0), func(_ *testing.T, l *lab) {
		time.AfterFunc(100*time.Millisecond, func() { l.Set(faultinject.FailAfter(node.ErrUnreachable)) })
		l.answered(l.do(acquireOp("a")), wire.Granted)
		l.failed(l.do(acquireOp("a")), node.ErrUnreachable, false, wire.Acquire)
	})
}

func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		effect faultinject.Effect
		reason error
		unsent bool
		ran    []string
		probes int
	}{
		"before": {faultinject.FailBefore(node.ErrAuth), node.ErrAuth, true, nil, 0},
		"after":  {faultinject.FailAfter(node.ErrTimeout), node.ErrTimeout, false, []string{"acquire a", "renew a"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, c.effect)
			l.failed(l.do(acquireOp("a"), renewOp("a")), c.reason, c.unsent, wire.Acquire, wire.Renew)
			require.Equal(t, c.ran, l.ran())
			l.probeFailed(c.reason)
			require.Equal(t, c.probes, l.log.probes)
		})
	}
}

// TestFailAfterKeepsAnEarlierError: operations that did not reach the node keep their error.
func TestFailAfterKeepsAnEarlierError(t *testing.T) {
	l := newLab(t, faultinject.FailAfter(node.ErrTimeout))
	l.memory.Stop()
	l.failed(l.do(acquireOp("a")), node.ErrUnreachable, true, wire.Acquire)
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
			inLab(t, faultinject.Delay(c.before, c.after), func(t *testing.T, l *lab) {
				time.AfterFunc(c.before/2, func() { assert.True(t, c.before == 0 || len(l.log.ran) == 0) })
				var r []wire.Reply
				require.Equal(t, c.took, took(func() { r = l.do(acquireOp("a")) }))
				if c.reason == nil {
					l.answered(r, wire.Granted)
				} else {
					l.failed(r, c.reason, false, wire.Acquire)
				}
				require.Equal(t, c.took, took(func() { require.ErrorIs(t, l.Probe(t.Context()), c.reason) }))
				time.Sleep(time.Minute)
				require.Equal(t, c.ran, l.ran())
			})
		})
	}
}

// TestWaitsEnd: while a call waits, its context or the node may end. Either way it does not run.
func TestWaitsEnd(t *testing.T) {
	inLab(t, faultinject.Delay(time.Second, 0), func(t *testing.T, l *lab) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		require.Equal(t, 10*time.Millisecond, took(func() {
			l.failed(l.doWith(ctx, acquireOp("a")), node.ErrCanceled, true, wire.Acquire)
		}))
		time.AfterFunc(20*time.Millisecond, func() { assert.NoError(t, l.Close()) })
		require.Equal(t, 20*time.Millisecond, took(func() {
			l.failed(l.do(acquireOp("a")), node.ErrClosed, true, wire.Acquire)
		}))
		require.Empty(t, l.ran())
	})
}

// TestDelayedAnswerIsLost: on the way back everything has run, so nothing is unsent.
func TestDelayedAnswerIsLost(t *testing.T) {
	inLab(t, faultinject.Delay(0, 10*time.Millisecond), func(t *testing.T, l *lab) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		l.failed(l.doWith(ctx, acquireOp("a")), node.ErrCanceled, false, wire.Acquire)
		time.AfterFunc(time.Millisecond, func() { assert.NoError(t, l.Close()) })
		l.failed(l.do(renewOp("a")), node.ErrClosed, false, wire.Renew)
		require.Equal(t, []string{"acquire a", "renew a"}, l.ran())
	})
}

// TestOwnEffect: a test writes what it needs, here an answer as of a node that recovers, and a duplicate.
func TestOwnEffect(t *testing.T) {
	cause := &node.RecoveryError{Left: time.Second, Length: time.Minute}
	l := newLab(t, func(_ context.Context, x *faultinject.Exchange) {
		x.Fail(&node.Error{Reason: node.ErrRecovering, Err: cause}, false)
	})
	r := l.do(acquireOp("a"))
	require.Equal(t, []wire.Reply{{Err: &node.Error{Node: "n1", Op: wire.Acquire.String(), Reason: node.ErrRecovering, Err: cause}}}, r)

	l.Set(func(ctx context.Context, x *faultinject.Exchange) { x.Run(ctx); x.Run(ctx) })
	l.answered(l.do(acquireOp("a")), wire.Granted)
	require.Equal(t, []string{"acquire a", "acquire a"}, l.ran())
}

// TestEffectThatForgetsToAnswerFails: a call that an effect neither runs nor fails has failed, whatever its reply was
// before.
func TestEffectThatForgetsToAnswerFails(t *testing.T) {
	l := newLab(t, func(context.Context, *faultinject.Exchange) {})
	for _, err := range []error{l.Probe(t.Context()), l.do(acquireOp("a"))[0].Err} {
		require.ErrorIs(t, err, node.ErrProtocol)
		require.ErrorContains(t, err, "faultinject: an effect has not answered")
	}
}

func TestWrapRefusesNil(t *testing.T) {
	require.PanicsWithValue(t, "faultinject: Wrap of a nil node", func() { faultinject.Wrap(nil) })
}

package faultinject_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
	"github.com/quorumlock/quorumlock/node/nodetest"
)

// The suite runs on a clock that it sets itself, so delays do not make it miss anything.
func TestWrappedNodeConforms(t *testing.T) {
	for name, rules := range map[string][]faultinject.Rule{
		"without rules": nil,
		"with rules": {
			{Do: faultinject.Delay(20*time.Microsecond, 20*time.Microsecond)},
			{When: faultinject.Kind(), Do: faultinject.FailBefore(node.ErrUnreachable)},
			{Skip: 1 << 30, Do: faultinject.Stall()},
			{Chance: 0.5, Do: faultinject.Delay(0, 0)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			nodetest.Run(t, func(t *testing.T) nodetest.Subject {
				c := clock.NewManual(time.Unix(1_700_000_000, 0))
				m := memory.New("memory", c)
				// With the race detector, a batch of 3,000 operations takes longer than the usual timeout.
				n := faultinject.Wrap(m, faultinject.Seed(1), faultinject.Timeout(time.Minute))
				t.Cleanup(func() { _ = n.Close() })
				for _, r := range rules {
					n.Add(r)
				}
				return nodetest.Subject{
					// A node keeps a key until its last millisecond is over.
					Node: n, Pass: func(d time.Duration) { c.Advance(d + time.Millisecond) }, Plant: m.Plant, Keys: m.Keys, Forget: m.Flush,
					Restart: func() { m.Save(); m.Crash() },
				}
			})
		})
	}
}

// A node is as good a listener as the one behind it.
func TestWrappedNodeListens(t *testing.T) {
	m := memory.New("memory", nil)
	n := faultinject.Wrap(m)
	inbox, err := n.Listen(t.Context(), "c", func(node.Message) {})
	require.NoError(t, err)
	require.NoError(t, inbox.Close())
	deaf := faultinject.Wrap(struct{ node.Node }{m})
	_, err = deaf.Listen(t.Context(), "c", func(node.Message) {})
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

// ledger is a node that notes what reaches it, between the rules and the memory.
type ledger struct {
	*memory.Node
	ran    chan string
	probes int
}

func (l *ledger) Do(ctx context.Context, ops []node.Op, replies []node.Reply) {
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

var labLimits = node.Limits{MaxTTL: time.Minute, MaxClockSkew: 10 * time.Second}

// newLab makes a lab with these rules. It is closed at the end of the test.
func newLab(t *testing.T, rules ...faultinject.Rule) *lab {
	t.Helper()
	m := memory.New("n1", clock.Process())
	marked := []node.Reply{{}}
	m.Do(t.Context(), []node.Op{{Kind: node.Mark, Limits: labLimits}}, marked)
	require.NoError(t, marked[0].Err)
	m.Do(t.Context(), []node.Op{{Kind: node.Open, Limits: labLimits, Marker: marked[0].Marker}}, marked)
	require.NoError(t, marked[0].Err)
	l := &lab{t: t, memory: m, log: &ledger{Node: m, ran: make(chan string, 100)}}
	l.Node = faultinject.Wrap(l.log)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	for _, r := range rules {
		l.Add(r)
	}
	return l
}

// inLab runs a test in a lab in virtual time.
func inLab(t *testing.T, test func(t *testing.T, l *lab), rules ...faultinject.Rule) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newLab(t, rules...)) })
}

func (l *lab) do(ops ...node.Op) []node.Reply {
	l.t.Helper()
	return l.doWith(context.Background(), ops...)
}

// doWith makes a client's call: the slices belong to the client, which reuses them.
func (l *lab) doWith(ctx context.Context, ops ...node.Op) []node.Reply {
	l.t.Helper()
	junk := node.Reply{Outcome: node.Granted, Token: 1, Err: errors.New("junk"), Unsent: true}
	replies := slices.Repeat([]node.Reply{junk}, len(ops))
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
func (l *lab) answered(replies []node.Reply, outcomes ...node.Outcome) {
	l.t.Helper()
	require.Len(l.t, replies, len(outcomes))
	for i, r := range replies {
		require.NoError(l.t, r.Err)
		require.Equal(l.t, outcomes[i], r.Outcome)
		require.False(l.t, r.Unsent)
	}
}

// failed demands the form that all failures have.
func (l *lab) failed(replies []node.Reply, reason error, unsent bool, kinds ...node.Kind) {
	l.t.Helper()
	require.Len(l.t, replies, len(kinds))
	for i, r := range replies {
		require.Equal(l.t, node.Reply{Err: &node.Error{Node: "n1", Op: kinds[i], Reason: reason}, Unsent: unsent}, r)
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
func op(kind node.Kind, name string) node.Op {
	o := node.Op{Kind: kind, Names: []string{name}, Owner: name, TTL: 10 * time.Second, Limits: labLimits}
	o.Token = uint64(time.Now().UnixMicro())
	return o
}

func acquireOp(name string) node.Op { return op(node.Acquire, name) }
func renewOp(name string) node.Op   { return op(node.Renew, name) }
func releaseOp(name string) node.Op { return op(node.Release, name) }

func TestWrapPassesThrough(t *testing.T) {
	l := newLab(t)
	require.Equal(t, "n1", l.Name())
	require.Equal(t, l.memory.Identity(), l.Identity())
	l.answered(l.do(acquireOp("a"), releaseOp("a")), node.Granted, node.Released)
	require.NoError(t, l.Probe(t.Context()))
	require.Equal(t, 1, l.log.probes)
	require.Equal(t, 2, l.Calls())

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	rule := l.Add(faultinject.Rule{Do: faultinject.FailAfter(node.ErrUnreachable)})
	l.failed(l.doWith(ended, acquireOp("a")), node.ErrCanceled, true, node.Acquire)
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
	l.failed(l.do(acquireOp("a")), node.ErrClosed, true, node.Acquire)
	require.Equal(t, 2, l.Calls(), "what is not sent is no call")
	require.Zero(t, rule.Hits())
}

// Each rule is around the rules that were added later.
func TestRulesAreLayers(t *testing.T) {
	l := newLab(t)
	first := l.Add(faultinject.Rule{Times: 1, Do: faultinject.FailBefore(node.ErrUnreachable)})
	second := l.Add(faultinject.Rule{Times: 1, Do: faultinject.FailAfter(node.ErrUnreachable)})
	doubled := l.Add(faultinject.Rule{Do: faultinject.Duplicate()})
	inner := l.Add(faultinject.Rule{})

	l.failed(l.do(acquireOp("a")), node.ErrUnreachable, true, node.Acquire)
	require.Equal(t, []int{1, 0, 0, 0}, []int{first.Hits(), second.Hits(), doubled.Hits(), inner.Hits()})
	l.failed(l.do(acquireOp("a")), node.ErrUnreachable, false, node.Acquire)
	require.Equal(t, []int{1, 1, 1, 2}, []int{first.Hits(), second.Hits(), doubled.Hits(), inner.Hits()})
	require.Equal(t, []string{"acquire a", "acquire a"}, l.ran())

	doubled.Remove()
	doubled.Remove()
	l.answered(l.do(releaseOp("a")), node.Released)
	require.Equal(t, 1, doubled.Hits())
	require.Equal(t, 3, inner.Hits())
	l.Heal()
	l.answered(l.do(releaseOp("a")), node.Absent)
	require.Equal(t, 3, inner.Hits())
}

func TestSkipAndTimes(t *testing.T) {
	rule := faultinject.Rule{When: faultinject.Kind(node.Renew), Skip: 2, Times: 2, Do: faultinject.FailBefore(node.ErrUnreachable)}
	l := newLab(t, rule)
	var failed []int
	for i := range 6 {
		l.answered(l.do(acquireOp("a")), node.Granted)
		if l.do(renewOp("a"))[0].Err != nil {
			failed = append(failed, i)
		}
	}
	require.Equal(t, []int{2, 3}, failed)

	other := newLab(t, rule)
	other.answered(other.do(renewOp("a")), node.Healed)
	other.answered(other.do(renewOp("a")), node.Granted)
	other.failed(other.do(renewOp("a")), node.ErrUnreachable, true, node.Renew)
}

// fates is which of the calls of a node with this name fail by chance.
func fates(t *testing.T, seed uint64, name string, chance float64, before ...faultinject.Rule) string {
	t.Helper()
	n := faultinject.Wrap(memory.New(name, nil), faultinject.Seed(seed))
	defer func() { require.NoError(t, n.Close()) }()
	for _, r := range before {
		n.Add(r)
	}
	rule := n.Add(faultinject.Rule{Chance: chance, Do: faultinject.FailBefore(node.ErrUnreachable)})
	fate := ""
	all := slices.Repeat([]node.Op{{Kind: node.Inspect, Names: []string{"a"}}}, 3)
	for range 64 {
		hits := rule.Hits()
		n.Do(t.Context(), all, make([]node.Reply, len(all)))
		fate += strconv.Itoa(rule.Hits() - hits)
	}
	return fate
}

func TestChanceIsSeeded(t *testing.T) {
	fate := fates(t, 7, "n1", 0.5)
	require.Equal(t, fate, fates(t, 7, "n1", 0.5))
	require.NotEqual(t, fate, fates(t, 8, "n1", 0.5), "another seed")
	require.NotEqual(t, fate, fates(t, 7, "n2", 0.5), "another node")
	require.NotEqual(t, fate, fates(t, 7, "n1", 0.5, faultinject.Rule{}), "another rule")
	require.NotContains(t, fates(t, 7, "n1", 1), "0")
	require.InDelta(t, 32, strings.Count(fate, "1"), 16)
}

// One after the other adds a rule to calls that are under way: they go on as they began.
func TestRulesChangeMeanwhile(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Add(faultinject.Rule{Times: 1, Do: faultinject.Delay(200*time.Millisecond, 0)})
		removed := l.Add(faultinject.Rule{Do: faultinject.FailBefore(node.ErrUnreachable)})
		time.AfterFunc(100*time.Millisecond, func() {
			removed.Remove()
			l.Add(faultinject.Rule{Do: faultinject.FailAfter(node.ErrUnreachable)})
		})
		l.answered(l.do(acquireOp("a")), node.Granted)
		require.Zero(t, removed.Hits())
		l.failed(l.do(acquireOp("a")), node.ErrUnreachable, false, node.Acquire)
	})
}

func TestWrapRefusesNil(t *testing.T) {
	require.PanicsWithValue(t, "faultinject: Wrap of a nil node", func() { faultinject.Wrap(nil) })
}

package dispatch

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// A node may be up again before its sender has told all calls that it was down. The news come in order all the same:
// otherwise the last that is heard of a working node is that it is down.
func TestNewsOfANodeComeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, nd, a := &events{}, &scripted{}, &answers{}
		n := newNodes(e, nd)
		defer n.Close()
		gate, slow := make(chan struct{}), dawdling{make(chan struct{})}
		nd.set(gate, node.ErrUnreachable)
		require.NoError(t, n.Submit(0, ask(a, "sent")))
		synctest.Wait()
		queued := ask(a, "queued")
		queued.To = slow
		require.NoError(t, n.Submit(0, queued))
		nd.set(nil, nil)
		close(gate)
		<-slow.told // the node has failed, and its sender tells the calls that waited
		again := ask(a, "again")
		again.Urgent = true
		require.NoError(t, n.Submit(0, again))
		synctest.Wait()
		require.Equal(t, wire.Granted, a.of(t, "again").Outcome)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		down := &node.Error{Node: "scripted", Op: wire.Acquire.String(), Reason: node.ErrUnreachable}
		require.Equal(t, []string{"down scripted: " + down.Error(), "up scripted"}, e.news)
	})
}

// undoing is a receiver that takes its time, and then undoes the call.
type undoing struct {
	s *sender
	a *answers
}

func (u undoing) Answer(c *Call, _ *wire.Reply) {
	time.Sleep(time.Second)
	_ = u.s.submit(undoFor(u.s, u.a, c.Op.Owner, time.Minute))
}

// Close waits until the receivers of overdue calls are told, and counts the undos that they submit.
func TestCloseWaitsForTheReceiversOfOverdueCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nd, gate := &scripted{}, make(chan struct{})
		n := newNodes(&events{}, nd)
		nd.set(gate, nil)
		c := ask(&answers{}, "x")
		c.To = undoing{n.senders[0], &answers{}}
		require.NoError(t, n.Submit(0, c))
		time.Sleep(timeoutMax)
		synctest.Wait() // the receiver is told
		nd.set(nil, nil)
		close(gate)
		synctest.Wait()
		require.Equal(t, []int{1}, n.Close())
	})
}

// twin is a node whose server has another node too.
type twin struct{ scripted }

func (*twin) Server() (identity, process string) { return "one server", "" }

func (w *twin) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	w.scripted.Do(ctx, ops, replies)
	for i := range ops {
		switch ops[i].Kind {
		case wire.Leave, wire.Shorten:
			replies[i] = wire.Reply{Outcome: wire.Released}
		case wire.Latch:
			replies[i] = wire.Reply{Outcome: wire.Granted, Latch: &wire.LatchState{}}
		}
	}
}

// A second node of one server has no vote. But an undo that the server has carried out is confirmed.
func TestUndoOnATwinIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a := &twin{}, &twin{}, &answers{}
		n := newNodes(&events{}, first, second)
		defer n.Close()
		for i, owner := range []string{"first", "second"} {
			require.NoError(t, n.Submit(i, ask(a, owner)))
			synctest.Wait()
		}
		require.NoError(t, a.of(t, "first").Err)
		require.ErrorIs(t, a.of(t, "second").Err, node.ErrSameServer)
		n.Leave(1, []string{"a"}, "client:1", wire.Pool{}, time.Minute)
		for _, kind := range []wire.Kind{wire.Release, wire.Shorten, wire.Latch} {
			require.NoError(t, n.Submit(1, &Call{Op: &wire.Op{Kind: kind}, To: Ignore, Until: n.env.Clock.Now() + time.Minute}))
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		var undone []wire.Kind
		for _, batch := range second.batches[1:] {
			for _, op := range batch {
				undone = append(undone, op.Kind)
			}
		}
		require.Equal(t, []wire.Kind{wire.Leave, wire.Release, wire.Shorten, wire.Latch}, undone)
		forced := ask(a, "forced")
		forced.Op = &wire.Op{Kind: wire.ForceRelease, Owner: "forced"}
		require.NoError(t, n.Submit(1, forced))
		synctest.Wait()
		require.NoError(t, a.of(t, "forced").Err, "a forced release is done as well")
	})
}

// moving is the node of an address at which one server answers after the other.
type moving struct {
	scripted
	identity   atomic.Value
	process    string
	recovering time.Duration
}

func (m *moving) Server() (identity, process string) { return m.identity.Load().(string), m.process }

func (m *moving) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	m.scripted.Do(ctx, ops, replies)
	for i := range ops {
		replies[i].Recovering = m.recovering
		switch ops[i].Kind {
		case wire.Renew:
			replies[i].Outcome = wire.Healed
		case wire.Mark:
			replies[i] = wire.Reply{Outcome: wire.Inspected, Marker: &wire.Marker{Left: m.recovering}}
		}
	}
}

// onTwo runs a test on two addresses that lead to servers with these identities. vote asks one of them.
func onTwo(t *testing.T, one, two string, f func(first, second *moving, vote func(i int, owner string) error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		first, second, a := &moving{}, &moving{}, &answers{}
		first.identity.Store(one)
		second.identity.Store(two)
		n := newNodes(&events{}, first, second)
		defer n.Close()
		f(first, second, func(i int, owner string) error {
			require.NoError(t, n.Submit(i, ask(a, owner)))
			synctest.Wait()
			return a.of(t, owner).Err
		})
	})
}

// If two addresses swap their servers, each soon has the vote of the server that it leads to.
func TestNodesThatSwapTheirServersVoteAgain(t *testing.T) {
	onTwo(t, "x", "y", func(first, second *moving, vote func(i int, owner string) error) {
		require.NoError(t, vote(0, "first"))
		require.NoError(t, vote(1, "second"))
		first.identity.Store("y")
		second.identity.Store("x")
		require.ErrorIs(t, vote(0, "too early"), node.ErrSameServer)
		require.NoError(t, vote(1, "swapped"))
		require.NoError(t, vote(0, "swapped too"))
	})
}

// A node gets the vote of its server once the other address of that server leads elsewhere.
func TestTwinVotesOnceTheOtherHasMoved(t *testing.T) {
	onTwo(t, "x", "x", func(first, _ *moving, vote func(i int, owner string) error) {
		require.NoError(t, vote(0, "first"))
		require.ErrorIs(t, vote(1, "second"), node.ErrSameServer)
		first.identity.Store("y")
		require.ErrorIs(t, vote(1, "too early"), node.ErrSameServer)
		require.NoError(t, vote(0, "moved"))
		require.NoError(t, vote(1, "alone"))
	})
}

// eachInOrder runs tests in which an acquisition, a question for the marker and a heal come one after the other: each is the
// first in one of them.
func eachInOrder(t *testing.T, test func(t *testing.T, kinds []wire.Kind)) {
	for _, kinds := range [][]wire.Kind{{wire.Acquire, wire.Mark, wire.Renew}, {wire.Mark, wire.Acquire}, {wire.Renew, wire.Acquire}} {
		synctest.Test(t, func(t *testing.T) { test(t, kinds) })
	}
}

// A server that has not lost its memory, but comes to an address where another one has answered, may not know of what that
// one has granted. Its grants count as those of a server that recovers, and it is not ready for more.
func TestAddressMovesToAnotherServer(t *testing.T) {
	const recovery = 11 * time.Second
	type step struct {
		after      time.Duration
		identity   string
		recovering time.Duration
		want       time.Duration
		process    string
	}
	var many []step
	for i := range mostFormer + 2 {
		many = append(many, step{time.Hour, fmt.Sprint(i), 0, 0, ""})
	}
	for name, steps := range map[string][]step{
		"back to the last but one of many": append(many, step{time.Hour, fmt.Sprint(mostFormer), 0, recovery, ""}),
		"and back": {
			{0, "x", 0, 0, ""},
			{time.Hour, "y", 0, 0, ""},
			{time.Hour, "x", 0, recovery, ""},
			{time.Second, "x", 0, recovery - time.Second, ""},
			{recovery, "x", 0, 0, ""},
			{time.Minute, "y", 0, recovery, ""},
		},
		"a moment after the first one answered": {
			{0, "x", 0, 0, ""}, {recovery / 2, "y", 0, recovery, ""}, {recovery, "y", 0, 0, ""},
		},
		"a restart":         {{0, "x", 0, 0, ""}, {time.Second, "y", recovery, recovery, ""}, {recovery, "y", 0, 0, ""}},
		"a restart, unseen": {{0, "x", 0, 0, ""}, {time.Second + recovery, "y", 0, 0, ""}},
		"nothing":           {{0, "x", 0, 0, ""}, {time.Second, "x", 0, 0, ""}},
		"a first replica, of which the client learns later": {
			{0, "x", 0, 0, "1"}, {time.Second, "x", recovery, recovery, "1"}, {recovery, "x", 0, 0, "1"}, {time.Second, "y", 0, 0, "1"},
		},
		"another process": {{0, "x", 0, 0, "1"}, {time.Second, "y", 0, recovery, "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			eachInOrder(t, func(t *testing.T, kinds []wire.Kind) {
				nd, a := &moving{}, &answers{}
				nd.identity.Store("")
				n := newNodes(&events{}, nd)
				defer n.Close()
				for i, s := range steps {
					time.Sleep(s.after)
					nd.identity.Store(s.identity)
					nd.process, nd.recovering = s.process, s.recovering
					owner := fmt.Sprint(i)
					for _, kind := range kinds {
						require.NoError(t, n.Submit(0, &Call{Op: &wire.Op{Kind: kind, Names: []string{"a"}, Owner: owner + kind.String()}, To: a}))
						synctest.Wait()
						r := a.of(t, owner+kind.String())
						if kind == wire.Mark {
							r.Recovering = r.Marker.Left
						}
						require.Equal(t, s.want, r.Recovering, "%s in step %d", kind, i+1)
					}
				}
			})
		})
	}
}

// A node that is only late still has the client's list, until that runs out.
func TestListOfALateNodeRunsOut(t *testing.T) {
	n := listing{knows: true, until: time.Minute}
	n.settle(&lists{}, true, time.Minute-1)
	require.True(t, n.knows)
	n.settle(&lists{}, true, time.Minute)
	require.False(t, n.knows)
}

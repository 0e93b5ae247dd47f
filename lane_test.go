package quorumlock

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/node"
)

// scripted is a node whose answers a test decides. It records every batch.
type scripted struct {
	mu      sync.Mutex
	batches [][]node.Op
	probes  int
	// gate, if set, holds every exchange until it is closed.
	gate chan struct{}
	// err, if set, fails every exchange and probe.
	err error
}

func (s *scripted) Name() string { return "scripted" }

func (s *scripted) Identity() string { return "" }
func (s *scripted) Close() error     { return nil }

func (s *scripted) Do(_ context.Context, ops []node.Op, replies []node.Reply) {
	s.mu.Lock()
	s.batches = append(s.batches, append([]node.Op(nil), ops...))
	gate, err := s.gate, s.err
	s.mu.Unlock()
	if gate != nil {
		<-gate
	}
	for i := range ops {
		replies[i] = node.Reply{Outcome: node.Granted}
		if ops[i].Kind == node.Release {
			replies[i] = node.Reply{Outcome: node.Released}
		}
		if err != nil {
			replies[i] = node.Reply{Err: &node.Error{Node: "scripted", Op: ops[i].Kind, Reason: err}}
		}
	}
}

func (s *scripted) Probe(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probes++
	return s.err
}

// set changes how the node behaves from now on.
func (s *scripted) set(gate chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate, s.err = gate, err
}

// owners lists the owners of all batches, in the order sent.
func (s *scripted) owners() (sent [][]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, batch := range s.batches {
		var owners []string
		for _, op := range batch {
			owners = append(owners, op.Owner)
		}
		sent = append(sent, owners)
	}
	return sent
}

// answers is a sink that remembers what it was told.
type answers struct {
	mu   sync.Mutex
	told map[string][]node.Reply
}

func (a *answers) answer(c *call, r *node.Reply) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.told == nil {
		a.told = make(map[string][]node.Reply)
	}
	a.told[c.op.Owner] = append(a.told[c.op.Owner], *r)
}

// of is the one answer for an owner.
func (a *answers) of(t *testing.T, owner string) node.Reply {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	require.Len(t, a.told[owner], 1, "every call is answered exactly once: %s", owner)
	return a.told[owner][0]
}

// inLane runs a test on the lane of one scripted node, in virtual time.
func inLane(t *testing.T, test func(t *testing.T, l *lane, nd *scripted, a *answers)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		nd := &scripted{}
		c, err := New(Config{Nodes: []node.Node{nd}, Clock: clock.Process()})
		require.NoError(t, err)
		test(t, c.lanes[0], nd, &answers{})
		nd.set(nil, nil)
		require.NoError(t, c.Close(context.WithoutCancel(t.Context())))
	})
}

func ask(a *answers, owner string) *call {
	return &call{op: &node.Op{Kind: node.Acquire, Owner: owner}, sink: a}
}

func undoFor(l *lane, a *answers, owner string, d time.Duration) *call {
	return &call{op: &node.Op{Kind: node.Release, Owner: owner}, sink: a, until: l.client.clock.Now() + d}
}

func TestLaneGathersWhileItSends(t *testing.T) {
	inLane(t, func(t *testing.T, l *lane, nd *scripted, a *answers) {
		gate := make(chan struct{})
		nd.set(gate, nil)
		for i := range maxBatch + 3 {
			require.NoError(t, l.submit(ask(a, fmt.Sprint(i))))
			synctest.Wait()
		}
		require.Len(t, nd.owners(), 1, "one exchange at a time")
		require.Equal(t, []string{"0"}, nd.owners()[0], "an idle node is sent to at once")
		close(gate)
		nd.set(nil, nil)
		synctest.Wait()
		sent := nd.owners()
		require.Len(t, sent, 3)
		require.Len(t, sent[1], maxBatch)
		require.Equal(t, []string{fmt.Sprint(maxBatch + 1), fmt.Sprint(maxBatch + 2)}, sent[2], "in order")
		require.Equal(t, node.Granted, a.of(t, fmt.Sprint(maxBatch+2)).Outcome)
	})
}

func TestLaneTellsWhoWaitsTooLong(t *testing.T) {
	inLane(t, func(t *testing.T, l *lane, nd *scripted, a *answers) {
		gate := make(chan struct{})
		nd.set(gate, nil)
		require.NoError(t, l.submit(ask(a, "sent")))
		synctest.Wait()
		require.NoError(t, l.submit(ask(a, "queued")))
		require.NoError(t, l.submit(undoFor(l, a, "undo", time.Minute)))
		began := l.client.clock.Now()
		time.Sleep(l.client.cfg.NodeTimeoutMax)
		synctest.Wait()
		require.Equal(t, l.client.cfg.NodeTimeoutMax, l.client.clock.Now()-began)

		require.ErrorIs(t, a.of(t, "sent").Err, node.ErrTimeout)
		require.False(t, a.of(t, "sent").Unsent, "it may have happened")
		require.ErrorIs(t, a.of(t, "queued").Err, node.ErrDown)
		require.True(t, a.of(t, "queued").Unsent, "it cannot have happened")
		require.ErrorIs(t, a.of(t, "undo").Err, node.ErrDown)

		// Nothing new is risked on it, but undos are taken.
		require.ErrorIs(t, l.submit(ask(a, "refused")), node.ErrDown)
		require.ErrorIs(t, l.submit(undoFor(l, a, "undo2", time.Minute)), node.ErrDown)
		require.Len(t, nd.owners(), 1)

		close(gate)
		nd.set(nil, nil)
		time.Sleep(time.Second)
		synctest.Wait()
		var sent []string
		for _, batch := range nd.owners() {
			sent = append(sent, batch...)
		}
		require.Equal(t, []string{"sent", "undo", "undo2"}, sent, "undos are sent once it answers, the rest never")
		a.of(t, "sent") // the late answer is not told again
		a.of(t, "undo")
		require.Empty(t, a.told["undo2"], "who submitted it was told by submit")
	})
}

func TestLaneProbesANodeThatFailed(t *testing.T) {
	inLane(t, func(t *testing.T, l *lane, nd *scripted, a *answers) {
		nd.set(nil, node.ErrUnreachable)
		require.NoError(t, l.submit(ask(a, "first")))
		synctest.Wait()
		require.ErrorIs(t, a.of(t, "first").Err, node.ErrUnreachable)

		// For a minute of steady demand it is probed, less and less often, and never
		// asked to do anything.
		for i := range 6000 {
			owner := fmt.Sprint(i)
			if err := l.submit(ask(a, owner)); err == nil {
				synctest.Wait()
				require.True(t, a.of(t, owner).Unsent)
			} else {
				require.ErrorIs(t, err, node.ErrUnreachable, "it says why")
			}
			time.Sleep(10 * time.Millisecond)
		}
		require.Len(t, nd.owners(), 1)
		require.Greater(t, nd.probes, 100)
		require.Less(t, nd.probes, 300, "about two or three a second")

		nd.set(nil, nil)
		time.Sleep(probePauseMax)
		require.NoError(t, l.submit(ask(a, "back")))
		synctest.Wait()
		require.Equal(t, node.Granted, a.of(t, "back").Outcome)
	})
}

func TestLaneKeepsUndosUntilTheyAreMoot(t *testing.T) {
	inLane(t, func(t *testing.T, l *lane, nd *scripted, a *answers) {
		nd.set(nil, node.ErrUnreachable)
		require.NoError(t, l.submit(undoFor(l, a, "short", 5*time.Second)))
		synctest.Wait()
		require.ErrorIs(t, a.of(t, "short").Err, node.ErrUnreachable)
		require.Error(t, l.submit(undoFor(l, a, "long", time.Minute)))
		time.Sleep(30 * time.Second)
		nd.set(nil, nil)
		time.Sleep(2 * probePauseMax)
		synctest.Wait()
		sent := nd.owners()
		require.Equal(t, []string{"long"}, sent[len(sent)-1], "the other's keys have run out")
		time.Sleep(time.Minute)
		require.Len(t, nd.owners(), len(sent), "once confirmed, it is not repeated")
	})
}

func TestLaneRetriesAnUndoThatWasRejected(t *testing.T) {
	inLane(t, func(t *testing.T, l *lane, nd *scripted, a *answers) {
		nd.set(nil, node.ErrRejected) // such as a server that is loading
		require.NoError(t, l.submit(undoFor(l, a, "undo", time.Minute)))
		time.Sleep(10*time.Second - time.Millisecond)
		synctest.Wait()
		require.Len(t, nd.owners(), 20, "at a steady pace")
		require.Zero(t, nd.probes, "it does answer")
		nd.set(nil, nil)
		time.Sleep(probePauseMax)
		synctest.Wait()
		require.Len(t, nd.owners(), 21)
		time.Sleep(time.Minute)
		require.Len(t, nd.owners(), 21)
	})
}

func TestLaneDoesNotFloodANodeThatRejects(t *testing.T) {
	inLane(t, func(t *testing.T, l *lane, nd *scripted, a *answers) {
		nd.set(nil, node.ErrRejected)
		for i := range 6000 { // a hundred a second, for a minute
			require.NoError(t, l.submit(undoFor(l, a, fmt.Sprint(i), time.Hour)))
			time.Sleep(10 * time.Millisecond)
		}
		synctest.Wait()
		sent := 0
		for _, batch := range nd.owners() {
			sent += len(batch)
		}
		require.Greater(t, sent, 6000+100, "it is tried every half second all the same")
		require.Less(t, sent, 6000+130)

		nd.set(nil, nil)
		time.Sleep(probePauseMax)
		synctest.Wait()
		require.Empty(t, l.kept, "the first that succeeds brings the rest with it")
	})
}

func TestLaneBoundsWhatWaits(t *testing.T) {
	inLane(t, func(t *testing.T, l *lane, nd *scripted, a *answers) {
		gate := make(chan struct{})
		nd.set(gate, nil)
		require.NoError(t, l.submit(ask(a, "sent")))
		synctest.Wait()
		for i := range maxQueue {
			require.NoError(t, l.submit(ask(a, fmt.Sprint(i))))
		}
		require.ErrorIs(t, l.submit(ask(a, "more")), node.ErrBusy)
		require.NoError(t, l.submit(undoFor(l, a, "undo", time.Minute)), "undos always fit")
		close(gate)
	})
}

func TestLaneTimeoutFollowsTheNode(t *testing.T) {
	h := newHealth(10*time.Millisecond, time.Second)
	require.Equal(t, time.Second, h.timeout, "nothing is known: the most")
	for range 50 {
		h.answered(time.Millisecond)
	}
	require.Equal(t, 10*time.Millisecond, h.timeout, "never below the least")
	for range 50 {
		h.answered(40 * time.Millisecond)
	}
	require.Greater(t, h.timeout, 80*time.Millisecond, "a slow node gets more")
	require.Less(t, h.timeout, 200*time.Millisecond)
	before := h.timeout
	h.late()
	require.Equal(t, 2*before, h.timeout)
	for range 10 {
		h.late()
	}
	require.Equal(t, time.Second, h.timeout, "never above the most")
}

func TestLaneReportsANodeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var news []string
		nd := &scripted{}
		c, err := New(Config{Nodes: []node.Node{nd}, Clock: clock.Process(), Hooks: Hooks{
			NodeDown: func(name string, err error) {
				news = append(news, "down "+name)
				require.ErrorIs(t, err, node.ErrUnreachable)
			},
			NodeUp: func(name string) { news = append(news, "up "+name) },
		}})
		require.NoError(t, err)
		nd.set(nil, node.ErrUnreachable)
		for range 10 {
			_, err := c.RedLock("job").TryAcquire(t.Context())
			require.Error(t, err)
			time.Sleep(time.Second)
		}
		nd.set(nil, nil)
		time.Sleep(probePauseMax)
		_, err = c.RedLock("job").TryAcquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, c.Close(t.Context())) // which waits for the hooks
		require.Equal(t, []string{"down scripted", "up scripted"}, news)
	})
}

func TestFailureOfABatch(t *testing.T) {
	says := func(reason error, unsent bool) node.Reply {
		return node.Reply{Err: &node.Error{Reason: reason}, Unsent: unsent}
	}
	for _, reason := range []error{node.ErrTimeout, node.ErrUnreachable, node.ErrProtocol, node.ErrClosed} {
		require.ErrorIs(t, failureOf([]node.Reply{says(reason, false), says(reason, false)}), reason)
		require.NoError(t, failureOf([]node.Reply{says(reason, false), {Outcome: node.Denied}}))
	}
	for _, reason := range []error{node.ErrRejected, node.ErrWrongType, node.ErrAuth} {
		require.NoError(t, failureOf([]node.Reply{says(reason, false)}), "it answers")
	}
	require.ErrorIs(t, failureOf([]node.Reply{says(node.ErrAuth, true)}), node.ErrAuth, "it lets nobody in")
	require.True(t, undoFailed(&node.Reply{}), "no answer is no confirmation")
}

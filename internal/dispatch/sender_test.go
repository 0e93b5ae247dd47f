package dispatch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// scripted is a node whose answers a test decides. It records every batch.
type scripted struct {
	node.Node
	mu      sync.Mutex
	batches [][]wire.Op
	probes  int
	// gate, if set, holds every exchange until it is closed.
	gate chan struct{}
	// err, if set, fails every exchange and probe.
	err error
}

func (s *scripted) Name() string { return "scripted" }

func (s *scripted) Server() (identity, process string) { return "", "" }
func (s *scripted) RoundTrip() time.Duration           { return 0 }
func (s *scripted) Eviction() string                   { return "" }
func (s *scripted) Unseen() string                     { return "" }
func (s *scripted) Close() error                       { return nil }

func (s *scripted) Do(_ context.Context, ops []wire.Op, replies []wire.Reply) {
	s.mu.Lock()
	s.batches = append(s.batches, append([]wire.Op(nil), ops...))
	gate, err := s.gate, s.err
	s.mu.Unlock()
	if gate != nil {
		<-gate
	}
	for i := range ops {
		replies[i] = wire.Reply{Outcome: wire.Granted}
		if ops[i].Kind == wire.Release {
			replies[i] = wire.Reply{Outcome: wire.Released}
		}
		if err != nil {
			replies[i] = wire.Reply{Err: &node.Error{Node: "scripted", Op: ops[i].Kind.String(), Reason: err}}
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

// answers is a receiver that keeps the answers.
type answers struct {
	mu   sync.Mutex
	told map[string][]wire.Reply
}

func (a *answers) Answer(c *Call, r *wire.Reply) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.told == nil {
		a.told = make(map[string][]wire.Reply)
	}
	a.told[c.Op.Owner] = append(a.told[c.Op.Owner], *r)
}

// of is the one answer for an owner.
func (a *answers) of(t *testing.T, owner string) wire.Reply {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	require.Len(t, a.told[owner], 1, "every call is answered exactly once: %s", owner)
	return a.told[owner][0]
}

// The timeouts of the senders in these tests.
const (
	timeoutMin = 250 * time.Millisecond
	timeoutMax = 500 * time.Millisecond
)

// events records which nodes went down and came up.
type events struct {
	mu   sync.Mutex
	news []string
}

func (e *events) add(news string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.news = append(e.news, news)
}

func (e *events) NodeDown(name string, err error) { e.add("down " + name + ": " + err.Error()) }
func (e *events) NodeUp(name string)              { e.add("up " + name) }

func (e *events) NodeRecovering(string, time.Time, time.Time, bool) {}
func (e *events) NodeRecovered(string)                              {}
func (e *events) NodeRefuses(string, error)                         {}
func (e *events) NodeServes(string)                                 {}
func (e *events) MayEvict(name, settings string)                    { e.add("evicts " + name + ": " + settings) }

func (e *events) LossesUnseen(name, reason string) { e.add("unseen " + name + ": " + reason) }
func (e *events) SameServer(string, string)        {}
func (e *events) CapacityFreed()                   {}

// newNodes returns senders that report to events.
func newNodes(e *events, nodes ...node.Node) *Nodes {
	return New(nodes, Env{
		Clock:          clock.Process(),
		TimeoutMin:     timeoutMin,
		TimeoutMax:     timeoutMax,
		ConnectTimeout: time.Second,
		Jitter:         rand.Float64,
		Recovery:       11 * time.Second,
		Events:         e,
	})
}

// inSender runs a test on the sender of one scripted node, in virtual time.
func inSender(t *testing.T, test func(t *testing.T, s *sender, nd *scripted, a *answers)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		nd := &scripted{}
		n := newNodes(&events{}, nd)
		test(t, n.senders[0], nd, &answers{})
		nd.set(nil, nil)
		n.Close()
	})
}

func ask(a *answers, owner string) *Call {
	return &Call{Op: &wire.Op{Kind: wire.Acquire, Owner: owner}, To: a}
}

func undoFor(s *sender, a *answers, owner string, d time.Duration) *Call {
	return &Call{Op: &wire.Op{Kind: wire.Release, Owner: owner}, To: a, Until: s.shared.env.Clock.Now() + d}
}

// counted counts the looks at a clock and at a connection.
type counted struct {
	clock.Clock
	scripted
	reads, looks int
}

func (c *counted) Now() time.Duration {
	c.reads++
	return c.Clock.Now()
}

func (c *counted) Connected() bool {
	c.looks++
	return true
}

// A lone caller pays for each look, so a sender that has nothing more to send looks no more.
func TestLooksOfALoneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a := &counted{Clock: clock.Process()}, &answers{}
		n := newNodes(&events{}, c)
		n.env.Clock = c
		require.NoError(t, n.Submit(0, ask(a, "a")))
		synctest.Wait()
		require.NoError(t, a.of(t, "a").Err)
		require.Equal(t, 2, c.reads, "before it was sent, and after the answer")
		require.Equal(t, 1, c.looks)
		n.Close()
	})
}

func TestSenderGathersWhileItSends(t *testing.T) {
	inSender(t, func(t *testing.T, s *sender, nd *scripted, a *answers) {
		gate := make(chan struct{})
		nd.set(gate, nil)
		for i := range maxBatch + 3 {
			require.NoError(t, s.submit(ask(a, fmt.Sprint(i))))
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
		require.Equal(t, wire.Granted, a.of(t, fmt.Sprint(maxBatch+2)).Outcome)
	})
}

func TestSenderAnswersAllCallsAtItsTimeout(t *testing.T) {
	inSender(t, func(t *testing.T, s *sender, nd *scripted, a *answers) {
		gate := make(chan struct{})
		nd.set(gate, nil)
		require.NoError(t, s.submit(ask(a, "sent")))
		synctest.Wait()
		require.NoError(t, s.submit(ask(a, "queued")))
		require.NoError(t, s.submit(undoFor(s, a, "undo", time.Minute)))
		began := s.shared.env.Clock.Now()
		time.Sleep(timeoutMax)
		synctest.Wait()
		require.Equal(t, timeoutMax, s.shared.env.Clock.Now()-began)

		require.ErrorIs(t, a.of(t, "sent").Err, node.ErrTimeout)
		require.False(t, a.of(t, "sent").Unsent, "a call that was sent may have happened")
		require.ErrorIs(t, a.of(t, "queued").Err, node.ErrDown)
		require.True(t, a.of(t, "queued").Unsent, "a queued call cannot have happened")
		require.ErrorIs(t, a.of(t, "undo").Err, node.ErrDown)

		// Nothing new is risked on it, but undos are taken.
		require.ErrorIs(t, s.submit(ask(a, "refused")), node.ErrDown)
		require.ErrorIs(t, s.submit(undoFor(s, a, "undo2", time.Minute)), node.ErrDown)
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

func TestSenderProbesANodeThatFailed(t *testing.T) {
	inSender(t, func(t *testing.T, s *sender, nd *scripted, a *answers) {
		nd.set(nil, node.ErrUnreachable)
		require.NoError(t, s.submit(ask(a, "first")))
		synctest.Wait()
		require.ErrorIs(t, a.of(t, "first").Err, node.ErrUnreachable)

		// For a minute of steady demand it is probed, less and less often, and never
		// asked to do anything.
		for i := range 6000 {
			owner := fmt.Sprint(i)
			if err := s.submit(ask(a, owner)); err == nil {
				synctest.Wait()
				require.True(t, a.of(t, owner).Unsent)
			} else {
				require.ErrorIs(t, err, node.ErrUnreachable, "the error says why")
			}
			time.Sleep(10 * time.Millisecond)
		}
		require.Len(t, nd.owners(), 1)
		require.Greater(t, nd.probes, 100)
		require.Less(t, nd.probes, 300, "about two or three a second")

		nd.set(nil, nil)
		time.Sleep(probePauseMax)
		require.NoError(t, s.submit(ask(a, "back")))
		synctest.Wait()
		require.Equal(t, wire.Granted, a.of(t, "back").Outcome)
	})
}

func TestSenderKeepsUndosUntilTheyAreMoot(t *testing.T) {
	inSender(t, func(t *testing.T, s *sender, nd *scripted, a *answers) {
		nd.set(nil, node.ErrUnreachable)
		require.NoError(t, s.submit(undoFor(s, a, "short", 5*time.Second)))
		synctest.Wait()
		require.ErrorIs(t, a.of(t, "short").Err, node.ErrUnreachable)
		require.Error(t, s.submit(undoFor(s, a, "long", time.Minute)))
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

func TestSenderRetriesAnUndoThatWasRejected(t *testing.T) {
	inSender(t, func(t *testing.T, s *sender, nd *scripted, a *answers) {
		nd.set(nil, node.ErrRejected) // such as a server that is loading
		require.NoError(t, s.submit(undoFor(s, a, "undo", time.Minute)))
		time.Sleep(10*time.Second - time.Millisecond)
		synctest.Wait()
		require.Len(t, nd.owners(), 20, "retries have a steady pace")
		require.Zero(t, nd.probes, "a node that answers is not probed")
		nd.set(nil, nil)
		time.Sleep(probePauseMax)
		synctest.Wait()
		require.Len(t, nd.owners(), 21)
		time.Sleep(time.Minute)
		require.Len(t, nd.owners(), 21)
	})
}

func TestSenderDoesNotFloodANodeThatRejects(t *testing.T) {
	inSender(t, func(t *testing.T, s *sender, nd *scripted, a *answers) {
		nd.set(nil, node.ErrRejected)
		for i := range 6000 { // a hundred a second, for a minute
			require.NoError(t, s.submit(undoFor(s, a, fmt.Sprint(i), time.Hour)))
			time.Sleep(10 * time.Millisecond)
		}
		synctest.Wait()
		sent := 0
		for _, batch := range nd.owners() {
			sent += len(batch)
		}
		require.Greater(t, sent, 6000+100, "a kept undo is retried every half second all the same")
		require.Less(t, sent, 6000+130)

		nd.set(nil, nil)
		time.Sleep(probePauseMax)
		synctest.Wait()
		require.Empty(t, s.kept, "the first undo that succeeds brings the rest with it")
	})
}

func TestSenderBoundsItsQueue(t *testing.T) {
	inSender(t, func(t *testing.T, s *sender, nd *scripted, a *answers) {
		gate := make(chan struct{})
		nd.set(gate, nil)
		require.NoError(t, s.submit(ask(a, "sent")))
		synctest.Wait()
		for i := range maxQueue {
			require.NoError(t, s.submit(ask(a, fmt.Sprint(i))))
		}
		require.ErrorIs(t, s.submit(ask(a, "more")), node.ErrBusy)
		require.NoError(t, s.submit(undoFor(s, a, "undo", time.Minute)), "undos always fit")
		close(gate)
	})
}

func TestSenderTimeoutFollowsTheNode(t *testing.T) {
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

func TestFailureOfABatch(t *testing.T) {
	says := func(reason error, unsent bool) wire.Reply {
		return wire.Reply{Err: &node.Error{Reason: reason}, Unsent: unsent}
	}
	for _, reason := range []error{node.ErrTimeout, node.ErrUnreachable, node.ErrProtocol, node.ErrClosed} {
		require.ErrorIs(t, failureOf([]wire.Reply{says(reason, false), says(reason, false)}), reason)
		require.NoError(t, failureOf([]wire.Reply{says(reason, false), {Outcome: wire.Denied}}))
	}
	for _, reason := range []error{node.ErrRejected, node.ErrWrongType, node.ErrAuth} {
		require.NoError(t, failureOf([]wire.Reply{says(reason, false)}), "a node that rejects an operation does answer")
	}
	require.ErrorIs(t, failureOf([]wire.Reply{says(node.ErrAuth, true)}), node.ErrAuth, "a node that admits no client has failed")
	require.True(t, UndoFailed(&wire.Reply{}), "no answer is no confirmation")
}

package lease

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

func TestClaimsAndRefusals(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *client) {
		g := c.grant()
		g.recordReply(wire.Renew, 0, 5*time.Second, testTTL, granted())
		late := g.claims.Expiry(0)
		g.recordReply(wire.Renew, 0, time.Second, testTTL, granted())
		require.Equal(t, late, g.claims.Expiry(0), "an older answer takes nothing away")
		g.recordReply(wire.Renew, 0, 0, testTTL, failed())
		require.Len(t, g.nodeErrors(), 1)
		g.recordReply(wire.Renew, 0, 6*time.Second, testTTL, granted())
		require.Empty(t, g.nodeErrors(), "a confirmation clears what was said before")
	})
}

func TestNothingCountsPastTheEnd(t *testing.T) {
	inside(t, 1, func(t *testing.T, c *client) {
		l := c.acquire(t, c.fixed())
		c.asleep(true)
		g, a := l.grant, &attempt{grant: l.grant}
		a.proposal = decision.NewProposal(1, 1, false, l.token, l.token)
		time.Sleep(testTTL)
		now := c.engine.Clock.Now()
		// These are a straggler of the acquisition, and an answer to a renewal.
		a.Answer(answered(0, now), granted())
		require.ErrorIs(t, l.Err(), ErrLost)
		done := make(chan error, 1)
		r := &renewalRound{grant: g, sentAt: now, tally: decision.NewTally(1, 1), done: done}
		r.Answer(answered(0, now), granted())
		require.Empty(t, done, "an extension has not succeeded")
		require.ErrorIs(t, l.Err(), ErrLost)
		// No request is sent, and no lease nests.
		require.ErrorIs(t, l.Extend(done), ErrLost)
		require.False(t, g.RenewOn(0), "a renewal was sent past the end")
		time.Sleep(time.Millisecond) // The node keeps a key until its last millisecond is over.
		require.Zero(t, c.keys())
		ok, _ := l.AddHandle(false)
		require.False(t, ok)
		require.ErrorIs(t, release(l), ErrLost, "its time was over before")
		c.asleep(false)
	})
}

func TestQuorumAfterTheTTLIsNoLease(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *client) {
		a := c.attempt()
		a.countVote(0, 0, a.proposal.Token, granted())
		a.countVote(1, 0, a.proposal.Token, granted())
		time.Sleep(testTTL + time.Second)
		require.False(t, a.becomeHeld())
		_, err := a.lossError()
		var short *shortageError
		require.ErrorAs(t, err, &short)
		require.True(t, short.Late)
	})
}

func TestVerdictNeedsAnswersToBeHeld(t *testing.T) {
	inside(t, 5, func(t *testing.T, c *client) {
		a := c.attempt()
		a.countVote(0, 0, a.proposal.Token, denied())
		for i := 1; i < 4; i++ {
			a.countVote(i, 0, a.proposal.Token, failed())
		}
		_, err := a.lossError()
		var short *shortageError
		require.ErrorAs(t, err, &short)
		require.NotErrorIs(t, err, ErrHeld)
	})
}

func TestFailedRenewalIsRetried(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *client) {
		l := c.acquire(t, c.majority("job"))
		for range 20 {
			time.Sleep(2900 * time.Millisecond)
			c.nodes[0].Stop()
			c.nodes[1].Stop()
			time.Sleep(1500 * time.Millisecond) // Meanwhile the renewal fails.
			c.nodes[0].Start()
			c.nodes[1].Start()
			time.Sleep(2 * time.Second)
			require.NoError(t, l.Err())
			l.grant.mu.Lock()
			failures := l.grant.failedRenewals
			l.grant.mu.Unlock()
			require.Zero(t, failures)
		}
	})
}

func TestLateAnswerDoesNotRescheduleEndedLease(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *client) {
		for i := range 10 {
			l := c.acquire(t, c.majority(fmt.Sprint(i)))
			for _, nd := range c.nodes {
				nd.Pause()
			}
			go func() { _ = extend(context.Background(), l) }()
			synctest.Wait()
			go func() { _ = release(l) }()
			synctest.Wait()
			for _, nd := range c.nodes {
				nd.Resume() // The answers to the renewal arrive after the end of the lease.
			}
			synctest.Wait()
		}
		require.Empty(t, c.engine.scheduler.queue)
	})
}

// releases counts the releases that a node has confirmed.
type releases struct {
	node.Node
	confirmed atomic.Int32
}

func (r *releases) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	r.Node.Do(ctx, ops, replies)
	for i := range ops {
		if ops[i].Kind == wire.Release && replies[i].Err == nil {
			r.confirmed.Add(1)
		}
	}
}

func TestUndosOutlastTheTTL(t *testing.T) {
	const probes = 2 * time.Second // Two probes are less than this apart.
	for _, tc := range []struct {
		down time.Duration
		want int32
	}{
		{testTTL + undoMargin - probes, 1},
		{testTTL + undoMargin + probes, 0},
	} {
		counting := &releases{}
		inside(t, 1, func(t *testing.T, c *client) {
			l := c.acquire(t, c.majority("job"))
			c.nodes[0].Stop()
			require.Error(t, release(l))
			time.Sleep(tc.down)
			c.nodes[0].Start()
			time.Sleep(probes)
			synctest.Wait()
			require.Equal(t, tc.want, counting.confirmed.Load(), "the node was down for %v", tc.down)
		}, func(n node.Node) node.Node {
			counting.Node = n
			return counting
		})
	}
}

func TestLostAttemptAsksNoFurtherNode(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *client) {
		c.nodes[0].Stop()
		c.nodes[1].Stop()
		_, _, err := c.engine.Attempt(t.Context(), c.majority("other"), Request{})
		require.Error(t, err)
		synctest.Wait()
		a := c.attempt()
		a.start()
		require.Zero(t, a.proposal.Exposed)
		a.rollBack(false)
	})
}

func TestStragglersAndHandles(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *client) {
		c.nodes[2].Pause()
		a := newAttempt(c.engine, c.fixed(), Request{Began: c.engine.Clock.Now()})
		a.start()
		<-a.decided
		require.True(t, a.becomeHeld())
		l := a.grant.lease
		synctest.Wait()
		require.NotNil(t, l.grant.proposal, "one node has not voted")
		c.nodes[2].Resume()
		synctest.Wait()
		require.Nil(t, l.grant.proposal, "all nodes have voted")
		before := l.Expiry()
		now := c.engine.Clock.Now()
		a.Answer(answered(1, now+time.Second), granted())
		a.Answer(answered(2, now+time.Second), granted())
		require.Equal(t, before+time.Second, l.Expiry())

		ok, isReader := l.AddHandle(false)
		require.True(t, ok)
		require.False(t, isReader)
		r, err := l.BeginRelease(c.engine.Clock.Now(), nil)
		require.Nil(t, r)
		require.NoError(t, err, "the other handle keeps the lease")
		require.NoError(t, l.Downgrade(make(chan error, 1)))
		ok, isReader = l.AddHandle(false)
		require.False(t, ok, "a writer cannot share a reader's lease")
		require.True(t, isReader)
		r, err = l.BeginRelease(c.engine.Clock.Now(), nil)
		require.NotNil(t, r)
		require.NoError(t, err)
		ok, _ = l.AddHandle(true)
		require.False(t, ok, "the last one has gone: it is being released")
	})
}

// A node that denies has dropped the claim. Its earlier confirmation excludes no other client any
// more, so it must not prolong the lease.
func TestDeniedClaimDoesNotExtendLease(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *client) {
		g := c.grant()
		g.recordReply(wire.Renew, 0, 6*time.Second, testTTL, granted())
		g.recordReply(wire.Renew, 1, time.Second, testTTL, granted())
		g.state, g.validUntil = stateHeld, g.claims.ValidUntil(2)
		before := g.validUntil
		g.recordReply(wire.Renew, 0, 0, testTTL, denied())
		g.recordReply(wire.Renew, 1, 9*time.Second, testTTL, granted())
		g.extendValidity(0)
		require.Equal(t, before, g.validUntil, "one node backs it now")
		require.Equal(t, 1, g.claims.Backing(0))
	})
}

// Each client aligns its renewals to a random phase, so clients do not renew together, at any TTL.
func TestClientsDoNotRenewTogether(t *testing.T) {
	const most = 24 * time.Hour
	for _, ttl := range []time.Duration{time.Second, 10 * time.Second, time.Hour, most} {
		grain := ttl / 128
		parts := map[int]bool{}
		r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
		for range 1000 {
			e := New(Env{
				Clock: clock.Process(), Jitter: r.Float64, Limits: wire.Limits{MaxTTL: most},
				Nodes: dispatch.New([]node.Node{memory.New("m", nil)}, dispatch.Env{}),
			})
			at := decision.AlignToBunch(ttl, ttl, e.renewalPhase)
			parts[int(8*(ttl-at)/grain)] = true
		}
		require.Len(t, parts, 8, "TTL %v", ttl)
	}
}

// A client may hold very many leases, so a grant must stay small. Its attempt, which is larger, is
// dropped once all nodes have voted.
func TestHeldGrantIsSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(Grant{}), uintptr(288))
	inside(t, 3, func(t *testing.T, c *client) {
		l := c.acquire(t, c.majority("job"))
		synctest.Wait()
		l.grant.mu.Lock()
		defer l.grant.mu.Unlock()
		require.Nil(t, l.grant.proposal)
		require.Equal(t, c.engine.Nodes.All(), l.grant.exposedNodes())
		require.GreaterOrEqual(t, l.grant.endOfTokens(), l.token)
	})
}

// The token of a reader may fall with a late answer, so that an attempt that was lost no longer looks lost.
func TestAttemptOfAReaderIsDecidedOnce(t *testing.T) {
	inside(t, 7, func(t *testing.T, c *client) {
		for _, n := range c.nodes {
			n.Pause()
			defer n.Resume()
		}
		s := c.majority("job")
		s.Reads, s.HandOver = true, false
		a := newAttempt(c.engine, s, Request{})
		a.start()
		knows := func(i int, token uint64) {
			a.Answer(answered(i, 0), &wire.Reply{Outcome: wire.Granted, Token: token})
		}
		a.Answer(answered(6, 0), failed())
		for i, token := range []uint64{10, 20, 20, 30} {
			knows(i, token)
		}
		for i := range 3 { // They are asked to take the token 30.
			a.Answer(answered(i, 0), failed())
		}
		<-a.decided
		require.True(t, a.proposal.Decided())
		knows(4, 15)
		require.False(t, a.proposal.Decided(), "20 suffices now, which two of the others know")
		knows(5, 30)
		require.True(t, a.proposal.Decided())
	})
}

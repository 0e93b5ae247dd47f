package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// answered is a call of an acquisition to node i that was sent at the given time.
func answered(i int, sent time.Duration) *dispatch.Call {
	c := dispatch.NewCall(i, &node.Op{}, dispatch.Ignore)
	c.Sent = sent
	return c
}

// inside runs a test on a client of n in-memory nodes, in virtual time.
func inside(t *testing.T, n int, test func(t *testing.T, c *Client, m []*node.Memory), changes ...func(*Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Clock: clock.Process(), Logger: slog.New(slog.DiscardHandler), AllowEven: true}
		var m []*node.Memory
		for i := range n {
			m = append(m, node.NewMemory(fmt.Sprintf("n%d", i+1), cfg.Clock))
			cfg.Nodes = append(cfg.Nodes, m[i])
		}
		for _, change := range changes {
			change(&cfg)
		}
		c, err := New(cfg)
		require.NoError(t, err)
		open(t, cfg)
		test(t, c, m)
		_ = c.Close(context.Background())
	})
}

// open does what package admin does with new nodes, as this package cannot import it.
func open(t *testing.T, cfg Config) {
	t.Helper()
	for _, n := range cfg.Nodes {
		replies := make([]node.Reply, 1)
		n.Do(t.Context(), []node.Op{{Kind: node.Mark, Limits: cfg.Limits()}}, replies)
		require.NoError(t, replies[0].Err)
		n.Do(t.Context(), []node.Op{{Kind: node.Open, Limits: cfg.Limits(), Marker: replies[0].Marker}}, replies)
		require.Equal(t, node.Granted, replies[0].Outcome)
	}
}

// grab takes a name on one node for another owner.
func grab(t *testing.T, c *Client, n node.Node, name, owner string, ttl time.Duration) {
	t.Helper()
	op := node.Op{Kind: node.Acquire, Names: []string{name}, Owner: owner, TTL: ttl, Token: uint64(c.tokenClock.now()), Limits: c.cfg.limits()}
	replies := make([]node.Reply, 1)
	n.Do(t.Context(), []node.Op{op}, replies)
	require.Equal(t, node.Granted, replies[0].Outcome)
}

// asleep keeps the scheduler from running. This stretches the time between the end of a lease and
// the tick that notices it.
func asleep(c *Client, asleep bool) {
	c.scheduler.mu.Lock()
	defer c.scheduler.mu.Unlock()
	if asleep {
		c.scheduler.running = make(chan struct{})
	} else {
		close(c.scheduler.running)
		c.scheduler.running = nil
	}
}

func keys(m ...*node.Memory) (n int) {
	synctest.Wait()
	for _, nd := range m {
		n += len(nd.Keys())
	}
	return n
}

func granted() *node.Reply { return &node.Reply{Outcome: node.Granted} }

func TestExpiryCountsFromTheSend(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *Client, m []*node.Memory) {
		for _, nd := range m {
			nd.Pause()
			time.AfterFunc(9*time.Millisecond, nd.Resume)
		}
		lease, err := c.RedLock("job").With(LockOptions{Fixed: true}).TryAcquire(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 30*time.Millisecond-quorum.Drift(30*time.Millisecond)-9*time.Millisecond, lease.Remaining())
	}, func(cfg *Config) { cfg.TTL, cfg.NodeTimeoutMax = 30*time.Millisecond, 10*time.Millisecond })
}

func TestClaimsAndRefusals(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *Client, _ []*node.Memory) {
		h := newGrant(c.RedLock("job"), nil)
		h.recordReply(0, 5*time.Second, granted())
		late := h.claims.Expiry(0)
		h.recordReply(0, time.Second, granted())
		require.Equal(t, late, h.claims.Expiry(0), "an older answer takes nothing away")
		h.recordReply(0, 0, &node.Reply{Err: errors.New("no")})
		require.Len(t, h.nodeErrors(), 1)
		h.recordReply(0, 6*time.Second, granted())
		require.Empty(t, h.nodeErrors(), "a confirmation clears what was said before")
	})
}

func TestNothingCountsPastTheEnd(t *testing.T) {
	inside(t, 1, func(t *testing.T, c *Client, m []*node.Memory) {
		lease, err := c.RedLock("job").With(LockOptions{Fixed: true}).TryAcquire(t.Context())
		require.NoError(t, err)
		asleep(c, true)
		h := lease.lease.grant
		time.Sleep(DefaultTTL)
		now := c.clock.Now()
		// These are a straggler of the acquisition, and an answer to a renewal.
		h.Answer(answered(0, now), granted())
		require.ErrorIs(t, lease.Err(), ErrLost)
		done := make(chan error, 1)
		r := &renewalRound{grant: h, sentAt: now, tally: quorum.NewTally(1, 1), done: done}
		r.Answer(answered(0, now), granted())
		require.Empty(t, done, "an extension has not succeeded")
		require.ErrorIs(t, lease.Err(), ErrLost)
		// No request is sent, and no lease nests.
		require.ErrorIs(t, h.lease.extend(done), ErrLost)
		synctest.Wait()
		require.Zero(t, keys(m[0]))
		require.False(t, h.lease.retainHandle())
		require.ErrorIs(t, lease.Release(t.Context()), ErrLost, "its time was over before")
		asleep(c, false)
	})
}

func TestARoundWonTooLate(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *Client, _ []*node.Memory) {
		h := newGrant(c.RedLock("job"), nil)
		h.countVote(0, 0, h.proposal.Token(), granted())
		h.countVote(1, 0, h.proposal.Token(), granted())
		time.Sleep(11 * time.Second)
		require.False(t, h.becomeHeld())
		_, err := h.lossError()
		var noQuorum *NoQuorumError
		require.ErrorAs(t, err, &noQuorum)
		require.True(t, noQuorum.Late)
	})
}

func TestVerdictNeedsAnswersToBeHeld(t *testing.T) {
	inside(t, 5, func(t *testing.T, c *Client, _ []*node.Memory) {
		h := newGrant(c.RedLock("job"), nil)
		h.countVote(0, 0, h.proposal.Token(), &node.Reply{Outcome: node.Denied, Holder: node.Holder{Name: "job", Owner: "x", TTL: time.Second}})
		for i := 1; i < 4; i++ {
			h.countVote(i, 0, h.proposal.Token(), &node.Reply{Err: errors.New("no")})
		}
		_, err := h.lossError()
		require.ErrorIs(t, err, ErrNoQuorum)
		require.NotErrorIs(t, err, ErrHeld)
	})
}

func TestReleaseReachesANodeThatIsDownWhileHeld(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *Client, m []*node.Memory) {
		lease, err := c.RedLock("job").TryAcquire(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		m[2].Stop()
		time.Sleep(4 * time.Second) // The client cannot send a renewal to this node.
		require.NoError(t, lease.Release(t.Context()))
		m[2].Start()
		time.Sleep(time.Second)
		require.Zero(t, keys(m...))
	})
}

func TestReleaseReachesAHealedNode(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *Client, m []*node.Memory) {
		m[2].Stop()
		_, _ = c.RedLock("other").Inspect(t.Context()) // from now on it is refused unsent
		lease, err := c.RedLock("job").TryAcquire(t.Context())
		require.NoError(t, err)
		m[2].Start()
		time.Sleep(8 * time.Second)
		require.Equal(t, 3, keys(m...))
		require.NoError(t, lease.Release(t.Context()))
		require.Zero(t, keys(m...))
	})
}

func TestANodeNeverAskedIsReleased(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *Client, m []*node.Memory) {
		m[2].Stop()
		_, _ = c.RedLock("other").Inspect(t.Context())
		lease, err := c.RedLock("job").TryAcquire(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		m[1].Stop()
		require.NoError(t, lease.Release(t.Context()), "one has confirmed, and one never had it")
	})
}

func TestAFailedRenewalIsRetried(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *Client, m []*node.Memory) {
		lease, err := c.RedLock("job").TryAcquire(t.Context())
		require.NoError(t, err)
		for range 20 {
			time.Sleep(2900 * time.Millisecond)
			m[0].Stop()
			m[1].Stop()
			time.Sleep(1500 * time.Millisecond) // Meanwhile the renewal fails.
			m[0].Start()
			m[1].Start()
			time.Sleep(2 * time.Second)
			require.NoError(t, lease.Err())
			lease.lease.grant.mu.Lock()
			failures := lease.lease.grant.failedRenewals
			lease.lease.grant.mu.Unlock()
			require.Zero(t, failures)
		}
	})
}

func TestARoundThatIsRefusedAtOnceConcludes(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *Client, m []*node.Memory) {
		lease, err := c.RedLock("job").TryAcquire(t.Context())
		require.NoError(t, err)
		for _, nd := range m {
			nd.Stop()
		}
		require.ErrorIs(t, lease.Extend(t.Context()), ErrNoQuorum)
		synctest.Wait()
		began := c.clock.Now()
		require.ErrorIs(t, lease.Extend(t.Context()), ErrNoQuorum) // Every lane refuses.
		require.Zero(t, c.clock.Now()-began)
	})
}

func TestAForcedOffLeaseEndsAtItsNextRenewal(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *Client, _ []*node.Memory) {
		lease, err := c.RedLock("job").TryAcquire(t.Context())
		require.NoError(t, err)
		_, err = c.RedLock("job").ForceRelease(t.Context())
		require.NoError(t, err)
		time.Sleep(DefaultTTL / 2)
		require.ErrorIs(t, lease.Err(), ErrLost)
	})
}

func TestFixedNeverRenewsByItself(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *Client, m []*node.Memory) {
		for _, fail := range []bool{false, true} {
			lease, err := c.RedLock("job").With(LockOptions{Fixed: true}).TryAcquire(t.Context())
			require.NoError(t, err)
			time.Sleep(time.Second)
			if fail {
				m[0].Stop()
				m[1].Stop()
			}
			require.Equal(t, fail, lease.Extend(t.Context()) != nil)
			m[0].Start()
			m[1].Start()
			time.Sleep(DefaultTTL)
			require.ErrorIs(t, lease.Err(), ErrLost)
			time.Sleep(time.Second)
		}
	})
}

func TestTheSchedulerForgets(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *Client, m []*node.Memory) {
		var lease *Lease
		for i := range 10 {
			var err error
			lease, err = c.RedLock(fmt.Sprint(i)).TryAcquire(t.Context())
			require.NoError(t, err)
			for _, nd := range m {
				nd.Pause()
			}
			go func() { _ = lease.Extend(context.Background()) }()
			synctest.Wait()
			go func() { _ = lease.Release(context.Background()) }()
			synctest.Wait()
			for _, nd := range m {
				nd.Resume() // The answers to the renewal arrive after the end of the lease.
			}
			synctest.Wait()
		}
		require.Empty(t, c.scheduler.queue)
	})
}

func TestWaitersKnowWhenAHolderExpires(t *testing.T) {
	inside(t, 1, func(t *testing.T, c *Client, m []*node.Memory) {
		grab(t, c, m[0], "job", "x", time.Second)
		began := c.clock.Now()
		lease, err := c.RedLock("job").Acquire(t.Context())
		require.NoError(t, err)
		require.Equal(t, time.Second, c.clock.Now()-began)
		require.NoError(t, lease.Release(t.Context()))
	}, func(cfg *Config) { cfg.RetryMin, cfg.RetryMax = time.Minute, time.Minute })
}

// releases counts the releases that a node has confirmed.
type releases struct {
	node.Node
	confirmed atomic.Int32
}

func (r *releases) Do(ctx context.Context, ops []node.Op, replies []node.Reply) {
	r.Node.Do(ctx, ops, replies)
	for i := range ops {
		if ops[i].Kind == node.Release && replies[i].Err == nil {
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
		{DefaultTTL + undoMargin - probes, 1},
		{DefaultTTL + undoMargin + probes, 0},
	} {
		counting := &releases{}
		inside(t, 1, func(t *testing.T, c *Client, m []*node.Memory) {
			lease, err := c.RedLock("job").TryAcquire(t.Context())
			require.NoError(t, err)
			m[0].Stop()
			require.Error(t, lease.Release(t.Context()))
			time.Sleep(tc.down)
			m[0].Start()
			time.Sleep(probes)
			synctest.Wait()
			require.Equal(t, tc.want, counting.confirmed.Load(), "the node was down for %v", tc.down)
		}, func(cfg *Config) {
			counting.Node = cfg.Nodes[0]
			cfg.Nodes[0] = counting
		})
	}
}

func TestOverlapWithAnEndedLease(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *Client, _ []*node.Memory) {
		lease, err := c.RedLock("a").TryAcquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
		both, err := c.MultiLock("a", "b").TryAcquire(context.WithoutCancel(lease.Context()))
		require.NoError(t, err)
		require.NoError(t, both.Release(t.Context()))
	})
}

func TestExtendEndsWithTheLease(t *testing.T) {
	inside(t, 1, func(t *testing.T, c *Client, m []*node.Memory) {
		lease, err := c.RedLock("job").TryAcquire(t.Context())
		require.NoError(t, err)
		m[0].Pause()
		time.AfterFunc(10*time.Millisecond, func() { go func() { _ = lease.Release(context.Background()) }() })
		began := c.clock.Now()
		require.ErrorIs(t, lease.Extend(t.Context()), ErrReleased)
		require.Equal(t, 10*time.Millisecond, c.clock.Now()-began)
		require.Zero(t, lease.Remaining())
		have, _ := lease.Backing()
		require.Zero(t, have)
		m[0].Resume()
	})
}

func TestForceReleaseBuriesEverywhereForMaxTTL(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *Client, m []*node.Memory) {
		long, err := c.RedLock("job").With(LockOptions{Fixed: true}).TryAcquire(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		m[0].Flush()
		m[1].Flush()
		short := c.RedLock("job").With(LockOptions{TTL: 2 * time.Second})
		_, err = short.ForceRelease(t.Context())
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		require.ErrorIs(t, long.Extend(t.Context()), ErrLost)
		require.Zero(t, keys(m...))
	})
}

func TestARoundThatIsLostAtOnceAsksNobodyElse(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *Client, m []*node.Memory) {
		m[0].Stop()
		m[1].Stop()
		_, _ = c.RedLock("job").Inspect(t.Context())
		h := newGrant(c.RedLock("job"), nil)
		h.start(c.clock.Now())
		require.Zero(t, h.proposal.Exposed())
		h.rollBack()
	})
}

// TestAReleasedLeaseIsNotCountedTwice runs outside of any bubble, as the garbage collector does.
func TestAReleasedLeaseIsNotCountedTwice(t *testing.T) {
	cfg := Config{Nodes: []node.Node{node.NewMemory("a", nil)}, Logger: slog.New(slog.DiscardHandler)}
	open(t, cfg)
	c, err := New(cfg)
	require.NoError(t, err)
	outer, err := c.RedLock("job").TryAcquire(t.Context())
	require.NoError(t, err)
	collected := make(chan struct{})
	func() {
		inner, err := c.RedLock("job").TryAcquire(outer.Context())
		require.NoError(t, err)
		// Cleanups of one object run in no certain order, but all of them run.
		runtime.AddCleanup(inner, func(int) { close(collected) }, 0)
		require.NoError(t, inner.Release(t.Context()))
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		select {
		case <-collected:
			return true
		default:
			return false
		}
	}, 20*time.Second, time.Millisecond)
	runtime.GC()
	outer.lease.grant.mu.Lock()
	handles := int(outer.lease.handles)
	outer.lease.grant.mu.Unlock()
	require.Equal(t, 1, handles, "the inner one was given back once")
	require.NoError(t, outer.Release(t.Context()))
	require.NoError(t, c.Close(t.Context()))
}

func TestStragglersAndHandles(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *Client, _ []*node.Memory) {
		lease, err := c.RedLock("job").With(LockOptions{Fixed: true}).TryAcquire(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		before := lease.Remaining()
		now := c.clock.Now()
		lease.lease.grant.Answer(answered(1, now+time.Second), granted())
		lease.lease.grant.Answer(answered(2, now+time.Second), granted())
		require.Equal(t, before+time.Second, lease.Remaining())

		require.True(t, lease.lease.retainHandle())
		require.False(t, lease.lease.releaseHandle())
		require.True(t, lease.lease.releaseHandle())
		require.False(t, lease.lease.retainHandle(), "the last one has gone: it is being released")
	})
}

func TestOverlapOfTwoNames(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *Client, _ []*node.Memory) {
		b, err := c.MultiLock("b").TryAcquire(t.Context())
		require.NoError(t, err)
		_, err = c.MultiLock("a", "b").TryAcquire(b.Context())
		require.ErrorIs(t, err, ErrOverlap, "the second name is held, the first is not")
		a, err := c.MultiLock("a").TryAcquire(b.Context())
		require.NoError(t, err)
		_, err = c.MultiLock("a", "b").TryAcquire(a.Context())
		require.ErrorIs(t, err, ErrOverlap)
	})
}

// A node that denies has dropped the claim. Its earlier confirmation excludes no other client any
// more, so it must not prolong the lease.
func TestADeniedClaimProlongsNothing(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *Client, _ []*node.Memory) {
		h := newGrant(c.RedLock("job"), nil)
		h.recordReply(0, 6*time.Second, granted())
		h.recordReply(1, time.Second, granted())
		h.state, h.validUntil = stateHeld, h.claims.ValidUntil(2)
		before := h.validUntil
		h.recordReply(0, 0, &node.Reply{Outcome: node.Denied, Holder: node.Holder{Name: "job", Owner: "x", TTL: time.Second}})
		h.recordReply(1, 9*time.Second, granted())
		h.extendValidity(0)
		require.Equal(t, before, h.validUntil, "one node backs it now")
		require.Equal(t, 1, h.claims.Backing(0))
	})
}

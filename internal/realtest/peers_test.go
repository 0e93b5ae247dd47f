package realtest_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// patientTTL is the TTL of leases that must survive on a busy machine. A TTL of one second would leave a
// node 100 ms to answer, which is sometimes too little there.
const patientTTL = 4 * time.Second

// Each subtest is a bug that users of other libraries reported. Its name has the issues.
func TestRealIssuesOfOtherLibraries(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(t *testing.T, c *cluster){
		"redsync#186 redisson#1445 a bare majority splits":                        bareMajorityIsFilled,
		"RedLock.net#48 redlock-rb#36 extending revives an expired lock":          expiredStaysExpired,
		"redsync#72 valid after the expiry":                                       validity,
		"redsync#107 redsync#143 redsync#81 unlock does not say why":              releaseSaysWhy,
		"blnk#355 authgear#5721 ncps#913 a cancelled context skips the unlock":    cancelledRelease,
		"node-redlock#369 leftovers block the retry":                              leftoversDoNotBlock,
		"node-redlock#296 node-redlock#299 expiry from the first attempt":         expiryFromTheLastAttempt,
		"node-redlock#313 node-redlock#309 release goes on for ever":              releaseIsBounded,
		"node-redlock#168 node-redlock#362 releasing an expired lock":             expiredRelease,
		"redisson#4698 a failed renewal is not reported":                          renewalFailureIsTold,
		"redisson#7272 redisson#2515 renewal outlives the unlock":                 renewalEndsWithTheLease,
		"redisson#3194 redisson#3712 renewal dies after a reconnect":              renewalSurvivesReconnects,
		"redisson#5698 a renewal comes more than a TTL late":                      renewalIsRetried,
		"redisson#562 redisson#6878 ownership by thread":                          ownershipTravelsInTheContext,
		"rueidis#457 rueidis#301 rueidis#653 release against re-acquire or close": releaseRaces,
		"RedLock.net#68 a lock extended for ever":                                 holdsAreLimited,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, startCluster(t, 5))
		})
	}
}

func bareMajorityIsFilled(t *testing.T, c *cluster) {
	const ttl = patientTTL
	client := c.client(withMaxTTL(ttl))
	c.kill(3, 4)
	lease := acquire(t, client.RedLock("job"))
	have, _ := lease.Backing()
	require.Equal(t, 3, have)
	c.restart(3, 4)
	backedByAll(t, lease, ttl*3/2+soon*3/2)
	c.kill(0, 1) // Both nodes had granted the lock.
	staysValid(t, lease, 2*ttl)
	require.NoError(t, lease.Release(t.Context()))
}

var fixed = quorumlock.LockOptions{Fixed: true, TTL: 3 * time.Second}

func expiredStaysExpired(t *testing.T, c *cluster) {
	lease := acquire(t, c.client().RedLock("job").With(fixed))
	require.ErrorIs(t, ends(t, lease, fixed.TTL+soon), quorumlock.ErrLost)
	require.ErrorIs(t, lease.Extend(t.Context()), quorumlock.ErrLost)
	c.noKeys()
	next := acquire(t, c.client().RedLock("job"))
	require.ErrorIs(t, lease.Extend(t.Context()), quorumlock.ErrLost)
	c.holds("job", next.Owner())
	require.NoError(t, next.Release(t.Context()))
}

func validity(t *testing.T, c *cluster) {
	lease := acquire(t, c.client().RedLock("job").With(fixed))
	for began := time.Now(); ; {
		until := lease.ValidUntil()
		valid := lease.Err() == nil
		if !valid {
			break
		}
		require.Less(t, time.Since(began), fixed.TTL+soon, "a Fixed lease ends with its TTL")
		require.LessOrEqual(t, time.Until(until), fixed.TTL)
	}
	require.Zero(t, lease.Remaining())
	require.ErrorIs(t, lease.Err(), quorumlock.ErrLost)
	have, _ := lease.Backing()
	require.Less(t, have, 3)
	require.ErrorIs(t, ends(t, lease, fixed.TTL+soon), quorumlock.ErrLost, "the context ends with the lease")
}

func releaseSaysWhy(t *testing.T, c *cluster) {
	client := c.client(withTTL(quorumlock.DefaultTTL)) // The two nodes that run must answer in time.
	lease := acquire(t, client.RedLock("job"))
	c.kill(0, 1)
	c.pause(2)
	err := lease.Release(t.Context())
	var noQuorum *quorumlock.NoQuorumError
	require.ErrorAs(t, err, &noQuorum)
	require.Equal(t, quorumlock.OpRelease, noQuorum.Op)
	require.Equal(t, []int{2, 3, 5}, []int{noQuorum.Agreed, noQuorum.Need, noQuorum.Total})
	addrs := c.addresses()
	namesNodes(t, noQuorum.Nodes, addrs[0], addrs[1], addrs[2])
	for _, n := range noQuorum.Nodes {
		want := node.ErrUnreachable
		if n.Node == addrs[2] {
			want = node.ErrTimeout
		}
		require.ErrorIs(t, n.Err, want, n.Node)
	}
	require.ErrorIs(t, lease.Release(t.Context()), quorumlock.ErrReleased, "a second release has its own error")
	c.resume(2)
	c.restart(0, 1)
	c.noKeys()
}

func cancelledRelease(t *testing.T, c *cluster) {
	ctx, cancel := context.WithCancel(t.Context())
	lease, err := c.client().RedLock("job").Acquire(ctx)
	require.NoError(t, err)
	cancel()
	require.NoError(t, lease.Err(), "the context of Acquire bounds only the acquisition")
	require.NoError(t, lease.Release(ctx))
	c.noKeys()
}

func leftoversDoNotBlock(t *testing.T, c *cluster) {
	const ttl = time.Minute
	client := c.client(func(cfg *quorumlock.Config) { cfg.TTL, cfg.MaxTTL = ttl, ttl })
	c.plant("job", "x:1", 300*time.Millisecond, 0, 1, 2)
	ctx, cancel := context.WithTimeout(t.Context(), ttl/2)
	defer cancel()
	lease, err := client.RedLock("job").Acquire(ctx)
	require.NoError(t, err, "keys of failed attempts on nodes 3 and 4 would block the lock for a TTL")
	require.NoError(t, lease.Release(t.Context()))
}

func expiryFromTheLastAttempt(t *testing.T, c *cluster) {
	acquired := make(chan quorumlock.AcquisitionEvent, 1)
	client := c.client(func(cfg *quorumlock.Config) {
		cfg.Hooks.Acquisition = func(e quorumlock.AcquisitionEvent) { acquired <- e }
	})
	c.plant("job", "x:1", time.Second, 0, 1, 2)
	lease := acquire(t, client.RedLock("job"))
	remaining, now := lease.Remaining(), time.Now()
	failed := lastDefeat(in(t, acquired, "the acquisition is reported"), 3)
	require.False(t, failed.IsZero(), "the first attempt fails")
	require.GreaterOrEqual(t, remaining+now.Sub(failed), quorumlock.DefaultTTL-quorum.Drift(quorumlock.DefaultTTL),
		"the TTL counts from the attempt that succeeded, which began after the last failure")
	require.LessOrEqual(t, remaining, quorumlock.DefaultTTL)
	require.NoError(t, lease.Release(t.Context()))
}

// lastDefeat returns when the denial came that decided the last failed attempt.
func lastDefeat(e quorumlock.AcquisitionEvent, denials int) (last time.Time) {
	denied := make(map[string][]time.Time)
	for _, v := range e.Votes {
		if v.Vote == quorum.Denied && v.Owner != e.Owner {
			denied[v.Owner] = append(denied[v.Owner], v.At)
		}
	}
	for _, at := range denied {
		if len(at) >= denials && at[denials-1].After(last) {
			last = at[denials-1]
		}
	}
	return last
}

func releaseIsBounded(t *testing.T, c *cluster) {
	client := c.client()
	lease := acquire(t, client.RedLock("job"))
	c.pause(0, 1, 2, 3, 4)
	began := time.Now()
	require.ErrorIs(t, lease.Release(t.Context()), quorumlock.ErrNoQuorum)
	require.Less(t, time.Since(began), quorumlock.DefaultTTL/2, "the node timeouts bound Release")
	began = time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	require.ErrorContains(t, client.Close(ctx), "did not confirm")
	require.Less(t, time.Since(began), quorumlock.DefaultTTL/2, "the node timeouts bound Close too")
}

func expiredRelease(t *testing.T, c *cluster) {
	lease := acquire(t, c.client().RedLock("job").With(fixed))
	require.ErrorIs(t, ends(t, lease, fixed.TTL+soon), quorumlock.ErrLost)
	c.noKeys() // The keys expire a little later than the lease.
	next := acquire(t, c.client().RedLock("job"))
	c.holds("job", next.Owner())
	for range 3 {
		err := lease.Release(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrLost)
		require.NotErrorIs(t, err, quorumlock.ErrNoQuorum)
		require.NotErrorIs(t, err, quorumlock.ErrReleased)
	}
	c.holds("job", next.Owner())
	require.NoError(t, next.Release(t.Context()))
}

// ownershipTravelsInTheContext shows that any goroutine with the context holds the lock. The client does not
// ask the nodes for that.
func ownershipTravelsInTheContext(t *testing.T, c *cluster) {
	const ttl = time.Minute // No renewal falls into the test.
	lock := c.client(func(cfg *quorumlock.Config) { cfg.TTL, cfg.MaxTTL = ttl, ttl }).RedLock("job")
	require.NoError(t, acquire(t, lock).Release(t.Context())) // The servers learn the scripts.
	c.noKeys()
	lease := acquire(t, lock)
	c.holds("job", lease.Owner())
	before := c.calls(0)
	var users sync.WaitGroup
	for range 50 {
		users.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			nested, err := lock.Acquire(lease.Context())
			if assert.NoError(t, err) {
				assert.Equal(t, lease.Owner(), nested.Owner())
				assert.NoError(t, nested.Release(t.Context()))
			}
		})
	}
	users.Wait()
	require.NoError(t, lease.Err(), "the release of a nested lease does not end the outer one")
	_, err := lock.TryAcquire(t.Context())
	require.ErrorIs(t, err, quorumlock.ErrHeld, "without the context, the same client is denied, too")
	require.LessOrEqual(t, c.calls(0), before+2, "only this attempt has reached a node")
	require.NoError(t, lease.Release(t.Context()))
	c.noKeys()
}

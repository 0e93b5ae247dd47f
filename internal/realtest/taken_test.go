package realtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
)

// lossOf returns the LostError that is wrapped in an error.
func lossOf(t *testing.T, err error) *quorumlock.LostError {
	t.Helper()
	var lost *quorumlock.LostError
	require.ErrorAs(t, err, &lost)
	return lost
}

// ForceRelease removes a lock, and another client acquires it. The first lease ends by a renewal, before its TTL is
// over.
func TestRealForceReleaseEndsLeaseDespiteNextHolder(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second
	c := startCluster(t, 3)
	admin := c.client(withTTL(ttl))
	for _, locks := range [][2]*quorumlock.Lock{
		{c.client(withTTL(ttl)).RedLock("job"), admin.RedLock("job")},
		{c.client(withTTL(ttl)).RWLock("book").Read(), admin.RWLock("book").Write()},
		{c.client(withTTL(ttl)).RWLock("book").Write(), admin.RWLock("book").Read()},
	} {
		former := acquire(t, locks[0])
		_, err := locks[1].ForceRelease(t.Context())
		require.NoError(t, err)
		next := acquire(t, locks[1])
		require.Equal(t, quorumlock.LossForced, lossOf(t, ends(t, former, ttl+soon)).Cause)
		require.NoError(t, next.Err())
		require.NoError(t, next.Release(t.Context()))
	}
}

func TestRealLeaseTakenByAnotherOwnerEnds(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second
	c := startCluster(t, 3)
	former := acquire(t, c.client(withTTL(ttl)).RedLock("job"))
	c.holds("job", former.Owner())
	for i := range c.servers {
		c.command(i, "DEL", "job")
	}
	next := acquire(t, c.client(withTTL(ttl)).RedLock("job"))
	lost := lossOf(t, ends(t, former, ttl+soon))
	require.Equal(t, quorumlock.LossTaken, lost.Cause)
	require.Equal(t, next.Owner(), lost.TakenBy)
	require.NoError(t, next.Err())
	require.NoError(t, next.Release(t.Context()))
}

func TestRealReleaseReportsDeletedLock(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	client := c.client(patiently)
	// del deletes a key on the first nodes.
	del := func(nodes int, key string) {
		for i := range nodes {
			require.Equal(t, 1, c.number(i, "DEL", key))
		}
	}
	lease := acquire(t, client.RedLock("job"))
	c.holds("job", lease.Owner())
	del(1, "job")
	require.NoError(t, lease.Release(t.Context()), "keys that are missing on a minority are no loss")

	lease = acquire(t, client.RedLock("job"))
	c.holds("job", lease.Owner())
	del(2, "job")
	require.Equal(t, quorumlock.LossGone, lossOf(t, lease.Release(t.Context())).Cause)

	lease = acquire(t, client.MultiLock("a", "b"))
	c.holds("b", lease.Owner())
	del(1, "b")
	require.Equal(t, quorumlock.LossGone, lossOf(t, lease.Release(t.Context())).Cause, "a MultiLock needs both names on all nodes")

	permits, err := client.Semaphore("pool", 4).Acquire(t.Context(), 3)
	require.NoError(t, err)
	slot := node.SlotName(node.PoolName("pool"), permits.Slots()[0])
	c.holds(slot, permits.Owner())
	del(2, slot)
	require.Equal(t, quorumlock.LossGone, lossOf(t, permits.Release(t.Context())).Cause)

	reader := acquire(t, client.RWLock("book").Read())
	c.holds("book", node.Readers)
	del(2, "book")
	del(2, "quorumlock:readers:{book}")
	require.Equal(t, quorumlock.LossGone, lossOf(t, reader.Release(t.Context())).Cause)

	lease = acquire(t, client.RedLock("job"))
	c.holds("job", lease.Owner())
	del(3, "job")
	next := acquire(t, c.client(patiently).RedLock("job"))
	lost := lossOf(t, lease.Release(t.Context()))
	require.Equal(t, quorumlock.LossTaken, lost.Cause)
	require.Equal(t, next.Owner(), lost.TakenBy)
	require.NoError(t, next.Release(t.Context()))
}

// Nodes that have noticed their memory loss grant the lock to no other client. So a release there reports no loss.
func TestRealReleaseIgnoresMemoryLossThatNodesNotice(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	client := c.client(patiently)
	lease := acquire(t, client.RedLock("job"))
	c.holds("job", lease.Owner())
	for i := range c.servers {
		c.command(i, "FLUSHALL")
	}
	require.NoError(t, lease.Release(t.Context()))
}

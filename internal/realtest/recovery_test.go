package realtest_test

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/node"
)

// contested lets another client try to acquire the lock until the test ends or the returned function is
// called. The client must not get the lock while the lease is valid. Whether the lease lasts is for the caller to judge.
func contested(t *testing.T, lock *quorumlock.Lock, held *quorumlock.Lease) (stopContender func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var siege sync.WaitGroup
	var attempts atomic.Int64
	siege.Go(func() {
		for ctx.Err() == nil {
			lease, err := lock.TryAcquire(ctx)
			if err == nil {
				if held.Err() == nil {
					t.Errorf("another client got the lock, token %d", lease.Token())
				}
				_ = lease.Release(ctx)
				return
			}
			attempts.Add(1)
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	stopContender = sync.OnceFunc(func() {
		cancel()
		siege.Wait()
		t.Logf("%d attempts by another client", attempts.Load())
	})
	t.Cleanup(stopContender)
	return stopContender
}

// All five servers restart without their memory, one after the other. Each restart waits for the recovery of
// the previous server. The lease survives.
func TestRealRollingRestart(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	c := startCluster(t, 5)
	lease := acquire(t, c.client(withMaxTTL(ttl)).RedLock("job"))
	c.holds("job", lease.Owner())
	stopContender := contested(t, c.client(withMaxTTL(ttl)).RedLock("job"), lease)
	for i := range c.servers {
		c.kill(i)
		began := time.Now()
		c.restart(i)
		recovered := func() bool { return c.recovering(i, ttl*3/2) == 0 }
		eventually(t, soon, func() bool { return c.recovering(i, ttl*3/2) >= 0 }, "node %d has begun its recovery", i)
		eventually(t, 3*ttl, recovered, "node %d has recovered", i)
		require.GreaterOrEqual(t, time.Since(began), ttl*3/2)
		backedByAll(t, lease, ttl+soon)
		require.NoError(t, lease.Err())
	}
	stopContender()
	require.NoError(t, lease.Release(t.Context()))
	next := acquire(t, c.client(withMaxTTL(ttl)).RedLock("job"))
	require.Greater(t, next.Token(), lease.Token())
}

// recovering returns how much longer a node refuses new locks to clients with this recovery, by its own clock. It is negative
// if the recovery has not begun.
func (c *cluster) recovering(i int, recovery time.Duration) time.Duration {
	c.t.Helper()
	if c.command(i, "HGET", "quorumlock:node", "identity") != c.servers[i].ReplicationID() {
		return -1
	}
	since := time.UnixMicro(int64(c.number(i, "HGET", "quorumlock:node", "since")))
	return max(time.Until(since.Add(recovery)), 0)
}

// inTime requires that the servers' restart took no longer than a lease can survive.
func inTime(t testing.TB, began time.Time, most time.Duration) {
	t.Helper()
	require.LessOrEqual(t, time.Since(began), most, "the restart of the servers")
}

// A server can lose its memory in each of these ways. If the holder renews, it keeps the lock. Otherwise no client
// gets the lock until the recovery has ended.
func TestRealKindsOfMemoryLoss(t *testing.T) {
	t.Parallel()
	kill := func(s *redisproc.Server, _ int64) { s.Kill(); s.Restart() }
	for _, loss := range []struct {
		name string
		opts []redisproc.Option
		// before is called while the lock is free. Its result is passed to lose.
		before func(s *redisproc.Server) (mark int64)
		lose   func(s *redisproc.Server, mark int64)
	}{
		{name: "restart without persistence", lose: kill},
		{
			name:   "append-only file without its tail",
			opts:   []redisproc.Option{redisproc.WithAOF()},
			before: (*redisproc.Server).AOFSize,
			lose:   func(s *redisproc.Server, mark int64) { s.Kill(); s.TruncateAOF(mark); s.Restart() },
		},
		{name: "snapshot", before: func(s *redisproc.Server) int64 { s.Save(); return 0 }, lose: kill},
		{name: "FLUSHALL", lose: func(s *redisproc.Server, _ int64) { _, _ = s.Command("FLUSHALL") }},
		{name: "the marker is deleted", lose: func(s *redisproc.Server, _ int64) { _, _ = s.Command("DEL", "quorumlock:node", "job") }},
	} {
		for _, renewed := range []bool{true, false} {
			name, ttl := loss.name+", the lease is not renewed", 2*time.Second
			if renewed { // The lease must last until the server is back.
				name, ttl = loss.name+", the lease is renewed", patientTTL
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := startCluster(t, 1, loss.opts...)
				server := c.servers[0]
				client, other := c.client(withMaxTTL(ttl)), c.client(withMaxTTL(ttl))
				_ = acquire(t, other.RedLock("other")).Release(t.Context()) // This connects the client.
				var mark int64
				if loss.before != nil {
					mark = loss.before(server)
				}
				lease := acquire(t, client.RedLock("job").With(quorumlock.LockOptions{Fixed: !renewed}))
				began := time.Now()
				loss.lose(server, mark)
				if renewed {
					inTime(t, began, ttl/2)
					stopContender := contested(t, other.RedLock("job"), lease)
					eventually(t, ttl*3/2+2*soon, func() bool { return c.recovering(0, ttl*3/2) == 0 && time.Since(began) > ttl }, "node 0 has recovered")
					staysValid(t, lease, ttl)
					stopContender()
					require.NoError(t, lease.Release(t.Context()))
					return
				}
				_, err := other.RedLock("job").TryAcquire(t.Context())
				require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
				next := acquire(t, other.RedLock("job"))
				require.GreaterOrEqual(t, time.Since(began), ttl*3/2)
				require.Greater(t, next.Token(), lease.Token())
				require.Error(t, lease.Err())
			})
		}
	}
}

// switchedAddr is an address that leads to different servers over time, like a Sentinel's master name or a load
// balancer.
type switchedAddr struct {
	mu     sync.Mutex
	target string
	conns  []net.Conn
}

func (a *switchedAddr) node(t *testing.T) node.Node {
	t.Helper()
	dial := func(ctx context.Context, _ string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		conn, err := d.DialContext(ctx, "tcp", a.target)
		if err == nil {
			a.conns = append(a.conns, conn)
		}
		return conn, err
	}
	n, err := node.New(node.Options{Addresses: []string{"switched.example:6379"}, Rueidis: func(c *rueidis.ClientOption) { c.DialCtxFn = dial }})
	require.NoError(t, err)
	t.Cleanup(func() { _ = n.Close() })
	return n
}

// turn directs new connections to another server and closes the old ones.
func (a *switchedAddr) turn(s *redisproc.Server) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.target = s.Addr()
	for _, conn := range a.conns {
		_ = conn.Close()
	}
	a.conns = nil
}

// A node fails over to a stale replica, and back to its old master, at the same address. Meanwhile the old master
// has copied the state of the replica and lost its own.
func TestRealFailoverAndBack(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	c := startCluster(t, 1)
	a := c.servers[0]
	b := redisproc.StartReplica(t, a)
	var cfg quorumlock.Config
	withMaxTTL(ttl)(&cfg)
	c.open() // Its first replica has changed its identity.
	b.CatchUp()
	j := &switchedAddr{target: a.Addr()}
	there := func(cfg *quorumlock.Config) { cfg.Nodes = []node.Node{j.node(t)} }
	client, other := newClient(t, withMaxTTL(ttl), there), newClient(t, withMaxTTL(ttl), there)
	lock := other.RedLock("job")

	b.PauseReplication()
	lease := acquire(t, client.RedLock("job").With(quorumlock.LockOptions{Fixed: true}))
	began := time.Now()
	b.Promote()
	j.turn(b)
	_, err := lock.TryAcquire(t.Context())
	require.Error(t, err)
	a.Follow(b)
	a.Promote()
	j.turn(a)
	_, err = lock.TryAcquire(t.Context())
	require.Error(t, err)
	next := acquire(t, lock)
	require.GreaterOrEqual(t, time.Since(began), ttl*3/2)
	require.Greater(t, next.Token(), lease.Token())
	require.Error(t, lease.Err())
}

// A replica that is configured as a node beside its master has no vote. Its master keeps its own.
func TestRealReplicaHasNoVote(t *testing.T) {
	c := startCluster(t, 2)
	r := redisproc.StartReplica(t, c.servers[0])
	c.open()
	r.CatchUp()
	addresses := append([]string{r.Addr()}, c.addresses()...)
	for range 10 {
		client := newClient(t, func(cfg *quorumlock.Config) { cfg.Addresses = addresses })
		lease, err := client.RedLock("job").TryAcquire(t.Context())
		require.NoError(t, err, "two of three nodes are masters")
		require.NoError(t, lease.Release(t.Context()))
		_, err = client.MultiLock("job").TryAcquire(t.Context())
		require.ErrorContains(t, err, "replica")
		c.noKeys() // The grants of the masters were undone.
	}
}

// A master is cut off from its replica, which takes over, but not from all of its clients. The confirmations of the
// old master are wrong from then on, and it cannot know that.
func TestRealPartitionedMaster(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	for _, guarded := range []bool{true, false} {
		name := "without min-replicas-to-write"
		if guarded {
			name = "with min-replicas-to-write"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startCluster(t, 1)
			master := c.servers[0]
			replica := redisproc.StartReplica(t, master)
			// The recovery must take at least TTL + lag + 1 s: see docs/servers.md.
			settings := func(cfg *quorumlock.Config) {
				withTTL(ttl)(cfg)
				cfg.MaxTTL, cfg.MaxClockSkew = 2*ttl, ttl
			}
			var cfg quorumlock.Config
			settings(&cfg)
			c.open()
			replica.CatchUp()
			if guarded {
				master.Config("min-replicas-max-lag", "1")
				master.Config("min-replicas-to-write", "1")
			}
			holder := newClient(t, settings, func(cfg *quorumlock.Config) { cfg.Addresses = []string{master.Addr()} })
			other := newClient(t, settings, func(cfg *quorumlock.Config) { cfg.Addresses = []string{replica.Addr()} })
			lease := acquire(t, holder.RedLock("job"))
			replica.PauseReplication()
			replica.Promote()
			next := acquire(t, other.RedLock("job"))
			if guarded {
				require.ErrorIs(t, lease.Err(), quorumlock.ErrLost, "the old master must have stopped confirming in time")
			} else {
				require.NoError(t, lease.Err(), "without the setting, two leases are valid")
			}
			require.Greater(t, next.Token(), lease.Token(), "the later lease has the larger token")
		})
	}
}

// A node with a wrong clock has no vote on acquisitions, and its error tells why. The other nodes decide.
func TestRealWrongNodeClocks(t *testing.T) {
	c := startCluster(t, 5, redisproc.WithFaketime())
	client := c.client()
	day := 24 * time.Hour
	c.servers[0].SetClock(day)
	c.servers[1].SetClock(-day)
	var last uint64
	for range 20 {
		lease := acquire(t, client.RedLock("job"))
		require.Greater(t, lease.Token(), last)
		last = lease.Token()
		require.NoError(t, lease.Release(t.Context()))
	}
	_, err := client.MultiLock("job").TryAcquire(t.Context())
	require.ErrorIs(t, err, node.ErrClock)
	require.ErrorContains(t, err, "the node's clock") // Which node it names depends on the order of the answers.

	c.servers[2].SetClock(day)
	_, err = client.RedLock("job").Acquire(withDeadline(t))
	require.ErrorIs(t, err, node.ErrClock, "with wrong clocks on a majority, Acquire fails at once")
	c.noKeys()
	for _, i := range []int{0, 1, 2} {
		c.servers[i].SetClock(0)
	}
	lease := acquire(t, client.MultiLock("job"))
	require.Greater(t, lease.Token(), last)
}

package realtest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/rights"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// slotTTL is the MaxTTL of clients whose node is a slot of a cluster. Their MaxClockSkew is half of it.
const slotTTL = 3 * time.Second

// slot is a node that is one slot of a real Redis Cluster.
type slot struct {
	*redisproc.Cluster
	t      *testing.T
	tag    string
	marker string
}

// startSlot starts a cluster, and opens the slot of the tag ql. Clients have the documented rights and no others.
func startSlot(t *testing.T) *slot {
	t.Helper()
	const tag = "ql"
	user := strings.TrimPrefix(rights.SetUser("locker", "secret", "{"+tag+"}:*"), "ACL SETUSER ")
	s := &slot{Cluster: redisproc.StartCluster(t, redisproc.WithACL("user "+user)), t: t, tag: tag, marker: wire.MarkerKey(tag)}
	s.open()
	return s
}

// open makes the owner of the slot grant locks, in any state.
func (s *slot) open() {
	s.t.Helper()
	s.Await("the owner of the slot has the marker", func() bool {
		owner := s.Owner(s.marker)
		_, err := owner.Command("HSET", s.marker, "identity", owner.ReplicationID(), "since", "0", "restarted", "0", "open", "")
		if err != nil {
			require.ErrorContains(s.t, err, "CLUSTERDOWN") // A server says that while it takes others for dead.
		}
		return err == nil
	})
}

func slotLimits() node.Limits {
	var cfg quorumlock.Config
	withMaxTTL(slotTTL)(&cfg)
	return cfg.Limits()
}

// address returns the address of the node, with all servers except some as seeds.
func (s *slot) address(except ...*redisproc.Server) string {
	address := ""
	for _, server := range s.Servers() {
		switch {
		case len(except) > 0 && server == except[0]:
		case address == "":
			address = "redis://locker:secret@" + server.Addr() + "?tag=" + s.tag
		default:
			address += "&addr=" + server.Addr()
		}
	}
	return address
}

// forgetLists makes the slot forget the lists of nodes in use, as it does by itself when no program has used one for a while.
func (s *slot) forgetLists() {
	s.t.Helper()
	_, err := s.Owner(s.marker).Command("DEL", wire.ListKey("{"+s.tag+"}:"))
	require.NoError(s.t, err)
}

// client returns a client of the slot and of other nodes.
func (s *slot) client(others ...string) *quorumlock.Client {
	s.t.Helper()
	return newClient(s.t, withMaxTTL(slotTTL), func(cfg *quorumlock.Config) { cfg.Addresses = append([]string{s.address()}, others...) })
}

// slotLoad is contenders for a few names. They check that each name has one holder at a time.
type slotLoad struct {
	*onlooker
	s       *slot
	clients []*quorumlock.Client
	ctx     context.Context
	stop    context.CancelFunc
	all     sync.WaitGroup
}

func (s *slot) load(others ...string) *slotLoad {
	names := []string{"north", "south"}
	l := &slotLoad{onlooker: newOnlooker(s.t, names), s: s}
	l.ctx, l.stop = context.WithCancel(s.t.Context())
	s.t.Cleanup(l.end)
	for range 2 {
		l.add(s.client(others...))
	}
	l.advances("the load begins")
	return l
}

// add lets a client contend for each name.
func (l *slotLoad) add(client *quorumlock.Client) {
	l.clients = append(l.clients, client)
	for name := range l.word {
		l.all.Go(func() {
			for l.ctx.Err() == nil {
				lease, err := client.RedLock(name).Acquire(l.ctx)
				if err != nil {
					assert.ErrorIs(l.t, err, context.Canceled, "Acquire may fail only at the end of the test")
					return
				}
				l.enter(name, lease)
				wait(l.ctx, time.Millisecond, 20*time.Millisecond)
				l.leave(name, lease)
				_ = lease.Release(l.ctx) // An owner that has lost the slot does not confirm it. The client repeats it later.
			}
		})
	}
}

// advances requires that leases are granted again, after a recovery at most. If the servers of a starved machine take a
// new owner for dead, the next owner begins another recovery.
func (l *slotLoad) advances(after string) {
	l.t.Helper()
	before := l.total()
	eventually(l.t, slotLimits().Recovery()+atMost, func() bool { return l.total() >= before+10 }, "locks are granted after %s: %v", after, l.describe)
}

// describe collects evidence for a lack of grants: the errors that clients get, the marker and the keys of each server,
// and its view of the other servers.
func (l *slotLoad) describe() (lines []string) {
	for i, client := range l.clients {
		for name := range l.word {
			lease, err := client.RedLock(name).TryAcquire(l.ctx)
			lines = append(lines, fmt.Sprintf("\nclient %d, %s: %v", i, name, err))
			if err == nil {
				_ = lease.Release(l.ctx)
			}
		}
	}
	for _, server := range l.s.Servers() {
		for _, command := range [][]string{{"HGETALL", l.s.marker}, {"INFO", "replication"}, {"KEYS", "*"}} {
			text, err := server.Command(command...)
			lines = append(lines, fmt.Sprintf("\n%s: %v: %v\n%s", server.Addr(), command, err, text))
		}
	}
	return append(lines, l.s.Views()...)
}

func (l *slotLoad) end() {
	l.stop()
	l.all.Wait()
}

// Everything works on a node that is a slot of a cluster, alone and as one of three nodes.
func TestRealClusterServesAllKinds(t *testing.T) {
	t.Parallel()
	s := startSlot(t)
	two := startCluster(t, 2)
	two.open()
	for name, others := range map[string][]string{"the only node": nil, "one of three nodes": two.addresses()} {
		t.Run(name, func(t *testing.T) { s.servesAllKinds(t, others) })
		s.forgetLists()
	}

	// As one of three, the node may fail as any other.
	client := s.client(two.addresses()...)
	lease := acquire(t, client.RedLock("job"))
	owner := s.Owner(s.marker)
	owner.Kill()
	staysValid(t, lease, slotTTL)
	require.NoError(t, lease.Release(t.Context()))
	s.Await("a replica takes over", func() bool { return s.Owner(s.marker) != owner })
	lease = acquire(t, client.RedLock("job"))
	backedByAll(t, lease, 2*slotLimits().Recovery())
	require.NoError(t, lease.Release(t.Context()))
}

func (s *slot) servesAllKinds(t *testing.T, others []string) {
	t.Helper()
	one, two := s.client(others...), s.client(others...)
	ctx := t.Context()

	lease := acquire(t, one.RedLock("job"))
	eventually(t, soon, func() bool { // the other two nodes may answer first
		keys := s.Owner(s.marker).Keys()
		return slices.Contains(keys, "{"+s.tag+"}:job") && slices.Contains(keys, s.marker)
	}, "the slot has the lock and the marker")
	require.NoError(t, lease.Extend(ctx))
	next := make(chan error, 1)
	go func() {
		lease, err := two.RedLock("job").Acquire(ctx)
		if err == nil {
			err = lease.Release(ctx)
		}
		next <- err
	}()
	eventually(t, soon, func() bool {
		n, err := s.Owner(s.marker).Command("ZCARD", "quorumlock:queue::{"+s.tag+"}:job")
		return err == nil && n == "1"
	}, "the waiter has its place on the cluster")
	_, err := two.RedLock("job").TryAcquire(ctx)
	require.ErrorIs(t, err, quorumlock.ErrHeld)
	began := time.Now()
	require.NoError(t, lease.Release(ctx))
	require.NoError(t, <-next)
	t.Logf("the waiter got the lock %v after the release", time.Since(began))

	both := acquire(t, one.MultiLock("a", "b"))
	_, err = two.RedLock("b").TryAcquire(ctx)
	require.ErrorIs(t, err, quorumlock.ErrHeld)
	require.NoError(t, both.Release(ctx))

	permits, err := one.Semaphore("ports", 3).Acquire(ctx, 2)
	require.NoError(t, err)
	_, err = two.Semaphore("ports", 3).TryAcquire(ctx, 2)
	require.Error(t, err)
	require.NoError(t, permits.Release(ctx))

	read, err := one.RWLock("doc").Read().Acquire(ctx)
	require.NoError(t, err)
	_, err = two.RWLock("doc").Write().TryAcquire(ctx)
	require.Error(t, err)
	require.NoError(t, read.Release(ctx))

	latch := fmt.Sprintf("done on %d", 1+len(others)) // the same nodes must always serve a latch
	require.NoError(t, one.Latch(latch).Set(ctx, 1))
	require.NoError(t, two.Latch(latch).CountDown(ctx, "x"))
	require.NoError(t, one.Latch(latch).Await(ctx))
	require.NoError(t, one.Latch(latch).Delete(ctx))

	_, err = two.RedLock("job").Inspect(ctx)
	require.NoError(t, err)
}

// The slot moves while locks are taken: by a planned failover, with its keys to another shard, in one step, which Valkey
// has from 9.0 on, and by the death of its owner. No name has two holders, and each new owner recovers before it grants new locks. The long form goes on at
// random, and has the slot as one of three nodes too, while the other two hang in turn.
func TestRealClusterMovesUnderLoad(t *testing.T) {
	t.Parallel()
	s := startSlot(t)
	l := s.load()
	for _, way := range moves {
		l.move(way)
	}
	if !*longForm {
		return
	}
	l.moveAtRandom()
	l.end()
	two := startCluster(t, 2)
	two.open()
	l = s.load(two.addresses()...)
	var pauses sync.WaitGroup
	pauses.Go(func() { two.pauseInTurn(l.ctx, func(int) bool { return false }) })
	l.moveAtRandom()
	l.end()
	pauses.Wait()
}

// move is a way in which a slot gets another owner.
type move struct {
	name string
	do   func(s *slot, owner *redisproc.Server)
}

// moves are the ways that all servers have.
var moves = []move{
	{"a planned failover", func(s *slot, _ *redisproc.Server) { s.Failover(s.marker) }},
	{"a move", func(s *slot, _ *redisproc.Server) { s.Move(s.marker, s.OtherMaster(s.marker), nil) }},
	{"a move in one step, where servers have it", func(s *slot, _ *redisproc.Server) {
		if to := s.OtherMaster(s.marker); !s.MoveAtOnce(s.marker, to) {
			s.Move(s.marker, to, nil)
		}
	}},
	{"the death of the owner", func(s *slot, owner *redisproc.Server) {
		owner.Kill()
		s.Await("a replica takes over", func() bool { return s.Owner(s.marker) != owner })
		owner.Restart()
	}},
}

// move gives the slot another owner, and requires that locks are granted again.
func (l *slotLoad) move(way move) {
	l.t.Helper()
	owner := l.s.Owner(l.s.marker)
	way.do(l.s, owner)
	l.s.Await("another server owns the slot", func() bool { return l.s.Owner(l.s.marker) != owner })
	began := time.Now()
	l.advances(way.name)
	l.t.Logf("%s: locks were granted %v later, %d so far", way.name, time.Since(began).Round(time.Millisecond), l.total())
	l.s.AwaitHealthy()
}

// moveAtRandom gives the slot another owner many times.
func (l *slotLoad) moveAtRandom() {
	l.t.Helper()
	const times = 15
	for range times {
		l.move(moves[rand.IntN(len(moves))])
	}
}

// The owner of the slot is cut off from the cluster, but not from its clients. Its replica takes over, without the
// latest locks of the owner.
func TestRealClusterMasterCutOff(t *testing.T) {
	t.Parallel()
	s := startSlot(t)
	for _, server := range s.Servers() {
		server.Config("cluster-node-timeout", "1000")
	}
	l := s.load()
	owner := s.Owner(s.marker)
	replica := s.ReplicaOf(owner)
	holder := newClient(t, withMaxTTL(slotTTL), func(cfg *quorumlock.Config) { cfg.Addresses = []string{s.address()} })
	_ = acquire(t, holder.RedLock("first")).Release(t.Context())

	// The replica gets nothing more.
	replica.Config("masteruser", "nobody")
	replica.Config("masterauth", "none")
	_, err := replica.Command("CLIENT", "KILL", "TYPE", "master")
	require.NoError(t, err)
	unknown := acquire(t, holder.RedLock("unknown to the replica"))
	s.CutOff(owner)
	cut := time.Now()
	s.Await("the replica has taken over", func() bool { return s.Owner(s.marker) == replica })
	promoted := time.Since(cut)
	other := newClient(t, withMaxTTL(slotTTL), func(cfg *quorumlock.Config) { cfg.Addresses = []string{s.address(owner)} })
	l.add(other)
	s.Await("the old owner stops", func() bool {
		_, err := owner.Command("HGET", s.marker, "identity")
		return err != nil
	})
	stopped := time.Since(cut)

	// A lease that the new owner does not know is kept as long as its holder renews it there during the recovery.
	if next, err := other.RedLock("unknown to the replica").TryAcquire(t.Context()); err == nil {
		require.Error(t, unknown.Err(), "the new owner must recover first")
		require.NoError(t, next.Release(t.Context()))
	}
	l.advances("the cut")
	_ = unknown.Release(t.Context()) // if it is still valid
	later := acquire(t, other.RedLock("unknown to the replica"))
	require.Error(t, unknown.Err())
	require.Greater(t, later.Token(), unknown.Token())
	l.end()
	t.Logf("the replica was promoted %v after the cut, and the old owner stopped after %v", promoted, stopped)
}

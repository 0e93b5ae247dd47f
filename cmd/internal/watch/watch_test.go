package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/internal/inbox"
	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/rights"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// patience bounds every wait of a test. answers bounds each answer of a node: a busy machine does not exceed it.
const (
	patience = time.Minute
	answers  = 5 * time.Second
)

// servers starts servers that are open nodes.
func servers(t *testing.T) (all []*redisproc.Server, addresses []string) {
	t.Helper()
	all = redisproc.StartN(t, 3)
	for _, s := range all {
		addresses = append(addresses, s.Addr())
	}
	_, err := admin.Init(t.Context(), quorumlock.Config{Addresses: addresses})
	require.NoError(t, err)
	return all, addresses
}

func client(t *testing.T, addresses []string, prefix ...string) *quorumlock.Client {
	t.Helper()
	c, err := quorumlock.New(quorumlock.Config{
		Addresses: addresses, Prefix: strings.Join(prefix, ""), Logger: slog.New(slog.DiscardHandler), NodeTimeoutMax: time.Second,
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func watcher(t *testing.T, addresses []string, scan int, names ...string) *Watcher {
	t.Helper()
	return watcherOf(t, addresses, Config{Scan: scan, Names: names, MostPermits: 300})
}

func watcherOf(t *testing.T, addresses []string, cfg Config) *Watcher {
	t.Helper()
	cfg.Limits, cfg.Patience = quorumlock.Config{}.Limits(), answers
	for _, address := range addresses {
		opt, err := node.ParseOptions(address)
		require.NoError(t, err)
		cfg.Nodes = append(cfg.Nodes, opt)
	}
	w, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(w.Close)
	return w
}

// waitFor starts a waiter for a lock, which waits until the test ends. It returns when the waiter is in the queues of
// all servers.
func waitFor(t *testing.T, all []*redisproc.Server, acquire acquisition, queue string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if lease, err := acquire(ctx); err == nil {
			_ = lease.Release(context.WithoutCancel(ctx))
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	for _, s := range all {
		require.Eventually(t, func() bool { return slices.Contains(s.Keys(), queue) }, patience, time.Millisecond)
	}
}

func command(t *testing.T, s *redisproc.Server, args ...string) string {
	t.Helper()
	answer, err := s.Command(args...)
	require.NoError(t, err)
	return answer
}

type acquisition func(context.Context) (*quorumlock.Lease, error)

// hold acquires a lock, and returns when all servers have granted it. Acquire itself returns before the slowest
// server has answered.
func (a acquisition) hold(t *testing.T, all []*redisproc.Server, name string) *quorumlock.Lease {
	t.Helper()
	lease, err := a(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { runtime.KeepAlive(lease) }) // the garbage collector ends a lease without references
	for _, s := range all {
		require.Eventually(t, func() bool { return slices.Contains(s.Keys(), name) }, patience, time.Millisecond)
	}
	return lease
}

func permit(c *quorumlock.Client) acquisition {
	return func(ctx context.Context) (*quorumlock.Lease, error) { return c.Semaphore("s", 1).Acquire(ctx, 1) }
}

// TestLook finds every kind of lock with its holders and waiters. It finds no other keys, and it changes nothing.
func TestLook(t *testing.T) {
	t.Parallel()
	all, addresses := servers(t)
	holder, other := client(t, addresses), client(t, addresses)
	pool := wire.PoolName("s")
	slot := wire.SlotName(pool, 0)
	for name, a := range map[string]acquisition{
		"a": holder.RedLock("a").Acquire, "x{y}z": holder.RedLock("x{y}z").Acquire, slot: permit(holder),
		"r": holder.RWLock("r").Read().Acquire,
	} {
		a.hold(t, all, name)
	}
	reader := acquisition(other.RWLock("r").Read().Acquire).hold(t, all, "r")
	for _, s := range all {
		require.Eventually(t, func() bool {
			return strings.Contains(command(t, s, "ZRANGE", "quorumlock:readers:{r}", "0", "-1"), reader.Owner())
		}, patience, time.Millisecond)
	}
	waitFor(t, all, other.RedLock("a").Acquire, "quorumlock:waiting:{a}")
	waitFor(t, all, other.RedLock("x{y}z").Acquire, "quorumlock:waiting::x{y}z")
	waitFor(t, all, permit(other), "quorumlock:waiting::"+pool)
	for _, s := range all {
		command(t, s, "HSET", "two", "a:1", "1", "b:1", "1")
		command(t, s, "SET", "text", "x")
		command(t, s, "CONFIG", "RESETSTAT")
	}

	w := watcher(t, addresses, 1000)
	facts := w.Look(t.Context())
	assert.Equal(t, []string{"a", slot, "r", "x{y}z"}, facts.Names)
	assert.True(t, facts.Whole)
	for i, n := range facts.Nodes {
		require.NoError(t, n.Err)
		require.NoError(t, n.Unlisted)
		require.NoError(t, n.Uncounted)
		assert.Equal(t, addresses[i], n.Name)
		assert.Positive(t, n.Latency)
		assert.Zero(t, n.Recovering)
		waiters := make(map[string]int)
		holders := make(map[string]int)
		for name, l := range n.Locks {
			waiters[name], holders[name] = l.Waiters, len(l.Holders)
		}
		assert.Equal(t, map[string]int{"a": 1, "x{y}z": 1, slot: 1, "r": 0}, waiters)
		assert.Equal(t, map[string]int{"a": 1, "x{y}z": 1, slot: 1, "r": 2}, holders)
	}
}

// TestOnlyReadCommands checks that the servers run no command that writes.
func TestOnlyReadCommands(t *testing.T) {
	t.Parallel()
	all, addresses := servers(t)
	for _, s := range all {
		command(t, s, "HSET", "a", "a:1", "1")
		command(t, s, "ZADD", "quorumlock:queue:{a}", "1", "w:1", "2", "late:1", "3", "b:1")
		command(t, s, "HSET", "quorumlock:waiting:{a}", "w:1", "9999999999999", "late:1", "1", "+w:1", "1")
		command(t, s, "HSET", wire.SlotName(wire.PoolName("s"), 299), "a:2", "1")
		command(t, s, "HSET", "quorumlock:latch:{s}", "generation", "7", "count", "2")
		command(t, s, "ZADD", "quorumlock:latched:{s}", "1", "id")
		command(t, s, "CONFIG", "RESETSTAT")
	}
	facts := watcher(t, addresses, 1000, "s").Look(t.Context())
	assert.Equal(t, 1, facts.Nodes[0].Locks["a"].Waiters)
	assert.Equal(t, []string{wire.SlotName(wire.PoolName("s"), 299)}, facts.Permits("s"))
	assert.Equal(t, Kinds{Generation: 7, Count: 2, Counted: []string{"id"}}, facts.Nodes[0].Kinds["s"])
	reads := []string{
		"hello", "client|setinfo", "client|info", "client|setname", "ping", "info", "config|resetstat", "eval", "evalsha", "script|load",
		"scan", "hlen", "time", "zrange", "hmget", "hkeys", "pttl", "hget", "getrange",
	}
	for _, s := range all {
		for _, m := range regexp.MustCompile(`cmdstat_([a-z_|]+):`).FindAllStringSubmatch(command(t, s, "INFO", "commandstats"), -1) {
			assert.Contains(t, reads, m[1])
		}
	}
}

// TestHolderIsNotListedAsWaiter: a client that acquired after waiting is no waiter, although the nodes keep its queue
// entry.
func TestHolderIsNotListedAsWaiter(t *testing.T) {
	t.Parallel()
	all, addresses := servers(t)
	first := acquisition(client(t, addresses).RedLock("a").Acquire).hold(t, all, "a")
	second := client(t, addresses).RedLock("a")
	got := make(chan error, 1)
	var lease *quorumlock.Lease
	go func() {
		var err error
		lease, err = second.Acquire(t.Context())
		got <- err
	}()
	for _, s := range all {
		require.Eventually(t, func() bool { return slices.Contains(s.Keys(), "quorumlock:waiting:{a}") }, patience, time.Millisecond)
	}
	w := watcher(t, addresses, 0, "a")
	for _, n := range w.Look(t.Context()).Nodes {
		assert.Equal(t, 1, n.Locks["a"].Waiters)
	}
	require.NoError(t, first.Release(t.Context()))
	require.NoError(t, <-got)
	// A slow node that got the lock by a renewal still counts the waiter. The other nodes suffice.
	require.Eventually(t, func() bool {
		nodes, right := w.Look(t.Context()).Nodes, 0
		for i, s := range all {
			l := nodes[i].Locks["a"]
			stands := command(t, s, "EXISTS", "quorumlock:waiting:{a}") == "1" // as it did before
			if stands && len(l.Holders) == 1 && l.Waiters == 0 {
				right++
			}
		}
		return right >= 2
	}, patience, time.Millisecond)
	runtime.KeepAlive(lease) // Otherwise a garbage collection may end its renewal while the test still looks.
}

// TestSearchIsBounded: a look searches no more keys than it may, and says whether these are all.
func TestSearchIsBounded(t *testing.T) {
	t.Parallel()
	all, addresses := servers(t)
	s := all[0]
	for i := range 5000 {
		if i%1000 == 0 {
			command(t, s, "HSET", fmt.Sprint("lock", i), "a:1", "1")
			command(t, s, "PEXPIRE", fmt.Sprint("lock", i), "100000")
		}
	}
	command(t, s, "EVAL", "for i = 1, 5000 do redis.call('SET', 'key' .. i, '') end", "0")
	command(t, s, "CONFIG", "RESETSTAT")
	assert.False(t, watcher(t, addresses[:1], 2000).Look(t.Context()).Whole)
	scans := regexp.MustCompile(`cmdstat_scan:calls=(\d+)`).FindStringSubmatch(command(t, s, "INFO", "commandstats"))
	require.NotNil(t, scans)
	var calls int
	_, err := fmt.Sscan(scans[1], &calls)
	require.NoError(t, err)
	assert.LessOrEqual(t, calls, 2)

	facts := watcher(t, addresses[:1], 20000).Look(t.Context())
	assert.True(t, facts.Whole)
	assert.Equal(t, []string{"lock0", "lock1000", "lock2000", "lock3000", "lock4000"}, facts.Names)
}

// TestRights: with the documented rights, names must be given. With two more rights, the search finds them.
func TestRights(t *testing.T) {
	t.Parallel()
	all, addresses := servers(t)
	holder := client(t, addresses)
	acquisition(holder.RedLock("job:a").Acquire).hold(t, all, "job:a")
	waitFor(t, all, client(t, addresses).RedLock("job:a").Acquire, "quorumlock:waiting:{job:a}")
	acquisition(holder.RedLock("other").Acquire).hold(t, all, "other")
	asUser := make([]string, len(all))
	for i, s := range all {
		command(t, s, strings.Fields(rights.SetUser("locker", "secret", "job:*"))...)
		asUser[i] = "redis://locker:secret@" + s.Addr()
	}

	w := watcher(t, asUser, 1000, "job:a", "other")
	for _, n := range w.Look(t.Context()).Nodes {
		require.NoError(t, n.Err)
		require.ErrorIs(t, n.Unlisted, errDenied)
		require.Error(t, n.Locks["other"].Err)
		assert.Len(t, n.Locks["job:a"].Holders, 1)
	}
	w = watcher(t, asUser, 0, "job:a")
	for _, n := range w.Look(t.Context()).Nodes {
		require.NoError(t, n.Uncounted)
		assert.Equal(t, 1, n.Locks["job:a"].Waiters)
	}

	for _, s := range all {
		command(t, s, "ACL", "SETUSER", "locker", "+scan")
	}
	require.ErrorIs(t, watcher(t, asUser, 1000).Look(t.Context()).Nodes[0].Unlisted, errDenied)
	for _, s := range all {
		command(t, s, "ACL", "SETUSER", "locker", "+hlen")
	}
	facts := watcher(t, asUser, 1000).Look(t.Context())
	require.NoError(t, facts.Nodes[0].Unlisted)
	assert.Equal(t, []string{"job:a"}, facts.Names)

	text, err := os.ReadFile("../../../docs/servers.md")
	require.NoError(t, err)
	documented := strings.Join(strings.Fields(strings.ReplaceAll(string(text), "\\\n", " ")), " ")
	assert.Contains(t, documented, rights.SetViewer("viewer", "another"))
	for i, s := range all {
		command(t, s, strings.Fields(rights.SetViewer("viewer", "another"))...)
		asUser[i] = "redis://viewer:another@" + s.Addr()
	}
	facts = watcher(t, asUser, 1000).Look(t.Context())
	for i, n := range facts.Nodes {
		require.NoError(t, errors.Join(n.Err, n.Unlisted, n.Uncounted))
		assert.Equal(t, 1, n.Locks["job:a"].Waiters)
		assert.NotContains(t, command(t, all[i], "ACL", "LOG"), "viewer", "something was denied")
	}
	assert.Equal(t, []string{"job:a", "other"}, facts.Names)
}

// TestNodeAndNameFailures: nodes that are down, hang, or recover, and names that are no locks, do not affect other
// results.
func TestNodeAndNameFailures(t *testing.T) {
	t.Parallel()
	all, addresses := servers(t)
	acquisition(client(t, addresses).RedLock("a").Acquire).hold(t, all, "a")
	command(t, all[0], "SET", "text", "x")
	w := watcher(t, addresses, 1000, "text", "a", "nobody's", "a")
	facts := w.Look(t.Context())
	assert.Equal(t, []string{"text", "a", "nobody's"}, facts.Names)
	require.ErrorIs(t, facts.Nodes[0].Locks["text"].Err, node.ErrWrongType)
	assert.Len(t, facts.Nodes[0].Locks["a"].Holders, 1)

	all[1].Kill()
	all[2].Pause()
	facts = w.Look(t.Context())
	require.NoError(t, facts.Nodes[0].Err)
	require.ErrorIs(t, facts.Nodes[1].Err, node.ErrUnreachable)
	require.ErrorIs(t, facts.Nodes[2].Err, node.ErrTimeout)
	assert.Empty(t, slices.Collect(maps.Keys(facts.Nodes[2].Locks)))

	all[1].Restart()
	assert.Positive(t, watcher(t, addresses[1:2], 0, "a").Look(t.Context()).Nodes[0].Recovering)
}

// TestLatchOnNodesThatDiffer: ids count that any node knows, but only those since the last deletion.
func TestLatchOnNodesThatDiffer(t *testing.T) {
	kinds := func(generation uint64, count int, ids ...string) Node {
		return Node{Kinds: map[string]Kinds{"l": {Generation: generation, Count: count, Counted: ids}}}
	}
	for _, c := range []struct {
		nodes          []Node
		count, counted int
	}{
		{[]Node{kinds(0, 0), kinds(0, 0)}, 0, 0},
		{[]Node{kinds(0, 3, "a"), kinds(0, 3, "b"), kinds(0, 0)}, 3, 2},
		{[]Node{kinds(0, 3, "a"), kinds(9, 2, "b"), {}}, 2, 1},
		{[]Node{kinds(0, 3, "a"), kinds(9, 0)}, 0, 0},
	} {
		count, counted := (&Facts{Nodes: c.nodes}).Latch("l")
		assert.Equal(t, []int{c.count, c.counted}, []int{count, counted}, c)
	}
}

func TestInvalidNodeOptions(t *testing.T) {
	_, err := New(Config{Nodes: []node.Options{{Addresses: []string{"a:1"}}, {}}})
	require.Error(t, err)
}

// TestPrefix: a watcher with a prefix finds and takes the locks of one application, and knows their names without it.
func TestPrefix(t *testing.T) {
	t.Parallel()
	all, addresses := servers(t)
	billing := client(t, addresses, "billing:")
	plain := client(t, addresses)
	slotOnNodes, slot := wire.SlotName(wire.PoolName("billing:s"), 0), wire.SlotName(wire.PoolName("s"), 0)
	mine := acquisition(billing.RedLock("job").Acquire).hold(t, all, "billing:job")
	other := acquisition(plain.RedLock("job").Acquire).hold(t, all, "job")
	acquisition(plain.RedLock("billing:").Acquire).hold(t, all, "billing:") // no name of that application
	permitLease := permit(billing).hold(t, all, slotOnNodes)
	waitFor(t, all, plain.RedLock("billing:job").Acquire, "quorumlock:waiting:{billing:job}")
	require.NoError(t, billing.Latch("done").Set(t.Context(), 2))

	w := watcherOf(t, addresses, Config{MostPermits: 3, Scan: 1000, Prefix: "billing:", Names: []string{"done", "s"}})
	facts := w.Look(t.Context())
	assert.ElementsMatch(t, []string{"done", "s", "job", slot}, facts.Names)
	assert.Equal(t, []string{slot}, facts.Permits("s"))
	count, counted := facts.Latch("done")
	assert.Equal(t, []int{2, 0}, []int{count, counted})
	for _, n := range facts.Nodes {
		require.NoError(t, n.Err)
		require.Len(t, n.Locks["job"].Holders, 1)
		assert.Equal(t, "job", n.Locks["job"].Holders[0].Name)
		assert.Equal(t, mine.Owner(), n.Locks["job"].Holders[0].Owner)
		assert.Equal(t, 1, n.Locks["job"].Waiters)
		require.Len(t, n.Locks[slot].Holders, 1)
	}
	heard := listen(t, w.nodes[0].Options, permitLease.Owner())
	for _, r := range w.Evict(t.Context(), permitLease.Owner(), []string{slot}, 1) {
		require.NoError(t, r.Err)
	}
	select {
	case m := <-heard:
		assert.Equal(t, wire.Message{Kind: wire.Forced, Waiter: permitLease.Owner(), Name: slotOnNodes}, m)
	case <-time.After(30 * time.Second):
		t.Error("the client of the owner is not told")
	}
	for _, r := range w.ForceRelease(t.Context(), "job", []string{mine.Owner()}) {
		require.NoError(t, r.Err)
	}
	for _, s := range all {
		assert.NotContains(t, s.Keys(), slotOnNodes)
		for name, owner := range map[string]string{slotOnNodes: permitLease.Owner(), "billing:job": mine.Owner()} {
			ends, err := s.Command("HGET", wire.Key("tombstone", name), owner)
			require.NoError(t, err)
			ms, err := strconv.ParseInt(ends, 10, 64)
			require.NoError(t, err)
			assert.Greater(t, ms, time.Now().UnixMilli(), name)
			left, err := s.Command("PTTL", wire.Key("tombstone", name))
			require.NoError(t, err)
			assert.NotEqual(t, "-1", left, name)
		}
	}
	status, err := plain.RedLock("job").Inspect(t.Context())
	require.NoError(t, err)
	assert.Equal(t, other.Owner(), status.Holder(), "the lock of another application stays")
	<-mine.Context().Done()
	require.ErrorIs(t, mine.Err(), quorumlock.ErrLost)
}

// listen opens the inbox of an owner's client on a node. It delivers the messages of forced releases.
func listen(t *testing.T, opt node.Options, owner string) <-chan wire.Message {
	t.Helper()
	nd, err := node.New(opt)
	require.NoError(t, err)
	t.Cleanup(func() { _ = nd.Close() })
	heard := make(chan wire.Message, 100)
	id, _, _ := strings.Cut(owner, ":")
	inbox, err := inbox.Listen(t.Context(), nd, id, false, func(m wire.Message) {
		if m.Kind == wire.Forced {
			heard <- m
		}
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = inbox.Close() })
	return heard
}

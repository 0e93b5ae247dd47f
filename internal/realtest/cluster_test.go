package realtest_test

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// cluster is a set of real servers with the operations that tests need.
type cluster struct {
	t       testing.TB
	servers []*redisproc.Server
}

func startCluster(t testing.TB, n int, opts ...redisproc.Option) *cluster {
	t.Helper()
	c := &cluster{t: t, servers: redisproc.StartN(t, n, opts...)}
	c.open()
	return c
}

func (c *cluster) addresses() []string {
	addrs := make([]string, 0, len(c.servers))
	for _, s := range c.servers {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// client returns a client of all servers. It is closed at the end of the test.
func (c *cluster) client(changes ...func(*quorumlock.Config)) *quorumlock.Client {
	c.t.Helper()
	changes = append([]func(*quorumlock.Config){func(cfg *quorumlock.Config) { cfg.Addresses = c.addresses() }}, changes...)
	return newClient(c.t, changes...)
}

// open makes the servers grant locks, in any state of the servers.
// Package admin would refuse that. Its own tests cover it.
func (c *cluster) open() {
	c.t.Helper()
	for i := range c.servers {
		c.command(i, "HSET", "quorumlock:node", "identity", c.servers[i].ReplicationID(), "since", "0", "restarted", "0", "open", "")
	}
}

func newClient(t testing.TB, changes ...func(*quorumlock.Config)) *quorumlock.Client {
	t.Helper()
	cfg := quorumlock.Config{Logger: slog.New(slog.DiscardHandler)}
	patiently(&cfg)
	for _, change := range changes {
		change(&cfg)
	}
	client, err := quorumlock.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { closeClient(t, client) })
	return client
}

// closeClient closes a client, which must end in time. Locks that the client could not release do
// not matter here.
func closeClient(t testing.TB, client *quorumlock.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_ = client.Close(ctx)
	require.NoError(t, ctx.Err(), "Close took longer than the node timeouts allow")
}

// patientTTL is the TTL of leases that must survive on a busy machine. A TTL of one second would leave a
// node 100 ms to answer, which is sometimes too little there.
const patientTTL = 4 * time.Second

// withTTL sets the TTL of a client's locks and the longest node timeout that the configuration
// allows. A short timeout loses leases on a busy machine even if all nodes are healthy.
func withTTL(ttl time.Duration) func(*quorumlock.Config) {
	return func(cfg *quorumlock.Config) {
		cfg.TTL, cfg.NodeTimeoutMin, cfg.NodeTimeoutMax = ttl, ttl/3, ttl/3
	}
}

// patiently sets node timeouts that a busy machine does not exceed. It is the default for all
// clients.
func patiently(cfg *quorumlock.Config) {
	cfg.NodeTimeoutMin, cfg.NodeTimeoutMax = time.Second, time.Second
}

// undisturbed makes a client of which a test counts the commands: no renewal and no repetition after a timeout falls
// into the test.
func undisturbed(cfg *quorumlock.Config) {
	cfg.TTL, cfg.MaxTTL = time.Minute, time.Minute
	cfg.NodeTimeoutMin, cfg.NodeTimeoutMax = cfg.TTL/3, cfg.TTL/3
}

// withMaxTTL sets the TTL of all locks. A node's recovery then takes half as long again.
func withMaxTTL(ttl time.Duration) func(*quorumlock.Config) {
	return func(cfg *quorumlock.Config) {
		withTTL(ttl)(cfg)
		cfg.MaxTTL, cfg.MaxClockSkew = ttl, ttl/2
	}
}

// acquire acquires a lock, which must succeed.
func acquire(t testing.TB, lock *quorumlock.Lock) *quorumlock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	lease, err := lock.Acquire(ctx)
	require.NoError(t, err, "the lock could not be acquired")
	return lease
}

// command runs a command that must succeed on one server.
func (c *cluster) command(i int, args ...string) string {
	c.t.Helper()
	text, err := c.servers[i].Command(args...)
	require.NoError(c.t, err, "%v on node %d", args, i)
	return text
}

// number runs a command that answers with an integer.
func (c *cluster) number(i int, args ...string) int {
	c.t.Helper()
	n, err := strconv.Atoi(c.command(i, args...))
	require.NoError(c.t, err, "%v on node %d", args, i)
	return n
}

// owner returns the owner of the name on one node, or "" if the name is free.
func (c *cluster) owner(i int, name string) string {
	c.t.Helper()
	return c.command(i, "HKEYS", name)
}

// plant writes another owner's lock of the job to some nodes in Redisson's layout.
func (c *cluster) plant(owner string, ttl time.Duration, nodes ...int) {
	c.t.Helper()
	for _, i := range nodes {
		c.command(i, "HSET", "job", owner, "1")
		c.command(i, "PEXPIRE", "job", strconv.FormatInt(ttl.Milliseconds(), 10))
	}
}

// calls returns the number of scripts that a server has run so far.
func (c *cluster) calls(i int) int {
	c.t.Helper()
	return c.ran(i, "evalsha", "eval")
}

// ran returns how often a server has run these commands so far, also from scripts.
func (c *cluster) ran(i int, commands ...string) int {
	c.t.Helper()
	total := 0
	for line := range strings.Lines(c.command(i, "INFO", "commandstats")) {
		name, stats, _ := strings.Cut(line, ":calls=")
		if command, ok := strings.CutPrefix(name, "cmdstat_"); ok && slices.Contains(commands, command) {
			n, _, _ := strings.Cut(stats, ",")
			calls, err := strconv.Atoi(n)
			require.NoError(c.t, err)
			total += calls
		}
	}
	return total
}

// pause makes nodes hang, and resume ends the pause. kill ends servers, and restart starts them without
// their memory.
func (c *cluster) pause(nodes ...int) {
	for _, i := range nodes {
		c.servers[i].Pause()
	}
}

func (c *cluster) resume(nodes ...int) {
	for _, i := range nodes {
		c.servers[i].Resume()
	}
}

func (c *cluster) kill(nodes ...int) {
	for _, i := range nodes {
		c.servers[i].Kill()
	}
}

func (c *cluster) restart(nodes ...int) {
	for _, i := range nodes {
		c.servers[i].Restart()
	}
}

// soon is well below the TTL of 10 s, after which keys would expire.
const soon = 3 * time.Second

// noKeys requires that every node is empty soon, because the library removes the keys.
func (c *cluster) noKeys() {
	c.t.Helper()
	left := func() (all []string) {
		for i := range c.servers {
			all = append(all, c.locks(i)...)
		}
		return all
	}
	eventually(c.t, soon, func() bool { return len(left()) == 0 }, "no node has a key; these are left: %v", left)
}

// locks lists the keys on one server, except its marker, the fences, and the lists of nodes in use.
func (c *cluster) locks(i int) []string {
	c.t.Helper()
	return slices.DeleteFunc(c.servers[i].Keys(), func(key string) bool {
		return key == "quorumlock:node" || key == "quorumlock:fences" || strings.HasPrefix(key, wire.ListKey(""))
	})
}

// holds requires that one owner soon has the name on all nodes, and no other owner has it.
func (c *cluster) holds(name, owner string) {
	c.t.Helper()
	owners := func() (all []string) {
		for i := range c.servers {
			all = append(all, c.owner(i, name))
		}
		return all
	}
	eventually(c.t, soon, func() bool {
		return !slices.ContainsFunc(owners(), func(o string) bool { return o != owner })
	}, "every node has %q for %s; the owners are %v", name, owner, owners)
}

// eventually repeats a check until it succeeds. The bound assumes that the machine runs each
// goroutine when it is due. The delays of a busy machine do not count. Functions among the
// arguments of the description are called for the message.
func eventually(t testing.TB, within time.Duration, cond func() bool, expected string, args ...any) {
	t.Helper()
	const pause = 5 * time.Millisecond
	began := time.Now()
	for spent := time.Duration(0); !cond(); spent += pause {
		took := time.Since(began)
		switch {
		case took > within && spent >= within/2: // The check itself takes time, even on an idle machine.
			for i, arg := range args {
				if describe, ok := arg.(func() []string); ok {
					args[i] = describe()
				}
			}
			t.Fatalf("not seen within %v, but after %v: "+expected, append([]any{within, took}, args...)...)
		case took > within+atMost:
			t.Fatalf("the machine was too busy to check within %v: "+expected, append([]any{took}, args...)...)
		}
		time.Sleep(pause)
	}
}

// staysValid requires that a lease stays valid for the given time, through all faults of the test.
func staysValid(t testing.TB, lease *quorumlock.Lease, span time.Duration) {
	t.Helper()
	select {
	case <-lease.Context().Done():
	case <-time.After(span):
	}
	require.NoError(t, lease.Err(), "the lease stays valid")
}

// backedByAll requires that renewals put a lease on all nodes, and that it stays valid meanwhile.
func backedByAll(t testing.TB, lease *quorumlock.Lease, within time.Duration) {
	t.Helper()
	eventually(t, within, func() bool {
		require.NoError(t, lease.Err(), "the lease stays valid")
		have, total := lease.Backing()
		return have == total
	}, "renewals put the lock on all nodes")
}

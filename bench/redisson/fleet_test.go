package redisson

import (
	"context"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/internal/redisproc"
)

const (
	name    = "job"
	channel = "redisson_lock__channel:{job}"
	queue   = "quorumlock:queue:{job}"
	// watchdog is the TTL of Redisson's locks without a lease.
	watchdog = 30 * time.Second
)

// redLock describes this library's RedLock of that name for Java.
var redLock = Lock{Kind: Red, Name: name}

// fleet is five servers with clients of both sides.
type fleet struct {
	t       *testing.T
	ctx     context.Context
	servers []*redisproc.Server
	config  quorumlock.Config
	java    *Process
}

// newFleet starts servers for clients with this TTL, and uses the Java process that the tests share.
func newFleet(t *testing.T, ttl time.Duration) *fleet {
	t.Helper()
	if shared == nil {
		process, err := Start()
		shared = needed(t, process, err)
	}
	return fleetOf(t, shared, ttl)
}

func fleetOf(t *testing.T, java *Process, ttl time.Duration) *fleet {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute+*duration)
	t.Cleanup(cancel)
	f := &fleet{
		t: t, ctx: ctx, servers: redisproc.StartN(t, 5), java: java,
		config: quorumlock.Config{TTL: ttl, MaxTTL: ttl, Redisson: true, Logger: slog.New(slog.DiscardHandler)},
	}
	f.config.Addresses = f.addresses()
	// A short timeout loses answers on a busy machine, even if all nodes are healthy.
	f.config.NodeTimeoutMax = min(ttl/3, 2*time.Second)
	f.config.NodeTimeoutMin = f.config.NodeTimeoutMax
	_, err := admin.Init(ctx, f.config)
	require.NoError(t, err)
	return f
}

func (f *fleet) addresses() (all []string) {
	for _, s := range f.servers {
		all = append(all, s.Addr())
	}
	return all
}

// golang returns a client of this library.
func (f *fleet) golang(changes ...func(*quorumlock.Config)) *quorumlock.Client {
	f.t.Helper()
	config := f.config
	for _, change := range changes {
		change(&config)
	}
	client, err := quorumlock.New(config)
	require.NoError(f.t, err)
	f.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = client.Close(ctx) // Unconfirmed releases do not matter here.
	})
	return client
}

// caller returns a thread of a new Redisson client.
func (f *fleet) caller(ttl time.Duration) *Caller {
	f.t.Helper()
	client, err := f.java.Open(f.ctx, f.addresses(), ttl)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = client.Close(context.Background()) }) // This fails if the process was killed.
	return client.Caller()
}

// command runs a command that must succeed on one server.
func (f *fleet) command(i int, args ...string) string {
	f.t.Helper()
	text, err := f.servers[i].Command(args...)
	require.NoError(f.t, err, "%v on node %d", args, i)
	return text
}

func (f *fleet) number(i int, args ...string) int {
	f.t.Helper()
	n, err := strconv.Atoi(f.command(i, args...))
	require.NoError(f.t, err, "%v on node %d", args, i)
	return n
}

// owners returns the owner of the lock on each node, or "" for none.
func (f *fleet) owners() (all []string) {
	f.t.Helper()
	for i := range f.servers {
		all = append(all, f.command(i, "HKEYS", name))
	}
	return all
}

// owned waits until one owner has the lock on all nodes.
func (f *fleet) owned(owner string) {
	f.t.Helper()
	f.eventually(func() bool {
		for _, o := range f.owners() {
			if o != owner {
				return false
			}
		}
		return true
	}, "%s must hold the lock on every node", owner)
}

func (f *fleet) eventually(cond func() bool, msg string, args ...any) {
	f.t.Helper()
	require.Eventually(f.t, cond, 20*time.Second, 2*time.Millisecond, append([]any{msg}, args...)...)
}

// listeners counts the callers in Java that subscribe to the channel of the lock on a node.
func (f *fleet) listeners(i int) int {
	f.t.Helper()
	return f.number(i, "EVAL", "return redis.call('PUBSUB', 'NUMSUB', ARGV[1])[2]", "0", channel)
}

// acquire acquires a lock, which must succeed.
func (f *fleet) acquire(lock *quorumlock.Lock) *quorumlock.Lease {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, 20*time.Second)
	defer cancel()
	lease, err := lock.Acquire(ctx)
	require.NoError(f.t, err)
	return lease
}

// locked lets a caller in Java acquire a lock, which must succeed.
func (f *fleet) locked(caller *Caller, lock Lock) {
	f.t.Helper()
	got, err := caller.TryLock(f.ctx, lock, 10*time.Second)
	require.NoError(f.t, err)
	require.True(f.t, got, "the caller in Java did not get the lock")
}

// stays requires that a client in Go cannot acquire the lock of a caller in Java for some time. The caller renews after a
// third of its TTL, so a TTL of three seconds survives a stall of two.
func (f *fleet) stays(lock *quorumlock.Lock, span time.Duration) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, span)
	defer cancel()
	_, err := lock.Acquire(ctx)
	require.ErrorIs(f.t, err, context.DeadlineExceeded, "the caller in Java keeps its lock")
}

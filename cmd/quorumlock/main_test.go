package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// asCommandEnv turns the test binary into the command itself, for tests that need a separate process: signals,
// terminals, SIGKILL.
const asCommandEnv = "QUORUMLOCK_TEST_AS_COMMAND"

// patience bounds every wait of a test.
const patience = 20 * time.Second

func TestMain(m *testing.M) {
	if os.Getenv(asCommandEnv) != "" {
		main()
	}
	for _, name := range []string{nodesEnv, prefixEnv, "NO_COLOR"} {
		if err := os.Unsetenv(name); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

type result struct {
	code           int
	stdout, stderr string
}

// call runs the command in this process.
func call(t *testing.T, args ...string) result {
	t.Helper()
	return callWith(t.Context(), args...)
}

func callWith(ctx context.Context, args ...string) result {
	var stdout, stderr bytes.Buffer
	code := execute(ctx, args, strings.NewReader(""), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// fleet is a set of servers, with their flags for the command.
type fleet []*redisproc.Server

func startFleet(t *testing.T) fleet { return openFleet(t, 5) }

func openFleet(t *testing.T, n int, limits ...node.Limits) fleet {
	t.Helper()
	servers := newFleet(t, n)
	servers.open(t, limits...)
	return servers
}

// newFleet starts servers that are not open.
func newFleet(t *testing.T, n int, opts ...redisproc.Option) fleet {
	t.Helper()
	return redisproc.StartN(t, n, opts...)
}

// open opens new servers, as an operator does.
func (f fleet) open(t *testing.T, limits ...node.Limits) {
	t.Helper()
	cfg := quorumlock.Config{Addresses: strings.Split(f.nodes(), ","), NodeTimeoutMax: time.Second}
	for _, l := range limits {
		cfg.MaxTTL, cfg.MaxClockSkew, cfg.NodeTimeoutMax = l.MaxTTL, l.MaxClockSkew, min(l.MaxTTL, quorumlock.DefaultTTL)/3
	}
	_, err := admin.Init(t.Context(), cfg)
	for began := time.Now(); errors.Is(err, admin.ErrUnanswered) && time.Since(began) < patience; { // a busy machine
		_, err = admin.Init(t.Context(), cfg)
	}
	require.NoError(t, err)
}

// quick are limits with which a recovery ends within the patience of a test, and the flags for them.
var (
	quick   = node.Limits{MaxTTL: 2 * time.Second, MaxClockSkew: 100 * time.Millisecond}
	quickly = []string{"--max-ttl", "2s", "--max-clock-skew", "100ms", "--node-timeout", "600ms"}
)

func (f fleet) nodes() string {
	addresses := make([]string, len(f))
	for i, s := range f {
		addresses[i] = s.Addr()
	}
	return strings.Join(addresses, ",")
}

func (f fleet) call(t *testing.T, line string, more ...string) result {
	t.Helper()
	words := strings.Fields(line)
	return call(t, slices.Concat(words[:1], []string{"--nodes", f.nodes()}, words[1:], more)...)
}

// on returns the arguments to run a shell script under the lock "k" on these servers.
func (f fleet) on(text string, flags ...string) []string {
	args := []string{"run", "--nodes", f.nodes(), "--key", "k"}
	if !slices.ContainsFunc(flags, func(flag string) bool { return flag == "--ttl" || flag == "--max-ttl" }) {
		args = append(args, "--node-timeout", "1s") // nodes are not late only because the machine is busy
	}
	args = append(args, flags...)
	return append(args, "--", "sh", "-c", text)
}

func (f fleet) command(t *testing.T, args ...string) {
	t.Helper()
	for _, s := range f {
		_, err := s.Command(args...)
		require.NoError(t, err)
	}
}

// client is another program that uses the same nodes.
func (f fleet) client(t *testing.T) *quorumlock.Client {
	t.Helper()
	c, err := quorumlock.New(quorumlock.Config{
		Addresses:      strings.Split(f.nodes(), ","),
		Logger:         slog.New(slog.DiscardHandler),
		NodeTimeoutMax: time.Second,
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// hold acquires the lock "k" for another client on all servers, and keeps it until the test ends.
func (f fleet) hold(t *testing.T) *quorumlock.Lease {
	t.Helper()
	lease, err := f.client(t).RedLock("k").Acquire(t.Context())
	return f.held(t, lease, err, "k")
}

// permit acquires one of three permits of the semaphore "s".
func (f fleet) permit(t *testing.T) *quorumlock.Lease {
	t.Helper()
	lease, err := f.client(t).Semaphore("s", 3).Acquire(t.Context(), 1)
	require.NoError(t, err)
	return f.held(t, lease, err, wire.SlotName(wire.PoolName("s"), lease.Slots()[0]))
}

// reader acquires the lock "r" for a reader.
func (f fleet) reader(t *testing.T) *quorumlock.Lease {
	t.Helper()
	lease, err := f.client(t).RWLock("r").Read().Acquire(t.Context())
	require.NoError(t, err)
	return f.held(t, lease, err, "quorumlock:readers:{r}", lease.Owner())
}

// held waits until all servers have a key, and a member in it if one is given: a lock is held before the slowest server
// has answered. It retains the lease until the test ends: a client stops renewing one that the garbage collector took.
func (f fleet) held(t *testing.T, lease *quorumlock.Lease, err error, key string, member ...string) *quorumlock.Lease {
	t.Helper()
	require.NoError(t, err)
	f.requireKey(t, key, member...)
	t.Cleanup(func() { runtime.KeepAlive(lease) })
	return lease
}

func (f fleet) requireKey(t *testing.T, key string, member ...string) {
	t.Helper()
	for _, s := range f {
		require.Eventually(t, func() bool {
			if len(member) == 0 {
				return slices.Contains(s.Keys(), key)
			}
			score, err := s.Command("ZSCORE", key, member[0])
			return err == nil && score != ""
		}, patience, time.Millisecond, "%s on %s", key, s.Addr())
	}
}

// requireLocks waits until all running servers have exactly these locks. What reached a quorum may reach the other servers
// a moment later.
func (f fleet) requireLocks(t *testing.T, keys ...string) {
	t.Helper()
	for _, s := range f {
		if s.PID() != 0 {
			require.Eventually(t, func() bool { return slices.Equal(lockKeys(s), keys) }, patience, time.Millisecond, s.Addr())
		}
	}
}

// lockKeys returns a server's keys, except for the library's own keys.
func lockKeys(s *redisproc.Server) []string {
	return slices.DeleteFunc(s.Keys(), func(key string) bool { return strings.HasPrefix(key, "quorumlock:") })
}

// ended checks that a lease is lost. A renewal now finds that out at once.
func ended(t *testing.T, lease *quorumlock.Lease) {
	t.Helper()
	_ = lease.Extend(t.Context()) // it may tell only that too few nodes confirmed it
	select {
	case <-lease.Context().Done():
		require.ErrorIs(t, lease.Err(), quorumlock.ErrLost)
	case <-time.After(patience):
		require.FailNow(t, "the holder never learnt of the forced release")
	}
}

func idOf(lease *quorumlock.Lease) string { return quorumlock.ParseOwner(lease.Owner()).ID }

// plainly returns printed text with n1 for the first server and so on, A for the first lease and so on, T for times, TOKEN
// for tokens, and single spaces, so that tests can compare all of it.
func (f fleet) plainly(text string, leases ...*quorumlock.Lease) string {
	for i, s := range f {
		text = strings.ReplaceAll(text, s.Addr(), fmt.Sprintf("n%d", i+1))
	}
	for i, lease := range leases {
		text = strings.ReplaceAll(text, quorumlock.DescribeOwner(lease.Owner()), string(rune('A'+i)))
	}
	text = regexp.MustCompile(`\b\d{16}\b`).ReplaceAllString(text, "TOKEN")
	text = regexp.MustCompile(`\b(\d+m)?\d+(\.\d+)?(s|ms|µs)\b`).ReplaceAllString(text, "T")
	return regexp.MustCompile(` +`).ReplaceAllString(text, " ")
}

package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
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
	for _, name := range []string{nodesEnv, prefixEnv, ownersEnv, "NO_COLOR"} {
		if err := os.Unsetenv(name); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// result is the result of one run of the command.
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

// startFleet starts servers, and opens them.
func startFleet(t *testing.T) fleet {
	t.Helper()
	servers := newFleet(t, 5)
	servers.open(t)
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
	openNodes(t, f.nodes(), limits...)
}

func openNodes(t *testing.T, nodes string, limits ...node.Limits) {
	t.Helper()
	cfg := quorumlock.Config{Addresses: strings.Split(nodes, ","), NodeTimeoutMax: time.Second}
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

// nodes is the value of --nodes.
func (f fleet) nodes() string {
	addresses := make([]string, len(f))
	for i, s := range f {
		addresses[i] = s.Addr()
	}
	return strings.Join(addresses, ",")
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

// hold acquires the lock "k" for another client, and keeps it until the test ends.
func (f fleet) hold(t *testing.T) *quorumlock.Lease {
	t.Helper()
	lease, err := f.client(t).RedLock("k").Acquire(t.Context())
	require.NoError(t, err)
	return retain(t, lease)
}

// retain keeps a lease until the test ends, also if the test does not look at it again: a client stops
// renewing a lease that the garbage collector took.
func retain(t *testing.T, lease *quorumlock.Lease) *quorumlock.Lease {
	t.Cleanup(func() { runtime.KeepAlive(lease) })
	return lease
}

// requireClean checks that no running server has a lock left. A release that reached a quorum may reach the other servers
// a moment later.
func (f fleet) requireClean(t *testing.T) {
	t.Helper()
	for _, s := range f {
		if s.PID() != 0 {
			require.Eventually(t, func() bool { return len(lockKeys(s)) == 0 }, patience, time.Millisecond, s.Addr())
		}
	}
}

// lockKeys returns a server's keys, except for the library's own keys.
func lockKeys(s *redisproc.Server) []string {
	return slices.DeleteFunc(s.Keys(), func(key string) bool { return strings.HasPrefix(key, "quorumlock:") })
}

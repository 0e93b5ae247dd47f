package main

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/redisproc"
)

// asCommandEnv turns the test binary into the command itself, for what needs a process
// of its own: signals, terminals, SIGKILL.
const asCommandEnv = "QUORUMLOCK_TEST_AS_COMMAND"

// patience bounds whatever a test waits for.
const patience = 20 * time.Second

func TestMain(m *testing.M) {
	if os.Getenv(asCommandEnv) != "" {
		main()
	}
	for _, name := range []string{nodesEnv, ownersEnv, "NO_COLOR"} {
		if err := os.Unsetenv(name); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// result is what one call of the command came to.
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

// fleet is a set of servers, and how to name them to the command.
type fleet []*redisproc.Server

func startFleet(t *testing.T) fleet {
	t.Helper()
	return redisproc.StartN(t, 5)
}

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
		Addresses: strings.Split(f.nodes(), ","),
		Logger:    slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// hold takes the lock "k" as somebody else, and keeps it until the test ends.
func (f fleet) hold(t *testing.T) *quorumlock.Lease {
	t.Helper()
	lease, err := f.client(t).RedLock("k").Acquire(t.Context())
	require.NoError(t, err)
	return lease
}

// requireClean checks that no server that runs has anything left.
func (f fleet) requireClean(t *testing.T) {
	t.Helper()
	for _, s := range f {
		if s.PID() != 0 {
			require.Empty(t, s.Keys(), s.Addr())
		}
	}
}

package quorumlock_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/watchdog"
	"github.com/quorumlock/quorumlock/node"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fleet is a set of in-memory nodes, and what tests do with it.
type fleet struct {
	t     *testing.T
	clock clock.Clock
	nodes []*node.Memory
	// limits are those that the nodes are set up for: of the first client.
	limits  node.Limits
	clients int
}

// inVirtualTime runs a test on n in-memory nodes in a bubble, where time passes only
// while everybody waits: an hour takes a moment, and nothing depends on the machine.
func inVirtualTime(t *testing.T, n int, test func(t *testing.T, f *fleet)) {
	t.Helper()
	watchdog.Watch(t, longest())
	synctest.Test(t, func(t *testing.T) {
		test(t, newFleet(t, n))
	})
}

func newFleet(t *testing.T, n int) *fleet {
	t.Helper()
	f := &fleet{t: t, clock: clock.Process()}
	for i := range n {
		f.nodes = append(f.nodes, node.NewMemory(fmt.Sprintf("n%d", i+1), f.clock))
	}
	f.setUp(quorumlock.Config{})
	return f
}

// setUp has new nodes give locks to clients with this configuration, as who runs them
// does.
func (f *fleet) setUp(cfg quorumlock.Config) {
	f.t.Helper()
	if f.limits == cfg.Limits() {
		return
	}
	f.limits = cfg.Limits()
	cfg.Clock, cfg.AllowEven, cfg.Nodes = f.clock, true, nil
	for _, nd := range f.nodes {
		nd.Flush()
		cfg.Nodes = append(cfg.Nodes, nd)
	}
	_, err := admin.Init(f.t.Context(), cfg)
	require.NoError(f.t, err)
}

// client makes a client of the fleet, closed at the end of the test.
func (f *fleet) client(changes ...func(*quorumlock.Config)) *quorumlock.Client {
	f.t.Helper()
	cfg := quorumlock.Config{Clock: f.clock, Logger: slog.New(slog.DiscardHandler), AllowEven: true}
	for _, nd := range f.nodes {
		cfg.Nodes = append(cfg.Nodes, nd)
	}
	for _, change := range changes {
		change(&cfg)
	}
	if f.clients++; f.clients == 1 {
		f.setUp(cfg)
	}
	c, err := quorumlock.New(cfg)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// keys is how many locks all nodes hold together.
func (f *fleet) keys() int {
	total := 0
	for _, nd := range f.nodes {
		total += len(nd.Keys())
	}
	return total
}

// stop makes nodes unreachable, start brings them back.
func (f *fleet) stop(nodes ...int) {
	for _, i := range nodes {
		f.nodes[i].Stop()
	}
}

func (f *fleet) start(nodes ...int) {
	for _, i := range nodes {
		f.nodes[i].Start()
	}
}

// pause makes nodes hang, resume ends that.
func (f *fleet) pause(nodes ...int) {
	for _, i := range nodes {
		f.nodes[i].Pause()
	}
}

func (f *fleet) resume(nodes ...int) {
	for _, i := range nodes {
		f.nodes[i].Resume()
	}
}

// settled waits until nothing is under way any more that needs no passing of time.
func settled() { synctest.Wait() }

// noKeys requires that what is on its way arrives, and that nothing is left then.
func (f *fleet) noKeys() {
	f.t.Helper()
	settled()
	require.Zero(f.t, f.keys(), "keys left behind")
}

// elapsed runs something and says how much virtual time it took.
func (f *fleet) elapsed(run func()) time.Duration {
	began := f.clock.Now()
	run()
	return f.clock.Now() - began
}

// upTo are the first n nodes.
func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// Package fleet is the harness of the tests that run clients on in-memory nodes in virtual time. A Fleet is the set of
// nodes. Tests break its nodes, and make clients that reach them in special ways.
//
// The package is for tests only: the root package must not import it.
package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node/memory"
)

// Fleet is a set of in-memory nodes.
type Fleet struct {
	T     *testing.T
	Clock clock.Clock // of the nodes, and of clients that set no other
	Nodes []*memory.Node
	// Limits are the limits of the nodes: by default the limits of the first client.
	Limits  wire.Limits
	clients int
}

// InVirtualTime runs a test on n in-memory nodes in a bubble of testing/synctest. Time passes there only while all
// goroutines wait: an hour takes a moment, and the result does not depend on the machine.
func InVirtualTime(t *testing.T, n int, test func(t *testing.T, f *Fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, New(t, n))
	})
}

// New makes a fleet of n nodes, named n1, n2 and so on. They are set up for the default configuration.
func New(t *testing.T, n int) *Fleet {
	t.Helper()
	return named(t, "n", n)
}

// Another makes a second fleet of n nodes, named g1, g2 and so on, for tests that join locks of two fleets.
func Another(t *testing.T, n int) *Fleet {
	t.Helper()
	return named(t, "g", n)
}

func named(t *testing.T, prefix string, n int) *Fleet {
	t.Helper()
	f := &Fleet{T: t, Clock: testkit.ThisCentury(clock.Process())}
	for i := range n {
		f.Nodes = append(f.Nodes, memory.New(fmt.Sprint(prefix, i+1), f.Clock))
	}
	f.SetUp(quorumlock.Config{})
	return f
}

// SetUp initializes the nodes for clients with this configuration, as an operator does. It empties the nodes first,
// unless they are set up for the same limits already.
func (f *Fleet) SetUp(cfg quorumlock.Config) {
	f.T.Helper()
	if f.Limits == cfg.Limits() {
		return
	}
	f.Limits = cfg.Limits()
	cfg.Clock, cfg.AllowEven, cfg.Nodes = f.Clock, true, nil
	for _, nd := range f.Nodes {
		nd.Flush()
		cfg.Nodes = append(cfg.Nodes, nd)
	}
	_, err := admin.Init(f.T.Context(), cfg)
	require.NoError(f.T, err)
}

// Client makes a client of the fleet. It is closed at the end of the test. The first client decides the limits that the
// nodes are set up for.
func (f *Fleet) Client(changes ...func(*quorumlock.Config)) *quorumlock.Client {
	f.T.Helper()
	cfg := quorumlock.Config{Clock: f.Clock, Logger: slog.New(slog.DiscardHandler), AllowEven: true}
	for _, nd := range f.Nodes {
		cfg.Nodes = append(cfg.Nodes, nd)
	}
	for _, change := range changes {
		change(&cfg)
	}
	if f.clients++; f.clients == 1 {
		f.SetUp(cfg)
	}
	c, err := quorumlock.New(cfg)
	require.NoError(f.T, err)
	f.T.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// Introduce makes a client connect, and tell the nodes its list of nodes, which its first call would wait for.
func (f *Fleet) Introduce(clients ...*quorumlock.Client) {
	f.T.Helper()
	for _, c := range clients {
		require.NoError(f.T, c.Connect(f.T.Context()))
	}
	Settle()
}

// Keys returns how many locks all nodes hold together.
func (f *Fleet) Keys() int {
	total := 0
	for _, nd := range f.Nodes {
		total += len(nd.Keys())
	}
	return total
}

// Stop makes nodes unreachable. Nodes are given by their index.
func (f *Fleet) Stop(nodes ...int) { f.each(nodes, (*memory.Node).Stop) }

// Start makes stopped nodes reachable again.
func (f *Fleet) Start(nodes ...int) { f.each(nodes, (*memory.Node).Start) }

// Pause makes nodes hang: calls wait until Resume.
func (f *Fleet) Pause(nodes ...int) { f.each(nodes, (*memory.Node).Pause) }

// Resume lets paused nodes go on.
func (f *Fleet) Resume(nodes ...int) { f.each(nodes, (*memory.Node).Resume) }

func (f *Fleet) each(nodes []int, do func(*memory.Node)) {
	for _, i := range nodes {
		do(f.Nodes[i])
	}
}

// Settle waits until every goroutine of the bubble waits for time to pass, or for another goroutine.
func Settle() { synctest.Wait() }

// RequireNoKeys waits until everything has settled, and requires that no node holds a lock then.
func (f *Fleet) RequireNoKeys() {
	f.T.Helper()
	Settle()
	require.Zero(f.T, f.Keys(), "keys left behind")
}

// Elapsed calls run, and returns how much virtual time the call took.
func (f *Fleet) Elapsed(run func()) time.Duration {
	began := f.Clock.Now()
	run()
	return f.Clock.Now() - began
}

// FirstNodes returns the indexes of the first n nodes.
func FirstNodes(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

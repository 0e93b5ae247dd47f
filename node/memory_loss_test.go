package node_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

// memoryAt returns an open node on a clock that the test moves.
func memoryAt(t *testing.T) (*memory.Node, *testkit.Clock) {
	t.Helper()
	c := testkit.NewClock(time.Now())
	m := opened(t, memory.New("m", c))
	t.Cleanup(func() { _ = m.Close() })
	return m, c
}

// begun requires that the recovery of a node begins now.
func begun(t *testing.T, restarted bool, n node.Node) {
	t.Helper()
	assert.Equal(t, node.RecoveryError{
		Left: limits.Recovery(), Length: limits.Recovery(), HadMarker: restarted,
	}, recovering(t, n, acquire("o9", "z")))
}

// fenceOf returns the fence of a free name. It acquires the name.
func fenceOf(t *testing.T, n node.Node, name string) uint64 {
	t.Helper()
	return want(t, wire.Granted, n, with(now()-uint64(time.Minute.Microseconds()), acquire("o9", name))).Token
}

func TestMemoryCrashWithoutASave(t *testing.T) {
	m, _ := memoryAt(t)
	want(t, wire.Granted, m, acquire("o1", "a"))
	want(t, wire.Absent, m, wire.Op{Kind: wire.ForceRelease, Names: []string{"b"}, Buried: []string{"o1"}, TTL: long})
	m.Plant("p")
	before := identity(m)
	m.Crash()
	assert.NotEqual(t, before, identity(m))
	assert.Empty(t, m.Keys())
	begun(t, false, m)
	want(t, wire.Healed, m, renew("o1", "b", "p"))
	want(t, wire.Granted, opened(t, m), acquire("o2", "a"))
	assert.Zero(t, fenceOf(t, m, "c"))
}

func TestMemoryCrashWithASave(t *testing.T) {
	m, c := memoryAt(t)
	early, late := now(), now()
	want(t, wire.Granted, m, with(early, acquire("o1", "kept", "released")))
	brief := with(early, acquire("o1", "brief"))
	brief.TTL = time.Second
	want(t, wire.Granted, m, brief)
	want(t, wire.Absent, m, wire.Op{Kind: wire.ForceRelease, Names: []string{"buried"}, Buried: []string{"o1"}, TTL: long})
	m.Plant("planted")
	m.Save()
	want(t, wire.Released, m, release("o1", "released"))
	want(t, wire.Granted, m, with(late, acquire("o2", "new", "released")))
	want(t, wire.Absent, m, wire.Op{Kind: wire.ForceRelease, Names: []string{"unburied"}, Buried: []string{"o1"}, TTL: long})
	m.Plant("unplanted")
	c.Advance(time.Second + time.Millisecond)

	// The saved state comes back after every crash.
	for range 3 {
		before := identity(m)
		m.Crash()
		assert.NotEqual(t, before, identity(m))
		assert.Equal(t, []string{"kept", "released"}, m.Keys(), "what runs out meanwhile, runs out")
		begun(t, true, m)
		want(t, wire.Denied, m, renew("o1", "buried"))
		want(t, wire.Healed, m, renew("o1", "unburied", "unplanted"))
		fails(t, node.ErrWrongType, m, renew("o1", "planted"))
		r := want(t, wire.Granted, m, with(early, renew("o1", "kept", "released")))
		assert.Equal(t, limits.Recovery(), r.Recovering)
		opened(t, m)
		assert.Equal(t, early, want(t, wire.Denied, m, acquire("o2", "released")).Holder.Token)
		assert.Zero(t, fenceOf(t, m, "new"), "it has forgotten that token")
		assert.Equal(t, early, fenceOf(t, m, "brief"))
	}
}

// A crash brings back the saved marker, which does not count.
func TestMemoryCrashBringsTheMarkerBack(t *testing.T) {
	c := testkit.NewClock(time.Now())
	m := memory.New("m", c)
	t.Cleanup(func() { _ = m.Close() })
	first := want(t, wire.Inspected, m, marks).Marker
	m.Save()
	want(t, wire.Granted, m, wire.Op{Kind: wire.Open, Marker: first})
	want(t, wire.Granted, m, acquire("o1", "a"))

	c.Advance(time.Minute)
	m.Crash()
	begun(t, true, m)
	r := want(t, wire.Denied, m, wire.Op{Kind: wire.Open, Marker: first})
	assert.Equal(t, first.Since+time.Minute.Microseconds(), r.Marker.Since)
}

func TestMemoryFlushIsNoCrash(t *testing.T) {
	m, _ := memoryAt(t)
	want(t, wire.Granted, m, acquire("o1", "a"))
	m.Save()
	before := identity(m)
	m.Flush()
	assert.Equal(t, before, identity(m))
	assert.Empty(t, m.Keys())
	begun(t, false, m)
	want(t, wire.Granted, opened(t, m), acquire("o2", "b"))
	m.Flush()
	m.Crash()
	assert.Equal(t, []string{"a"}, m.Keys(), "what was saved is on the disk")
	begun(t, true, m)
}

// A crash of a stopped node shows once the node is reachable again.
func TestMemoryCrashWhileStopped(t *testing.T) {
	m, _ := memoryAt(t)
	want(t, wire.Granted, m, acquire("o1", "a"))
	m.Save()
	m.Stop()
	m.Crash()
	fails(t, node.ErrUnreachable, m, acquire("o2", "b"))
	m.Start()
	begun(t, true, m)
	assert.Equal(t, []string{"a"}, m.Keys())
}

// Tokens, recoveries and TTLs use the wall clock, which can be stepped.
func TestMemoryWallClock(t *testing.T) {
	m, c := memoryAt(t)
	want(t, wire.Granted, m, acquire("o1", "a"))
	c.StepWall(-time.Hour)
	var err *node.ClockError
	require.ErrorAs(t, failure(t, node.ErrClock, m, acquire("o2", "b")), &err)
	assert.Equal(t, limits.MaxClockSkew, err.Limit)
	assert.InDelta(t, time.Hour, err.Ahead, float64(patience))
	c.StepWall(4 * time.Hour)
	require.ErrorAs(t, failure(t, node.ErrClock, m, acquire("o2", "b")), &err)
	assert.Equal(t, limits.MaxTTL, err.Limit)
	assert.InDelta(t, -3*time.Hour, err.Ahead, float64(patience))
	assert.Empty(t, m.Keys(), "its TTL goes by the wall clock too")
	m.Flush()
	begun(t, false, m)
	c.StepWall(limits.Recovery() - time.Millisecond)
	assert.Equal(t, time.Millisecond, recovering(t, m, acquire("o9", "z")).Left)
	c.StepWall(time.Millisecond)
	fails(t, node.ErrClock, m, acquire("o9", "z"))
}

package nodetest

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// marking has the promises about markers: how they are made, read, and opened.
var marking = []promise{
	{"inspecting a new node tells that it will recover, and begins nothing", func(x *trial) {
		for range 2 {
			r := x.do(inspect("a"))[0]
			x.answered(node.Inspected, r)
			assert.Equal(x, limits.Recovery(), r.Recovering)
			assert.True(x, r.Unmarked)
			x.Pass(short)
		}
		x.begins(false, acquire("o1", long, "a"))
	}},
	{"inspecting a restarted node does so too, and tells the holders", func(x *trial) {
		x.open(limits)
		token := x.token()
		x.want(node.Granted, proposing(token, acquire("o1", long, "a")))
		x.Restart()
		for range 2 {
			r := x.do(inspect("a"))[0]
			x.answered(node.Inspected, r)
			assert.Equal(x, limits.Recovery(), r.Recovering)
			assert.True(x, r.Unmarked)
			require.Len(x, r.Holders, 1)
			x.holder(r.Holders[0], node.Holder{Name: "a", Owner: "o1", TTL: long, Token: token})
			x.Pass(short)
		}
		x.begins(true, acquire("o1", long, "a"))
	}},
	{"inspecting tells what is left of a recovery", func(x *trial) {
		err := x.begins(false, acquire("o1", long, "a"))
		x.Pass(short)
		r := x.do(inspect("a"))[0]
		x.answered(node.Inspected, r)
		assert.LessOrEqual(x, r.Recovering, err.Left-short)
		assert.Greater(x, r.Recovering, err.Left-slack)
		assert.False(x, r.Unmarked)
		x.want(node.Granted, opening(x.mark()))
		x.want(node.Inspected, inspect("a"))
	}},
	{"a mark begins the recovery of a new node", func(x *trial) {
		m := x.mark()
		assert.Equal(x, limits, m.Limits)
		assert.Equal(x, limits.Recovery(), m.Left)
		assert.False(x, m.HadMarker)
		assert.NotEmpty(x, m.Identity)
		assert.Equal(x, x.Node.Identity(), m.Identity)
		x.Pass(short)
		err := x.recovering(acquire("o1", long, "a"))
		assert.LessOrEqual(x, err.Left, m.Left-short)
		x.keys()
	}},
	{"a mark leaves a marker as it is", func(x *trial) {
		first := x.mark()
		for _, other := range append(others(limits), limits) {
			x.Pass(short)
			m := x.want(node.Inspected, under(other, node.Op{Kind: node.Mark})).Marker
			assert.LessOrEqual(x, m.Left, first.Left-short)
			m.Left = first.Left
			assert.Equal(x, first, m)
		}
		x.want(node.Granted, opening(first))
		opened := x.mark()
		assert.Equal(x, &node.Marker{Identity: first.Identity, Limits: limits}, opened)
		assert.Equal(x, opened, x.mark())
	}},
	{"a mark tells of a restart", func(x *trial) {
		x.open(limits)
		before := x.mark()
		x.Restart()
		m := x.mark()
		assert.True(x, m.HadMarker)
		assert.Equal(x, limits.Recovery(), m.Left)
		assert.NotEqual(x, before.Identity, m.Identity)
		x.want(node.Granted, opening(m), acquire("o1", long, "a"), renew("o1", long, "a"))
	}},
	{"opening ends a recovery", func(x *trial) {
		m := x.mark()
		x.recovering(acquire("o1", long, "a"))
		x.want(node.Granted, opening(m))
		x.began = uint64(m.Until - m.Left.Microseconds())
		x.want(node.Granted, acquire("o1", long, "a"), renew("o1", long, "a"))
	}},
	{"opening a second time does not, and tells the marker", func(x *trial) {
		m := x.mark()
		x.want(node.Granted, opening(m))
		r := x.want(node.Denied, opening(m))
		assert.Zero(x, r.Marker.Until)
		assert.Equal(x, x.mark(), r.Marker)
		x.want(node.Granted, opening(r.Marker))
	}},
	{"opening fails after a loss", func(x *trial) {
		m := x.mark()
		for i, lose := range []func(){x.Forget, x.Restart} {
			x.Pass(short)
			lose()
			r := x.want(node.Denied, opening(m))
			assert.Equal(x, limits.Recovery(), r.Marker.Left)
			assert.Equal(x, i == 1, r.Marker.HadMarker)
			x.underway(i == 1, acquire("o1", long, "a"))
			m = x.mark()
			m.Left, r.Marker.Left = 0, 0
			assert.Equal(x, m, r.Marker)
		}
		x.want(node.Granted, opening(m))
	}},
	{"opening fails after the recovery has begun anew", func(x *trial) {
		for _, lose := range []func(){x.Forget, x.Restart} {
			m := x.mark()
			x.Pass(short)
			lose()
			x.recovering(acquire("o1", long, "a"))
			r := x.want(node.Denied, opening(m))
			assert.Equal(x, x.mark().Until, r.Marker.Until)
			x.recovering(acquire("o1", long, "a"))
		}
	}},
	{"opening compares the identity and the end of the recovery", func(x *trial) {
		m := x.mark()
		for _, wrong := range []*node.Marker{
			nil,
			{},
			{Identity: m.Identity},
			{Until: m.Until},
			{Identity: m.Identity, Until: m.Until + 1},
			{Identity: m.Identity, Until: m.Until - 1},
			{Identity: m.Identity + "x", Until: m.Until},
		} {
			x.want(node.Denied, opening(wrong))
			x.recovering(acquire("o1", long, "a"))
		}
		x.want(node.Granted, opening(m))
	}},
	{"opening with other limits sets them, and begins a recovery as long as all need", func(x *trial) {
		x.open(limits)
		x.want(node.Granted, acquire("o1", long, "a"))
		before := limits
		for _, after := range append(others(limits), limits) {
			m := x.mark()
			r := x.do(under(after, opening(m)))[0]
			x.answered(node.Granted, r)
			need := max(before.MaxTTL, after.MaxTTL) + max(before.MaxClockSkew, after.MaxClockSkew)
			assert.LessOrEqual(x, r.Recovering, max(need, m.Left))
			assert.GreaterOrEqual(x, r.Recovering, max(need, m.Left-slack))
			m = x.mark()
			assert.Equal(x, after, m.Limits)
			assert.LessOrEqual(x, m.Left, r.Recovering)
			assert.Greater(x, m.Left, r.Recovering-slack)
			x.differs(after, under(before, acquire("o2", long, "b")))
			x.differs(after, under(before, renew("o1", long, "a")))
			x.recovering(under(after, acquire("o2", long, "b")))
			x.reasserted(true, node.Granted, under(after, renew("o1", long, "a")))
			before = after
		}
		x.want(node.Granted, opening(x.mark()), acquire("o2", long, "b"))
	}},
	{"neither other limits nor a restart shorten a recovery", func(x *trial) {
		little := node.Limits{MaxTTL: 2 * time.Second, MaxClockSkew: time.Second}
		x.open(limits)
		left := x.do(under(little, opening(x.mark())))[0].Recovering
		assert.Equal(x, limits.Recovery(), left)
		x.limits = little
		x.Restart()
		assert.Greater(x, x.mark().Left, left-slack)
		x.Restart()
		err := x.recovering(acquire("o1", time.Second, "a"))
		assert.Greater(x, err.Left, left-slack)
		assert.True(x, err.HadMarker)
		x.Restart()
		assert.Greater(x, x.reasserted(true, node.Healed, renew("o1", time.Second, "a")), left-slack)
		least := node.Limits{MaxTTL: time.Second, MaxClockSkew: time.Second}
		assert.Greater(x, x.do(under(least, opening(x.mark())))[0].Recovering, left-slack)
		assert.Greater(x, x.mark().Left, left-slack)
	}},
	{"opening with other limits fails after a loss", func(x *trial) {
		other := others(limits)[0]
		for _, lose := range []func(){x.Restart, x.Forget} {
			x.open(limits)
			m := x.mark()
			lose()
			r := x.want(node.Denied, under(other, opening(m)))
			assert.NotZero(x, r.Marker.Until)
			x.Forget()
		}
	}},
	{"handles on one deployment have one identity", func(x *trial) {
		ids := map[string]bool{}
		for _, n := range x.handles() {
			r := x.doOn(n, node.Op{Kind: node.Mark})[0]
			x.outcome(node.Inspected, r)
			assert.Equal(x, r.Marker.Identity, n.Identity())
			ids[n.Identity()] = true
		}
		assert.Len(x, ids, 1)
	}},
}

// mark returns the node's marker. A node without one gets one.
func (x *trial) mark() *node.Marker {
	x.Helper()
	return x.want(node.Inspected, node.Op{Kind: node.Mark}).Marker
}

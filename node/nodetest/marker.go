package nodetest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// marking is about nodes that are new, or have lost their memory.
var marking = []promise{
	{"a new node gives no rights, and begins its recovery", func(x *trial) {
		x.begins(false, acquire("o1", long, "a"))
		x.underway(false, acquire("o1", long, "a"))
		x.keys()
	}},
	{"so does one that lost everything", func(x *trial) {
		x.open(limits)
		x.want(node.Granted, acquire("o1", long, "a"))
		x.Forget()
		x.begins(false, acquire("o2", long, "a"))
		x.underway(false, acquire("o2", long, "a"))
		x.keys()
	}},
	{"so does one that came back with what it knew", func(x *trial) {
		x.open(limits)
		x.want(node.Granted, acquire("o1", long, "a"))
		x.Restart()
		x.begins(true, acquire("o2", long, "b"))
		x.underway(true, acquire("o2", long, "b"))
		x.keys("a")
	}},
	{"of several names none is given, and an own one not again", func(x *trial) {
		x.open(limits)
		x.want(node.Granted, acquire("o1", brief, "a"))
		x.Restart()
		x.begins(true, acquire("o1", long, "a", "b"))
		x.underway(true, acquire("o1", long, "a"))
		x.keys("a")
		x.lives(brief, "a")
	}},
	{"a recovery ends when it is over, and not before", func(x *trial) {
		x.limits = fleeting
		x.begins(false, acquire("o1", short, "a"))
		x.endsAt(x.mark().Until)
		_, r := x.timely(0, acquire("o1", short, "a"))
		x.outcome(node.Granted, r)
	}},
	{"a recovery ends by itself", func(x *trial) {
		x.limits = fleeting
		x.begins(false, acquire("o1", short, "a"))
		x.Pass(fleeting.Recovery())
		_, r := x.timely(0, acquire("o1", short, "a"))
		x.outcome(node.Granted, r)
		assert.Zero(x, x.mark().Left)
	}},
	{"a second loss begins the recovery anew", func(x *trial) {
		losses := []func(){x.Forget, x.Restart, x.Restart, x.Forget}
		x.begins(false, acquire("o1", long, "a"))
		until := x.mark().Until
		for i, lose := range losses {
			x.Pass(short)
			lose()
			x.begins(i == 1 || i == 2, acquire("o1", long, "a"))
			m := x.mark()
			assert.GreaterOrEqual(x, m.Until, until+short.Microseconds())
			until = m.Until
		}
	}},
	{"a loss after the recovery begins another", func(x *trial) {
		x.limits = fleeting
		x.begins(false, acquire("o1", short, "a"))
		for _, lose := range []func(){x.Restart, x.Forget} {
			x.Pass(fleeting.Recovery())
			until := x.mark().Until
			lose()
			x.fails(node.ErrRecovering, acquire("o1", short, "a"))
			assert.GreaterOrEqual(x, x.mark().Until, until+fleeting.Recovery().Microseconds())
		}
	}},
	{"a renewal begins the recovery too", func(x *trial) {
		for i, lose := range []func(){x.Forget, x.Restart} {
			lose()
			left := x.reasserted(i == 1, node.Healed, renew("o1", long, "a"))
			assert.Equal(x, limits.Recovery(), left)
			x.Pass(short)
			left = x.reasserted(i == 1, node.Granted, renew("o1", long, "a"))
			assert.LessOrEqual(x, left, limits.Recovery()-short)
			err := x.recovering(acquire("o2", long, "b"))
			assert.LessOrEqual(x, err.Left, left)
			x.want(node.Released, release("o1", "a"))
		}
	}},
	{"a recovering node extends and puts back what is renewed", func(x *trial) {
		x.open(limits)
		x.want(node.Granted, acquire("o1", brief, "a"))
		x.Restart()
		x.reasserted(true, node.Granted, renew("o1", middle, "a"))
		x.lives(middle, "a")
		x.reasserted(true, node.Healed, renew("o1", long, "a", "b"))
		x.lives(long, "a", "b")
		x.keys("a", "b")
	}},
	{"a recovering node denies what is another's", func(x *trial) {
		x.open(limits)
		x.want(node.Granted, acquire("o1", brief, "a"))
		x.Restart()
		x.denied(renew("o2", long, "a"), "a", "o1")
		x.denied(renew("o2", long, "b", "a"), "a", "o1")
		x.lives(brief, "a")
		x.keys("a")
		x.Forget()
		x.reasserted(false, node.Healed, renew("o2", long, "a"))
		x.denied(renew("o1", long, "a"), "a", "o2")
	}},
	{"a recovering node denies who was forced off", func(x *trial) {
		x.open(limits)
		x.want(node.Granted, acquire("o1", long, "a"))
		x.want(node.Released, force(long, "a"))
		x.Restart()
		x.denied(renew("o1", long, "a"), "a", "")
		x.keys()
	}},
	{"a recovering node releases", func(x *trial) {
		x.open(limits)
		x.want(node.Granted, acquire("o1", long, "a", "b", "c"))
		x.Restart()
		x.want(node.Released, release("o1", "a"))
		x.keys("b", "c")
		x.begins(true, acquire("o2", long, "a"))
		x.want(node.Released, release("o1", "b"))
		x.want(node.Absent, release("o1", "b"))
		x.want(node.Released, force(long, "c"))
		x.keys()
		x.underway(true, acquire("o2", long, "a"))
	}},
	{"other limits are refused and told, and nothing is changed", func(x *trial) {
		x.open(limits)
		x.want(node.Granted, acquire("o1", brief, "a"))
		before := x.mark()
		for _, other := range others(limits) {
			x.differs(limits, under(other, acquire("o2", long, "b")))
			x.differs(limits, under(other, acquire("o1", long, "a")))
			x.differs(limits, under(other, acquire("o2", long, "a")))
			x.differs(limits, under(other, renew("o1", long, "a")))
			x.differs(limits, under(other, renew("o1", long, "a", "b")))
			x.differs(limits, under(other, renew("o2", long, "a")))
		}
		x.keys("a")
		x.lives(brief, "a")
		assert.Equal(x, before, x.mark())
	}},
	{"whoever comes first sets the limits", func(x *trial) {
		for _, other := range others(limits) {
			for _, first := range []node.Op{acquire("o1", long, "a"), renew("o1", long, "a"), {Kind: node.Mark}} {
				x.Forget()
				x.do(under(other, first))
				for _, late := range []node.Op{acquire("o2", long, "b"), renew("o2", long, "b")} {
					x.differs(other, under(limits, late))
				}
				err := x.recovering(under(other, acquire("o2", long, "b")))
				assert.Equal(x, other.Recovery(), err.Length)
				assert.Equal(x, other, x.mark().Limits)
			}
		}
	}},
	{"of many that come first at once, one sets the limits", func(x *trial) {
		clients := append(others(limits), limits)
		handles := x.handles()
		for range 10 {
			x.Forget()
			replies := make([]node.Reply, 2*len(clients))
			var wg sync.WaitGroup
			for i := range replies {
				wg.Go(func() {
					replies[i] = x.doOn(handles[i%len(handles)], under(clients[i/2], acquire(fmt.Sprint(i), long, "a")))[0]
				})
			}
			wg.Wait()
			set := x.mark().Limits
			assert.Contains(x, clients, set)
			for i, r := range replies {
				if clients[i/2] == set {
					x.failed(node.ErrRecovering, node.Op{Kind: node.Acquire}, r)
				} else {
					x.failed(node.ErrSettings, node.Op{Kind: node.Acquire}, r)
				}
			}
		}
		x.keys()
	}},
	{"the limits survive a restart, whoever comes first", func(x *trial) {
		x.open(limits)
		for _, other := range others(limits) {
			for _, first := range []node.Op{acquire("o1", long, "a"), renew("o1", long, "a"), {Kind: node.Mark}} {
				x.Restart()
				x.do(under(other, first))
				x.keys()
				x.differs(limits, under(other, acquire("o1", long, "a")))
				x.Pass(short)
				err := x.recovering(acquire("o1", long, "a"))
				assert.LessOrEqual(x, err.Left, limits.Recovery()-short, "it has begun")
				assert.True(x, err.Restarted)
			}
		}
	}},
	{"a TTL over the limit is refused, and nothing is changed", func(x *trial) {
		x.open(limits)
		over := limits.MaxTTL + time.Millisecond
		x.want(node.Granted, acquire("o1", brief, "a"))
		for _, op := range []node.Op{
			acquire("o2", over, "b"), acquire("o1", over, "a"), acquire("o2", over, "a"),
			renew("o1", over, "a"), renew("o1", over, "a", "b"), renew("o2", over, "a"),
		} {
			err := x.settings(op)
			assert.Equal(x, node.SettingsError{Node: limits, Client: limits, TTL: over}, err)
		}
		x.keys("a")
		x.lives(brief, "a")
		x.want(node.Granted, acquire("o2", limits.MaxTTL, "b"))
		x.want(node.Granted, renew("o1", limits.MaxTTL, "a"))
	}},
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
		assert.False(x, m.Restarted)
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
		assert.Equal(x, node.Marker{Identity: first.Identity, Limits: limits}, opened)
		assert.Equal(x, opened, x.mark())
	}},
	{"a mark tells of a restart", func(x *trial) {
		x.open(limits)
		before := x.mark()
		x.Restart()
		m := x.mark()
		assert.True(x, m.Restarted)
		assert.Equal(x, limits.Recovery(), m.Left)
		assert.NotEqual(x, before.Identity, m.Identity)
		x.want(node.Granted, opening(m))
		x.want(node.Granted, acquire("o1", long, "a"))
		x.want(node.Granted, renew("o1", long, "a"))
	}},
	{"opening ends a recovery", func(x *trial) {
		m := x.mark()
		x.recovering(acquire("o1", long, "a"))
		x.want(node.Granted, opening(m))
		x.began = uint64(m.Until - m.Left.Microseconds())
		x.want(node.Granted, acquire("o1", long, "a"))
		x.want(node.Granted, renew("o1", long, "a"))
	}},
	{"opening a second time does not, and tells the marker", func(x *trial) {
		m := x.mark()
		x.want(node.Granted, opening(m))
		r := x.want(node.Denied, opening(m))
		assert.Zero(x, r.Marker.Until)
		assert.Equal(x, x.mark(), r.Marker)
		x.want(node.Granted, opening(r.Marker))
	}},
	{"opening is in vain after a loss", func(x *trial) {
		m := x.mark()
		for i, lose := range []func(){x.Forget, x.Restart} {
			x.Pass(short)
			lose()
			r := x.want(node.Denied, opening(m))
			assert.Equal(x, limits.Recovery(), r.Marker.Left)
			assert.Equal(x, i == 1, r.Marker.Restarted)
			x.underway(i == 1, acquire("o1", long, "a"))
			m = x.mark()
			m.Left, r.Marker.Left = 0, 0
			assert.Equal(x, m, r.Marker)
		}
		x.want(node.Granted, opening(m))
	}},
	{"opening is in vain after the recovery was begun anew", func(x *trial) {
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
		for _, wrong := range []node.Marker{
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
		x.want(node.Granted, opening(x.mark()))
		x.want(node.Granted, acquire("o2", long, "b"))
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
		assert.True(x, err.Restarted)
		x.Restart()
		assert.Greater(x, x.reasserted(true, node.Healed, renew("o1", time.Second, "a")), left-slack)
		least := node.Limits{MaxTTL: time.Second, MaxClockSkew: time.Second}
		assert.Greater(x, x.do(under(least, opening(x.mark())))[0].Recovering, left-slack)
		assert.Greater(x, x.mark().Left, left-slack)
	}},
	{"opening with other limits is in vain after a loss", func(x *trial) {
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

// others are limits that differ from some in one way each.
func others(l node.Limits) []node.Limits {
	const little = time.Second
	return []node.Limits{
		{MaxTTL: l.MaxTTL + little, MaxClockSkew: l.MaxClockSkew},
		{MaxTTL: l.MaxTTL, MaxClockSkew: l.MaxClockSkew + little},
		{MaxTTL: l.MaxTTL, MaxClockSkew: l.MaxClockSkew - little},
		{MaxTTL: l.MaxTTL - little, MaxClockSkew: l.MaxClockSkew},
		{MaxTTL: l.MaxTTL + little, MaxClockSkew: l.MaxClockSkew - little},
	}
}

// mark is the node's marker, which it gets if it has none.
func (x *trial) mark() node.Marker {
	x.Helper()
	return x.want(node.Inspected, node.Op{Kind: node.Mark}).Marker
}

// recovering demands that a node gives no rights, and returns what it says about it.
func (x *trial) recovering(op node.Op) node.RecoveryError {
	x.Helper()
	r := x.fails(node.ErrRecovering, op)
	var failure *node.Error
	require.ErrorAs(x, r.Err, &failure)
	assert.False(x, failure.Permanent())
	assert.False(x, r.Unsent)
	var err *node.RecoveryError
	require.ErrorAs(x, r.Err, &err)
	assert.Equal(x, err.Left, r.Recovering)
	assert.Equal(x, err.Restarted, r.Restarted)
	assert.Positive(x, err.Left)
	assert.LessOrEqual(x, err.Left, err.Length)
	return *err
}

// begins demands that the recovery of a node begins with an operation.
func (x *trial) begins(restarted bool, op node.Op) node.RecoveryError {
	x.Helper()
	err := x.recovering(op)
	assert.Equal(x, node.RecoveryError{
		Left:      x.limits.Recovery(),
		Length:    x.limits.Recovery(),
		Restarted: restarted,
	}, err)
	return err
}

// underway demands that it has begun before.
func (x *trial) underway(restarted bool, op node.Op) {
	x.Helper()
	x.Pass(short)
	err := x.recovering(op)
	assert.Equal(x, x.limits.Recovery(), err.Length)
	assert.LessOrEqual(x, err.Left, err.Length-short)
	assert.Greater(x, err.Left, err.Length-slack)
	assert.Equal(x, restarted, err.Restarted)
}

// reasserted demands a renewal's outcome on a recovering node, and returns what is left of
// the recovery.
func (x *trial) reasserted(restarted bool, outcome node.Outcome, op node.Op) time.Duration {
	x.Helper()
	r := x.do(op)[0]
	x.answered(outcome, r)
	assert.Zero(x, r.Token)
	assert.Positive(x, r.Recovering)
	assert.Equal(x, restarted, r.Restarted)
	return r.Recovering
}

// endsAt demands that the recovery ends when it should: not before by the clock that the
// node refused the next thing by, and not after by the one that it recovered by.
func (x *trial) endsAt(until int64) {
	x.Helper()
	left := x.limits.Recovery()
	for range 1000 {
		r := x.do(proposing(1, acquire("o1", time.Millisecond, "a")))[0]
		if errors.Is(r.Err, node.ErrClock) {
			assert.GreaterOrEqual(x, x.clockOf(1, r), until)
			return
		}
		x.failed(node.ErrRecovering, node.Op{Kind: node.Acquire}, r)
		require.LessOrEqual(x, r.Recovering, left)
		left = r.Recovering
		x.Pass(time.Millisecond)
	}
	require.Fail(x, "the recovery does not end")
}

// settings demands that an operation is refused for good because of its limits.
func (x *trial) settings(op node.Op) node.SettingsError {
	x.Helper()
	x.permanently(node.ErrSettings, op)
	var err *node.SettingsError
	require.ErrorAs(x, x.do(op)[0].Err, &err)
	return *err
}

// differs demands that the limits of an operation are refused by a node with others.
func (x *trial) differs(of node.Limits, op node.Op) {
	x.Helper()
	assert.Equal(x, node.SettingsError{Node: of, Client: op.Limits}, x.settings(op))
}

package nodetest

import (
	"errors"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// recovery has the promises about nodes that are new, or have lost their memory.
var recovery = []promise{
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
	{"so does one that came back with its data", func(x *trial) {
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
	{"a recovering node extends and heals renewed names", func(x *trial) {
		x.open(limits)
		x.want(node.Granted, acquire("o1", brief, "a"))
		x.Restart()
		x.reasserted(true, node.Granted, renew("o1", middle, "a"))
		x.lives(middle, "a")
		x.reasserted(true, node.Healed, renew("o1", long, "a", "b"))
		x.lives(long, "a", "b")
		x.keys("a", "b")
	}},
	{"a recovering node denies names of another owner", func(x *trial) {
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
	{"a recovering node denies an owner that was forced off", func(x *trial) {
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
}

// recovering requires that a node gives no rights, and returns its error.
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
	assert.Equal(x, err.HadMarker, r.HadMarker)
	assert.Positive(x, err.Left)
	assert.LessOrEqual(x, err.Left, err.Length)
	return *err
}

// begins requires that a node's recovery begins with an operation.
func (x *trial) begins(restarted bool, op node.Op) node.RecoveryError {
	x.Helper()
	err := x.recovering(op)
	assert.Equal(x, node.RecoveryError{
		Left:      x.limits.Recovery(),
		Length:    x.limits.Recovery(),
		HadMarker: restarted,
	}, err)
	return err
}

// underway requires that the recovery has begun before.
func (x *trial) underway(restarted bool, op node.Op) {
	x.Helper()
	x.Pass(short)
	err := x.recovering(op)
	assert.Equal(x, x.limits.Recovery(), err.Length)
	assert.LessOrEqual(x, err.Left, err.Length-short)
	assert.Greater(x, err.Left, err.Length-slack)
	assert.Equal(x, restarted, err.HadMarker)
}

// reasserted requires the outcome of a renewal on a recovering node, and returns the remaining recovery.
func (x *trial) reasserted(restarted bool, outcome node.Outcome, op node.Op) time.Duration {
	x.Helper()
	r := x.do(op)[0]
	x.answered(outcome, r)
	assert.Zero(x, r.Token)
	assert.Positive(x, r.Recovering)
	assert.Equal(x, restarted, r.HadMarker)
	return r.Recovering
}

// endsAt requires that the recovery ends at this time: not before it by the clock of the last refusal, and
// not after it by the clock at which rights are given again.
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

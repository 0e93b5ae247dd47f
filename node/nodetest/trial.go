package nodetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// TTLs of the suite. A key that must still exist has a long one, however slow the machine is. A key that must
// expire has a short one, and no test expects it to exist before that.
const (
	long   = time.Minute
	middle = 40 * time.Second
	brief  = 20 * time.Second
	short  = 30 * time.Millisecond
	// slack is how long a test may take between setting a TTL and reading it.
	slack = 10 * time.Second
)

// limits are the suite's limits. A recovery with them takes too long for a test on a real clock.
var limits = node.Limits{MaxTTL: 2 * time.Minute, MaxClockSkew: 30 * time.Second}

// fleeting are limits for a recovery that must end within a test.
var fleeting = node.Limits{MaxTTL: 60 * time.Millisecond, MaxClockSkew: 20 * time.Millisecond}

// trial is one subtest with its subject.
type trial struct {
	*testing.T
	Subject
	// limits are the defaults of the operations.
	limits node.Limits
	// inbox is the client's inbox in a group of promises with one.
	inbox *box
	// began is the node's clock when the node was opened; 0 before that.
	began uint64
}

// open makes the node give rights, as an administrator does with a new one.
func (x *trial) open(limits node.Limits) {
	x.Helper()
	x.limits = limits
	fresh := x.mark()
	x.began = uint64(fresh.Until - fresh.Limits.Recovery().Microseconds())
	x.want(node.Granted, opening(fresh))
}

// tokens makes each default token unique.
var tokens atomic.Uint64

// token returns a token that is larger than all before it, and not far from the node's clock.
func (x *trial) token() uint64 { return x.began + tokens.Add(1) }

// complete fills in the defaults of an operation.
func (x *trial) complete(op node.Op) node.Op {
	if op.Limits == (node.Limits{}) {
		op.Limits = x.limits
	}
	if op.Token == 0 {
		op.Token = x.token()
	}
	return op
}

func acquire(owner string, ttl time.Duration, names ...string) node.Op {
	return node.Op{Kind: node.Acquire, Names: names, Owner: owner, TTL: ttl}
}

func renew(owner string, ttl time.Duration, names ...string) node.Op {
	return node.Op{Kind: node.Renew, Names: names, Owner: owner, TTL: ttl}
}

func release(owner string, names ...string) node.Op {
	return node.Op{Kind: node.Release, Names: names, Owner: owner}
}

func inspect(names ...string) node.Op {
	return node.Op{Kind: node.Inspect, Names: names}
}

// force is a forced release with tombstones that live for ttl. The caller may set Buried on the result.
func force(ttl time.Duration, names ...string) node.Op {
	return node.Op{Kind: node.ForceRelease, Names: names, TTL: ttl}
}

// from makes a forced release one of a single owner.
func from(owner string, op node.Op) node.Op {
	op.Owner = owner
	return op
}

func burying(op node.Op, owners ...string) node.Op {
	op.Buried = owners
	return op
}

// opening opens a node that has this marker, as an administrator does.
func opening(found *node.Marker) node.Op {
	return node.Op{Kind: node.Open, Marker: found}
}

// under makes the operation one of a client with these limits.
func under(limits node.Limits, op node.Op) node.Op {
	op.Limits = limits
	return op
}

// proposing makes the operation one with this token.
func proposing(token uint64, op node.Op) node.Op {
	op.Token = token
	return op
}

// junk is in a reply before the node fills it. A caller that reuses a slice leaves old replies there too.
var junk = node.Reply{
	Outcome:    node.Granted,
	Holder:     node.Holder{Name: "junk", Owner: "junk", TTL: 1, Token: 1},
	Holders:    []node.Holder{{Name: "junk", Owner: "junk", TTL: 1, Token: 1}},
	Rank:       1,
	Pool:       node.PoolState{Size: 1, Version: 1, Free: []byte{1}},
	Token:      1,
	Recovering: 1,
	HadMarker:  true,
	Unmarked:   true,
	Marker:     &node.Marker{Identity: "junk", Until: 1},
	Err:        fmt.Errorf("junk"),
	Unsent:     true,
}

// do runs one batch.
func (x *trial) do(ops ...node.Op) []node.Reply {
	x.Helper()
	return x.doOn(x.Node, ops...)
}

func (x *trial) doOn(n node.Node, ops ...node.Op) []node.Reply {
	x.Helper()
	return x.doWith(context.Background(), n, ops...)
}

func (x *trial) doWith(ctx context.Context, n node.Node, ops ...node.Op) []node.Reply {
	x.Helper()
	replies := make([]node.Reply, len(ops))
	ops = slices.Clone(ops)
	for i := range replies {
		replies[i], ops[i] = junk, x.complete(ops[i])
	}
	n.Do(ctx, ops, replies)
	return replies
}

// want runs operations one after the other, and requires the outcome of each. It returns the last reply.
func (x *trial) want(outcome node.Outcome, ops ...node.Op) (r node.Reply) {
	x.Helper()
	for _, op := range ops {
		r = x.do(op)[0]
		x.outcome(outcome, r)
	}
	return r
}

// outcome requires an outcome of a node that is not recovering. It also requires that a token was accepted if
// there was one, and that the reply has no field that does not belong to it.
func (x *trial) outcome(outcome node.Outcome, r node.Reply) {
	x.Helper()
	x.answered(outcome, r)
	assert.Zero(x, r.Recovering)
	assert.Zero(x, r.Token)
}

// answered requires an outcome of a node that may be recovering. The token does not matter.
func (x *trial) answered(outcome node.Outcome, r node.Reply) {
	x.Helper()
	require.NoError(x, r.Err)
	require.Equal(x, outcome, r.Outcome, "%v instead of %v: %+v", r.Outcome, outcome, r)
	assert.False(x, r.Unsent, "an answer, and yet unsent")
	if outcome != node.Denied {
		assert.Zero(x, r.Holder)
		assert.Zero(x, r.Rank)
		assert.Zero(x, r.Pool)
	}
	if outcome != node.Inspected && outcome != node.Released {
		assert.Empty(x, r.Holders)
	}
	if outcome != node.Inspected && outcome != node.Denied {
		assert.Zero(x, r.Marker)
	}
	if r.Recovering == 0 {
		assert.False(x, r.HadMarker)
	}
	if outcome != node.Inspected || r.Recovering == 0 {
		assert.False(x, r.Unmarked)
	}
}

// outcomes requires the outcomes of a batch.
func (x *trial) outcomes(replies []node.Reply, outcomes ...node.Outcome) {
	x.Helper()
	require.Len(x, replies, len(outcomes))
	for i, o := range outcomes {
		x.outcome(o, replies[i])
	}
}

// denied requires that an operation is denied because of the owner of a name.
func (x *trial) denied(op node.Op, name, owner string) node.Holder {
	x.Helper()
	r := x.want(node.Denied, op)
	assert.Equal(x, name, r.Holder.Name)
	assert.Equal(x, owner, r.Holder.Owner)
	return r.Holder
}

// fails requires that an operation fails for a reason.
func (x *trial) fails(reason error, op node.Op) node.Reply {
	x.Helper()
	r := x.do(op)[0]
	x.failed(reason, op, r)
	return r
}

// failed requires the form that all errors have.
func (x *trial) failed(reason error, op node.Op, r node.Reply) {
	x.Helper()
	require.ErrorIs(x, r.Err, reason)
	assert.Equal(x, node.Unknown, r.Outcome)
	assert.Zero(x, r.Holder)
	assert.Empty(x, r.Holders)
	assert.Zero(x, r.Rank)
	assert.Zero(x, r.Pool)
	assert.Zero(x, r.Token)
	assert.Zero(x, r.Marker)
	if !errors.Is(reason, node.ErrRecovering) {
		assert.Zero(x, r.Recovering)
		assert.False(x, r.HadMarker)
	}
	assert.False(x, r.Unmarked)
	var err *node.Error
	require.ErrorAs(x, r.Err, &err)
	assert.Equal(x, x.Node.Name(), err.Node)
	assert.Equal(x, op.Kind, err.Op)
}

// left returns the remaining TTL of a held name.
func (x *trial) left(name string) time.Duration {
	x.Helper()
	r := x.do(inspect(name))[0]
	x.answered(node.Inspected, r)
	require.Len(x, r.Holders, 1, "%q must have one holder", name)
	return r.Holders[0].TTL
}

// lives requires that names have about ttl left, and no more.
func (x *trial) lives(ttl time.Duration, names ...string) {
	x.Helper()
	for _, name := range names {
		left := x.left(name)
		assert.LessOrEqual(x, left, ttl, "%q lives too long", name)
		assert.Greater(x, left, ttl-slack, "%q does not live long enough", name)
	}
}

// keys requires that exactly these names are held.
func (x *trial) keys(names ...string) {
	x.Helper()
	assert.ElementsMatch(x, names, x.Keys())
}

package nodetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// limiting has the promises about clients whose limits differ.
var limiting = []promise{
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
	{"the first client sets the limits", func(x *trial) {
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
	{"the limits survive a restart, whichever client comes first", func(x *trial) {
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
				assert.True(x, err.HadMarker)
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
		x.want(node.Granted, acquire("o2", limits.MaxTTL, "b"), renew("o1", limits.MaxTTL, "a"))
	}},
}

// others returns limits that differ from l in one way each.
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

// settings requires that an operation is permanently refused because of its limits.
func (x *trial) settings(op node.Op) node.SettingsError {
	x.Helper()
	x.permanently(node.ErrSettings, op)
	var err *node.SettingsError
	require.ErrorAs(x, x.do(op)[0].Err, &err)
	return *err
}

// differs requires that a node with the limits `of` refuses the limits of the operation.
func (x *trial) differs(of node.Limits, op node.Op) {
	x.Helper()
	assert.Equal(x, node.SettingsError{Node: of, Client: op.Limits}, x.settings(op))
}

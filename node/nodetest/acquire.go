package nodetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

var acquiring = []promise{
	{"a free name is granted", func(x *trial) {
		x.want(node.Granted, acquire("o1", long, "a"))
		x.keys("a")
	}},
	{"with a TTL, as every key", func(x *trial) {
		x.want(node.Granted, acquire("o1", long, "a", "b"))
		x.lives(long, "a", "b")
	}},
	{"a held name is denied, naming holder and TTL", func(x *trial) {
		x.want(node.Granted, acquire("o1", middle, "a"))
		h := x.denied(acquire("o2", long, "a"), "a", "o1")
		assert.LessOrEqual(x, h.TTL, middle)
		assert.Greater(x, h.TTL, middle-slack)
		x.lives(middle, "a")
	}},
	{"an own name is granted again, and lives for the longer TTL", func(x *trial) {
		x.want(node.Granted, acquire("o1", brief, "a"), acquire("o1", long, "a"))
		x.denied(acquire("o2", long, "a"), "a", "o1")
		x.lives(long, "a")
		x.keys("a")
	}},
	{"an expired name is free", func(x *trial) {
		x.want(node.Granted, acquire("o1", short, "a", "b"))
		x.Pass(short)
		x.keys()
		x.want(node.Granted, acquire("o2", long, "a"))
		x.denied(acquire("o1", long, "a", "b"), "a", "o2")
		x.keys("a")
	}},
	{"of several holders the one that lives longest is named", func(x *trial) {
		x.want(node.Granted, acquire("o1", brief, "a"), acquire("o2", long, "b"), acquire("o3", middle, "c"))
		h := x.denied(acquire("o4", long, "a", "b", "c", "d"), "b", "o2")
		assert.Greater(x, h.TTL, middle)
		x.denied(acquire("o4", long, "c", "b", "a"), "b", "o2")
		x.denied(acquire("o4", long, "c", "a"), "c", "o3")
	}},
	{"several names are taken together", func(x *trial) {
		x.want(node.Granted, acquire("o1", long, "a", "b", "c"))
		x.denied(acquire("o2", long, "b"), "b", "o1")
		x.keys("a", "b", "c")
	}},
	{"all or none: a denial leaves the others free", func(x *trial) {
		x.want(node.Granted, acquire("o1", long, "b"))
		for _, names := range [][]string{{"a", "b", "c"}, {"a", "c", "b"}, {"b", "a", "c"}} {
			x.denied(acquire("o2", long, names...), "b", "o1")
			x.keys("b")
		}
		x.want(node.Granted, acquire("o3", long, "a"), acquire("o4", long, "c"))
	}},
	{"all or none: a denial leaves an own name as it was", func(x *trial) {
		x.want(node.Granted, acquire("o1", brief, "a"), acquire("o2", brief, "b"))
		x.denied(acquire("o1", long, "a", "b"), "b", "o2")
		x.lives(brief, "a", "b")
	}},
	{"a late acquisition does not shorten its owner's lock", func(x *trial) { x.keepsLonger(long, brief) }},
	{"an acquisition with a longer TTL prolongs its owner's lock", func(x *trial) { x.keepsLonger(brief, long) }},
	{"of many at once exactly one is granted", func(x *trial) { x.race(x.handles()) }},
}

// keepsLonger acquires with one TTL and then late, with the other TTL and an earlier token, alone and in a batch. It
// requires the longer life.
func (x *trial) keepsLonger(first, then time.Duration) {
	for kind, op := range map[string]node.Op{
		"past waiters":     acquire("o1", first, "a"),
		"in FIFO order":    fair(acquire("o2", first, "b")),
		"by a waiter":      fair(waiting("w:1", 1, acquire("o3", first, "c"))),
		"of several names": acquire("o4", first, "d", "e"),
		"of slots":         take(4, "o5", 1, 2),
		"by a reader":      read("o6", first, "f", "g"),
	} {
		x.Run(kind, func(t *testing.T) {
			x := &trial{T: t, Subject: x.Subject, limits: x.limits, began: x.began}
			late := x.token()
			op.TTL = first
			x.answered(node.Granted, x.do(op)[0])
			op.TTL = then
			for _, r := range append(x.do(proposing(late, op), proposing(late, op)), x.do(proposing(late, op))...) {
				x.answered(node.Granted, r)
			}
			x.lives(max(first, then), op.Names...)
		})
	}
}

// handles returns all handles on the deployment.
func (x *trial) handles() []node.Node {
	if x.Second == nil {
		return []node.Node{x.Node}
	}
	return []node.Node{x.Node, x.Second()}
}

// race lets many owners acquire one name, again and again, and requires one winner each time.
func (x *trial) race(handles []node.Node) {
	const owners, rounds = 16, 10
	for round := range rounds {
		name := fmt.Sprintf("contended %d", round)
		replies := make([]node.Reply, owners)
		var wg sync.WaitGroup
		for i := range owners {
			wg.Go(func() {
				op := acquire(fmt.Sprintf("o%d", i), long, name)
				replies[i] = x.doOn(handles[i%len(handles)], op)[0]
			})
		}
		wg.Wait()
		x.onlyWinner(name, replies)
	}
}

// onlyWinner requires one grant, and that all other replies name its owner.
func (x *trial) onlyWinner(name string, replies []node.Reply) {
	x.Helper()
	winner := ""
	for i, r := range replies {
		if r.Outcome == node.Granted {
			require.Empty(x, winner, "a second winner")
			winner = fmt.Sprintf("o%d", i)
		}
	}
	require.NotEmpty(x, winner)
	for _, r := range replies {
		if r.Outcome != node.Granted {
			x.outcome(node.Denied, r)
			assert.Equal(x, name, r.Holder.Name)
			assert.Equal(x, winner, r.Holder.Owner)
		}
	}
}

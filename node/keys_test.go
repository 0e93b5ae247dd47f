package node

import (
	"testing"
	"time"

	"github.com/redis/rueidis/mock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// Each key costs the server time, so a lone owner declares the keys of the usual case only.
func TestLoneCallsDeclareFewKeys(t *testing.T) {
	waiter := wire.Waiter{ID: "c:1", Keep: time.Second}
	for _, c := range []struct {
		op   wire.Op
		keys []string
	}{
		{wire.Op{Kind: wire.Acquire, Names: []string{"a"}}, []string{"a", "quorumlock:queue:{a}", "quorumlock:node", "quorumlock:fences"}},
		{wire.Op{Kind: wire.Renew, Names: []string{"a"}}, []string{"a", "quorumlock:node", "quorumlock:fences"}},
		{wire.Op{Kind: wire.Release, Names: []string{"{a}"}}, []string{"{a}", "quorumlock:queue::{a}"}},
		{wire.Op{Kind: wire.Release, Names: []string{"a"}, Waiter: waiter}, []string{
			"a", "quorumlock:queue:{a}", "quorumlock:waiting:{a}", "quorumlock:writers:{a}", "quorumlock:node", "quorumlock:fences",
		}},
	} {
		var w writer
		w.call([]wire.Op{c.op})
		assert.Equal(t, c.keys, w.keys)
	}
}

// A small batch that was refused for queues runs again at once with all keys, in single calls, except for renewals: the queues may
// need them, and a third round would take longer than a sender waits for a node. Batches that follow declare the queues, until one
// finds that there are none.
func TestBatchesDeclareQueuesForAWhile(t *testing.T) {
	batch := []wire.Op{{Kind: wire.Acquire, Names: []string{"a"}}, {Kind: wire.Release, Names: []string{"b"}}}
	few := []string{"a", "b", "quorumlock:node", "quorumlock:fences"}
	all := []string{"a", "quorumlock:queue:{a}", "b", "quorumlock:queue:{b}", "quorumlock:node", "quorumlock:fences"}
	var w writer
	declares := func(keys []string) {
		t.Helper()
		w.call(batch)
		require.Equal(t, keys, w.keys)
	}
	declares(few)
	replies := make([]wire.Reply, 2)
	w.decodeMessage(batch, mock.RedisArray(mock.RedisBlobString("KEYS")), replies)
	assert.Equal(t, []opRange{{0, 1, true}, {1, 2, true}}, unfinished([]opRange{{0, 2, false}}, batch, replies))
	mixed := []wire.Op{{Kind: wire.Renew, Names: []string{"a"}}, {Kind: wire.Release, Names: []string{"b"}}}
	assert.Equal(t, []opRange{{0, 1, false}, {1, 2, true}}, unfinished([]opRange{{0, 2, false}}, mixed, replies))
	large := make([]wire.Reply, smallBatch+1)
	failCommand(large, errQueues)
	assert.Equal(t, []opRange{{0, smallBatch + 1, false}}, unfinished([]opRange{{0, smallBatch + 1, false}}, nil, large))
	declares(all)
	w.decodeMessage(batch, mock.RedisBlobString("11"), replies)
	declares(all)
	w.decodeMessage(batch, mock.RedisBlobString("11-"), replies)
	assert.Equal(t, wire.Granted, replies[0].Outcome)
	declares(few)
}

// An operation that shares a name with another one declares all keys at once, unless one script keeps their order: it must not
// run again behind the other one.
func TestOperationsOnOneNameAreNotSplit(t *testing.T) {
	lone := func(kind wire.Kind, name string) wire.Op {
		return wire.Op{Kind: kind, Names: []string{name}, Fair: true}
	}
	leaves := wire.Op{Kind: wire.Leave, Names: []string{"a"}, Waiter: wire.Waiter{ID: "c:1"}}
	together := []wire.Op{lone(wire.Acquire, "a"), lone(wire.Acquire, "b"), lone(wire.Release, "a")}
	assert.Equal(t, []opRange{{0, 3, false}}, spans(nil, together))
	assert.Equal(t, []opRange{{0, 1, true}, {1, 2, false}, {2, 3, true}, {3, 4, true}}, spans(nil, append(together, leaves)))
	assert.Equal(t, []opRange{{0, 2, false}, {2, 3, false}}, spans(nil, []wire.Op{lone(wire.Acquire, "b"), lone(wire.Acquire, "c"), leaves}))

	// The slots of a pool share its queue.
	one, other, quits := lone(wire.Acquire, "s1"), lone(wire.Acquire, "s2"), leaves
	for _, op := range []*wire.Op{&one, &other, &quits} {
		op.Pool = wire.Pool{Name: "pool", Size: 2}
	}
	assert.Equal(t, []opRange{{0, 1, true}, {1, 2, true}, {2, 3, true}}, spans(nil, []wire.Op{one, other, quits}))
}

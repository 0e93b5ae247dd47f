package node_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// index is the key of the index of the pool that slots uses.
var index = strings.Replace(wire.PoolName("lock:a"), "permits", "slots", 1)

// indexed returns a node whose pool of two slots is full and has an index, and a node of a user with these rules.
func indexed(t *testing.T, rules ...string) (*redisproc.Server, node.Node, node.Node) {
	t.Helper()
	server := start(t)
	full := opened(t, open(t, server.Socket()))
	user := asUser(t, server, rules...)
	want(t, wire.Granted, full, slots(2, acquire("o1"), 0))
	want(t, wire.Granted, full, slots(2, acquire("o2"), 1))
	want(t, wire.Denied, full, slots(2, acquire("o3"), 0, 1))
	require.Contains(t, command(t, server, "ZRANGE", index, "0", "-1"), "1")
	return server, full, user
}

// A slot that could not be taken, for want of a right, stays free for other users.
func TestIndexAfterATakeThatFailed(t *testing.T) {
	server, full, user := indexed(t, "~*", "&*", "+@all", "-pexpire")
	want(t, wire.Released, full, slots(2, release("o1"), 0))
	fails(t, node.ErrAuth, user, slots(2, acquire("u"), 0))
	require.Equal(t, "0", command(t, server, "EXISTS", wire.SlotName(wire.PoolName("lock:a"), 0)))
	assert.Equal(t, []byte{1}, want(t, wire.Denied, full, slots(2, acquire("o3"), 1)).Pool.Free)
}

// A user that may lock, but not wait, gives a slot back: a denial tells other users at once.
func TestIndexAfterAReleaseWithoutRights(t *testing.T) {
	server, full, user := indexed(t, minimalACL)
	want(t, wire.Released, user, slots(2, release("o1"), 0))
	require.Equal(t, "0", command(t, server, "EXISTS", wire.SlotName(wire.PoolName("lock:a"), 0)))
	assert.Equal(t, []byte{1}, want(t, wire.Denied, full, slots(2, acquire("o3"), 1)).Pool.Free)
}

// An index that is wrong costs a waiter one attempt for each slot: the holder has no right to write it, or somebody has deleted it.
func TestIndexLearnsOfSlotsThatAreHeld(t *testing.T) {
	server, full, user := indexed(t, minimalACL)
	for _, spoil := range []func(){
		func() { command(t, server, "DEL", index) },
		func() {
			want(t, wire.Released, full, slots(2, release("o1"), 0))
			want(t, wire.Granted, user, slots(2, acquire("o1"), 0))
		},
	} {
		spoil()
		want(t, wire.Denied, full, slots(2, acquire("o3"), 0))
		r := want(t, wire.Denied, full, slots(2, acquire("o3"), 1))
		assert.Equal(t, []byte{0}, r.Pool.Free)
		assert.Positive(t, r.Holder.TTL)
		r = want(t, wire.Denied, full, slots(2, acquire("o3"), 0, 1))
		assert.Equal(t, []byte{0}, r.Pool.Free)
	}
}

package node_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// Operations run while half of the keys have left the owner of a slot. Scripts fail in all places. No failure gives a
// lock away, loses one, or leaves a key without an end.
func TestRedisInAHalfMovedSlot(t *testing.T) {
	t.Parallel()
	c := redisproc.StartCluster(t, redisproc.WithPatience())
	n := opened(t, slotOf(t, c.Addresses()...))
	listen(t, n, "c")
	for round := range 4 {
		h := &halfMoved{t: t, c: c, n: n, round: round}
		h.take()
		to := c.OtherMaster(marker)
		c.Move(marker, to, func(from *redisproc.Server) {
			h.use()
			h.keysEnd(from, to)
		})
		h.keysEnd(to)
		poll(t, func() bool { return do(n, inspect("{ql}:a"))[0].Err == nil }, func() any { return "the new owner answers" })
		h.kept()
		opened(t, n)
		h.free()
		require.ElementsMatch(t, []string{marker, wire.FencesKey("ql"), wire.IndexPrefix + wire.IndexRest(wire.PoolName("{ql}:p"))}, to.Keys())
	}
}

// halfMoved is the locks of one move. Each name has an owner of its own, and the first half has a waiter.
type halfMoved struct {
	t     *testing.T
	c     *redisproc.Cluster
	n     serverNode
	round int
	// released are the locks whose release was sent, whether it succeeded or not.
	released []int
}

const movedLocks = 12

func (h *halfMoved) name(i int) string  { return fmt.Sprintf("{ql}:%d-%d", h.round, i) }
func (h *halfMoved) owner(i int) string { return fmt.Sprintf("o%d-%d", h.round, i) }

// shared reports whether a lock is held by a reader.
func (h *halfMoved) shared(i int) bool { return i%4 == 3 }

func (h *halfMoved) of(i int, op wire.Op) wire.Op {
	op.Reads = h.shared(i)
	return op
}

func (h *halfMoved) permits(owner string, op func(string, ...string) wire.Op) wire.Op {
	o := op(owner)
	o.Pool = wire.Pool{Name: wire.PoolName("{ql}:p"), Size: 2}
	o.Names = []string{wire.SlotName(o.Pool.Name, 0), wire.SlotName(o.Pool.Name, 1)}
	return o
}

func (h *halfMoved) take() {
	for i := range movedLocks {
		want(h.t, wire.Granted, h.n, h.of(i, acquire(h.owner(i), h.name(i))))
		if i < movedLocks/2 {
			want(h.t, wire.Denied, h.n, waits(fmt.Sprintf("c:w%d-%d", h.round, i), 1, h.name(i)))
		}
	}
	want(h.t, wire.Granted, h.n, h.permits("holder", acquire))
}

// use runs every kind of operation on all locks, one by one and in batches.
func (h *halfMoved) use() {
	var ops []wire.Op
	for i := range movedLocks {
		ops = append(ops, acquire("thief", h.name(i)), h.of(i, renew(h.owner(i), h.name(i))), fairly("c:thief", 2, h.name(i)), inspect(h.name(i)))
		if i%3 == 0 {
			ops = append(ops, h.of(i, release(h.owner(i), h.name(i))))
			h.released = append(h.released, i)
		}
	}
	ops = append(ops, acquire("thief", h.name(1), h.name(2), "{ql}:new"), reads(acquire("thief", "{ql}:new")), h.permits("thief", acquire),
		h.permits("holder", renew), wire.Op{Kind: wire.Mark})
	failed := 0
	for _, batch := range append(slices.Collect(slices.Chunk(ops, 1)), ops) {
		replies := do(h.n, batch...)
		for i, r := range replies {
			op := batch[i]
			if r.Err != nil {
				failed++
				continue
			}
			require.False(h.t, r.Outcome == wire.Granted && op.Kind == wire.Acquire, "%s was granted %v: %+v", op.Owner, op.Names, r)
			require.False(h.t, r.Outcome == wire.Denied && op.Kind == wire.Renew, "%s lost %v: %+v", op.Owner, op.Names, r)
		}
	}
	require.Positive(h.t, failed, "half of the keys are elsewhere")
}

// keysEnd requires that all keys of locks expire.
func (h *halfMoved) keysEnd(servers ...*redisproc.Server) {
	for _, s := range servers {
		for _, key := range s.Keys() {
			if key != marker && key != wire.FencesKey("ql") {
				ttl, err := s.Command("PTTL", key)
				require.True(h.t, err != nil || ttl != "-1", "%s has no end", key)
			}
		}
	}
}

// kept requires that each owner still has its lock, unless it was released, and that no other owner gets one.
func (h *halfMoved) kept() {
	for i := range movedLocks {
		r := do(h.n, acquire("thief", h.name(i)))[0]
		require.ErrorIs(h.t, r.Err, node.ErrRecovering)
		if !slices.Contains(h.released, i) {
			want(h.t, wire.Granted, h.n, h.of(i, renew(h.owner(i), h.name(i))))
		}
	}
	want(h.t, wire.Granted, h.n, h.permits("holder", renew))
}

// free ends all that was acquired or asked for, as clients do after an error.
func (h *halfMoved) free() {
	for i := range movedLocks {
		_ = do(h.n, leaves(fmt.Sprintf("c:w%d-%d", h.round, i), h.name(i)))
		_ = do(h.n, leaves("c:thief", h.name(i)))
		_ = do(h.n, h.of(i, release(h.owner(i), h.name(i))))
	}
	want(h.t, wire.Released, h.n, h.permits("holder", release))
}

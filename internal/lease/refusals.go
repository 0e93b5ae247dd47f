package lease

import (
	"errors"
	"iter"
	"time"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// refusals lists the last answers of the nodes that did not confirm, ordered by node. Most grants
// have none, and many have one, of a node that is down or slow.
type refusals struct{ first *refusal }

type refusal struct {
	wire.Reply
	// acquires is set for the denial of an acquisition. If it names no owner, the lock is free but reserved.
	acquires bool
	node     int
	next     *refusal
}

// all yields each answer with the index of its node.
func (rs *refusals) all() iter.Seq2[int, *refusal] {
	return func(yield func(int, *refusal) bool) {
		for r := rs.first; r != nil && yield(r.node, r); r = r.next {
		}
	}
}

// get returns the answer of a node, or nil.
func (rs *refusals) get(i int) *refusal {
	if r := *rs.find(i); r != nil && r.node == i {
		return r
	}
	return nil
}

// find returns the link to a node's answer, or the link where it belongs.
func (rs *refusals) find(i int) **refusal {
	p := &rs.first
	for *p != nil && (*p).node < i {
		p = &(*p).next
	}
	return p
}

// set keeps a node's answer.
func (rs *refusals) set(i int, r *wire.Reply) {
	p := rs.find(i)
	if *p == nil || (*p).node != i {
		*p = &refusal{node: i, next: *p}
	}
	(*p).Reply, (*p).acquires = *r, false
}

// clear forgets a node's answer once the node has confirmed.
func (rs *refusals) clear(i int) {
	if p := rs.find(i); *p != nil && (*p).node == i {
		*p = (*p).next
	}
}

// isTombstone reports whether the answer shows a tombstone of this owner. In the denial of an acquisition, no
// owner means that the lock is free but reserved.
func (r *refusal) isTombstone() bool {
	return r.Outcome == wire.Denied && r.Holder.Owner == "" && !r.acquires
}

// hasTombstone reports whether a node has a tombstone for this owner.
func (rs *refusals) hasTombstone() bool { return rs.contain((*refusal).isTombstone) }

// tokenTooFar reports whether the clock of a node rejected the token.
func (rs *refusals) tokenTooFar() bool {
	return rs.contain(func(r *refusal) bool { return errors.Is(r.Err, node.ErrClock) })
}

func (rs *refusals) contain(is func(*refusal) bool) bool {
	for _, r := range rs.all() {
		if is(r) {
			return true
		}
	}
	return false
}

// denials returns the nodes that denied, and the holder that each of them named.
func (rs *refusals) denials() (nodes []int, holders []wire.Holder) {
	for i, r := range rs.all() {
		if r.Outcome == wire.Denied {
			nodes, holders = append(nodes, i), append(holders, r.Holder)
		}
	}
	return nodes, holders
}

// freeAfter estimates from the holders that nodes of n named how long until need nodes are free.
func freeAfter(holders []wire.Holder, n, need int) time.Duration {
	told := make([]time.Duration, len(holders))
	for i, h := range holders {
		told[i] = HolderTTL(h)
	}
	return decision.FreeAfter(told, n-len(told), need)
}

// mostNamed returns the holder with the owner that occurs most often.
func mostNamed(holders []wire.Holder) (most wire.Holder) {
	votes := make(map[string]int)
	for _, h := range holders {
		if h.Owner == "" && most.Owner != "" {
			continue // free there but reserved, and other nodes named the holder
		}
		votes[h.Owner]++
		switch n := votes[h.Owner]; {
		case most.Owner == h.Owner:
			if HolderTTL(h) > HolderTTL(most) {
				most = h
			}
		case n > votes[most.Owner], most.Owner == "":
			most = h
		}
	}
	return most
}

// HolderTTL returns how long a claim lasts. A key without expiry lasts for ever.
func HolderTTL(h wire.Holder) time.Duration {
	if h.TTL == wire.NoExpiry {
		return decision.Never
	}
	return h.TTL
}

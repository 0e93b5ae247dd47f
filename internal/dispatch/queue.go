package dispatch

import "slices"

const (
	// maxBatch bounds the operations of one exchange, and so its duration: as many undos may go with them.
	maxBatch = 256
	// maxQueue bounds what waits for one node. Beyond it, the node counts as not asked,
	// and the others decide. Undos are always accepted: there is at most one for each
	// operation that was sent.
	maxQueue = 1 << 14
	// maxRenewals is how many renewals of one need a sender queues, or more while it has more other calls:
	// it sends full batches then, and acquisitions leave most of a batch to renewals.
	maxRenewals = 2 * maxBatch
)

// callQueue has the calls that wait for an exchange with a node. The sender's mutex guards it.
type callQueue struct {
	// undos go before calls: they free what earlier exchanges have left on the node.
	undos []*Call
	// calls are in the order of their submission. withdrawn of them are not sent any more.
	calls     []*Call
	withdrawn int
	// renewals counts the renewals by how many nodes they need.
	renewals []int
}

// length is how many calls are to be sent.
func (q *callQueue) length() int { return len(q.undos) + len(q.calls) - q.withdrawn }

// empty reports whether there is nothing in the queue, not even what was withdrawn.
func (q *callQueue) empty() bool { return len(q.undos)+len(q.calls) == 0 }

// dropWithdrawn forgets the withdrawn calls once they are the greater part. So a withdrawal takes the same time on
// average, however long the queue is.
func (q *callQueue) dropWithdrawn() {
	if q.withdrawn > len(q.calls)/2 {
		q.calls = slices.DeleteFunc(q.calls, func(c *Call) bool { return c.place == withdrawn })
		q.withdrawn = 0
	}
}

// clear empties the queue, and returns what was to be sent, in order.
func (q *callQueue) clear() []*Call {
	all := append(q.undos, q.calls...)
	clear(q.renewals)
	*q = callQueue{renewals: q.renewals}
	return slices.DeleteFunc(all, func(c *Call) bool { return c.place == withdrawn })
}

// has reports whether a call is to be sent for which is returns true.
func (q *callQueue) has(is func(*Call) bool) bool {
	return slices.ContainsFunc(q.undos, is) || slices.ContainsFunc(q.calls, func(c *Call) bool { return c.place != withdrawn && is(c) })
}

// count counts a call that enters the queue or leaves it, if it is a renewal.
func (q *callQueue) count(c *Call, by int) {
	if c.Renews > 0 {
		q.renewals[c.Renews] += by
	}
}

// full reports whether the queue has its limit of renewals that need need nodes. Renewals are
// counted per quorum size: otherwise majority locks would fill every free place. Renewals of
// MultiLocks need capacity on all nodes at once, and would starve.
func (q *callQueue) full(need int) bool {
	mine := q.renewals[need]
	if mine < maxRenewals {
		return false
	}
	others := q.length()
	for _, n := range q.renewals {
		others -= n
	}
	return mine >= others
}

// fill moves calls from the queue into a flight, the undos first: maxBatch of both. While more undos wait, no
// call goes before them. Otherwise the undos of one exchange would delay all other calls by another one.
//
// Calls that share a name with another flight stay, and so do calls that share one with an earlier call that stays.
// names are those of other flights.
func (q *callQueue) fill(f *flight, names heldNames) {
	var undos, calls int // how many stay because of their names
	q.undos, undos = q.move(q.undos, f, names)
	if undos == len(q.undos) {
		q.calls, calls = q.move(q.calls, f, names)
	}
	for _, c := range q.undos[:undos] {
		names.count(c.Op, -1)
	}
	for _, c := range q.calls[:calls] {
		names.count(c.Op, -1)
	}
}

// move moves up to maxBatch calls from a list into a flight, and forgets withdrawn ones. It returns the rest
// of the list. The first held of them stay because of their names, which now count as held.
func (q *callQueue) move(list []*Call, f *flight, names heldNames) (rest []*Call, held int) {
	rest = list[:0]
	looked, room := 0, len(f.batch)+maxBatch
	for ; looked < len(list) && len(f.batch) < room; looked++ {
		switch c := list[looked]; {
		case c.place == withdrawn:
			q.withdrawn--
		case names.has(c.Op):
			names.count(c.Op, 1)
			rest = append(rest, c)
		default:
			c.place = elsewhere
			q.count(c, -1)
			f.batch = append(f.batch, c)
		}
	}
	held = len(rest)
	rest = append(rest, list[looked:]...)
	clear(list[len(rest):])
	return rest, held
}

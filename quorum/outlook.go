package quorum

import "time"

// How long a waiter holds back for those before it.
const (
	// standby is how long who is second in line leaves a free lock to the first.
	standby = 30 * time.Millisecond
	// turn is how long a free lock is left to who was woken.
	turn = 50 * time.Millisecond
	// spread keeps apart those who wait for one expiry, by their ranks.
	spread = 2 * time.Millisecond
)

// Outlook is when a waiter can expect each node to be free, by what nodes have said since its
// last attempt, and so when the next attempt is worthwhile. Times are local. It is not
// safe for concurrent use.
type Outlook struct {
	need int
	// others is how long after the first release the other nodes are given to tell of
	// theirs.
	others time.Duration
	// asked is when the last attempt was sent, first when the first release since was told.
	asked, first time.Duration
	// free is, by node, when it is expected to be free, by whatever promises that first.
	free []time.Duration
}

// NewOutlook returns the outlook of a waiter that needs so many of the nodes, and has made
// no attempt: it is worthwhile at once.
func NewOutlook(nodes, need int) Outlook {
	return Outlook{need: need, first: never, free: make([]time.Duration, nodes)}
}

// Ask notes that an attempt is sent: what nodes said before is out of date. A holder tells
// all nodes at once that it releases, so once one of them has passed that on, the others get
// a moment to do so: it should be the time that most of them need for an answer.
func (o *Outlook) Ask(now, moment time.Duration) {
	o.asked, o.first, o.others = now, never, moment
	for i := range o.free {
		o.free[i] = never
	}
}

// Denied notes that somebody holds the lock on a node, which frees itself at an instant
// unless it is renewed, and that so many others wait there before. A release that was told
// since the attempt was sent is newer than the denial, although it came first: they are on
// two connections.
func (o *Outlook) Denied(i int, until time.Duration, rank int) {
	o.expect(i, after(until, time.Duration(max(rank, 0))*spread))
}

// Left notes that a node is free, and left to another until an instant: to the first of so
// many who wait there before this one. If there are several, the next of them will see to it,
// and this one need not come before that one has had its time too.
func (o *Outlook) Left(i int, until time.Duration, rank int) {
	o.expect(i, after(until, time.Duration(min(max(rank-1, 0), 1))*turn))
}

// Idle notes that nobody holds the lock on a node: it granted what the waiter then gave
// back.
func (o *Outlook) Idle(i int, now time.Duration) {
	o.expect(i, now)
}

// Woken notes that a node says that the lock was released there, and this waiter is first.
func (o *Outlook) Woken(i int, now time.Duration) {
	o.expect(i, now)
	o.first = min(o.first, now)
}

// Standby notes that the lock was released on a node, and this waiter is second.
func (o *Outlook) Standby(i int, now time.Duration) {
	o.expect(i, after(now, standby))
}

func (o *Outlook) expect(i int, at time.Duration) { o.free[i] = min(o.free[i], at) }

// Next returns when the next attempt is worthwhile: when enough nodes are expected to be
// free, a moment after the first of them was released, or when the last attempt is recheck
// old, whatever is expected.
func (o *Outlook) Next(recheck time.Duration) time.Duration {
	next := min(after(o.asked, recheck), after(o.first, o.others))
	if o.need < 1 || o.need > len(o.free) {
		return next
	}
	for i, at := range o.free {
		// The need-th smallest, without sorting.
		if at < next && o.before(at, i) == o.need-1 {
			next = at
		}
	}
	return next
}

// before counts the nodes that are expected before node i, those of one instant by their
// index.
func (o *Outlook) before(at time.Duration, i int) int {
	n := 0
	for j, other := range o.free {
		if other < at || other == at && j < i {
			n++
		}
	}
	return n
}

// after is d after at, and never if at is.
func after(at, d time.Duration) time.Duration {
	if at > never-d {
		return never
	}
	return at + d
}

package quorumlock

import (
	"errors"
	"slices"
	"sync"

	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// releasing is a release whose outcome a caller wants to know. The first answers of the nodes
// settle two questions. Have enough nodes confirmed it for others to get the lock? And had the
// lease lost its quorum before, as too few nodes still had it?
type releasing struct {
	hold  *hold
	token uint64
	calls dispatch.Calls
	// decided is done when both questions are settled.
	decided sync.WaitGroup

	mu sync.Mutex
	// tally counts the nodes that confirmed the release. gone counts the nodes that did not have
	// the lease: it is won when the other nodes are fewer than the need of the rule.
	tally, gone quorum.Tally
	errs        []NodeError
	// forced is set if a renewal had met a tombstone.
	forced bool
	lost   *LostError
}

// newReleasing is for the caller that drops the last handle of a tenure.
func newReleasing(t *tenure) *releasing {
	n, need := t.hold.claims.Nodes(), t.hold.lock.need
	r := &releasing{
		hold: t.hold, token: t.token,
		tally: quorum.NewTally(n, need), gone: quorum.NewTally(n, n-need+1),
	}
	r.decided.Add(1)
	return r
}

// answer counts a node's answer to the release. The mutex of the hold may be held.
func (r *releasing) Answer(c *dispatch.Call, reply *node.Reply) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pending := r.pending()
	switch i := c.Node(); {
	case dispatch.UndoFailed(reply):
		r.tally.Record(i, quorum.Unknown)
		r.gone.Record(i, quorum.Unknown)
		r.errs = append(r.errs, NodeError{Node: r.nameOf(i), Err: reply.Err})
	case r.missed(reply):
		r.tally.Record(i, quorum.Granted)
		r.gone.Record(i, quorum.Granted)
	default:
		r.tally.Record(i, quorum.Granted)
		r.gone.Record(i, quorum.Denied)
	}
	switch {
	case !pending || r.pending():
	case r.gone.Result() == quorum.Won:
		r.inquire()
	default:
		r.decided.Done()
	}
}

// pending reports whether either question is open.
func (r *releasing) pending() bool {
	return r.tally.Result() == quorum.Pending || r.gone.Result() == quorum.Pending
}

// missed reports whether an answer shows that the node did not have the lease. Up to validUntil
// at least the need of the rule must have it, so no more than the others may miss it. After
// that, names run out, and an absent name shows nothing.
func (r *releasing) missed(reply *node.Reply) bool {
	absent := reply.Outcome == node.Absent || reply.Partial
	return absent && !reply.Repeated && r.hold.client.clock.Now() < r.hold.validUntil
}

// wait returns when both questions are settled.
func (r *releasing) wait() error {
	r.decided.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.lost != nil:
		return r.lost
	case r.tally.Result() == quorum.Won:
		return nil
	}
	return &NoQuorumError{
		Op:      "release",
		Names:   r.hold.lock.Names(),
		Need:    r.tally.Need(),
		Agreed:  r.tally.Granted(),
		Pending: r.tally.Missing(),
		Total:   r.tally.Nodes(),
		Nodes:   slices.Clone(r.errs),
	}
}

func (r *releasing) nameOf(i int) string { return r.hold.client.nodes.Name(i) }

// inquiry asks the nodes whether they have lost their memory, and for the present holder. It is
// made only where the lease seems to have lost its quorum, so no other release pays for it.
type inquiry struct {
	release *releasing
	// left counts the nodes that have not answered yet. replies has the answers of the others.
	left    int
	replies []node.Reply
}

// inquire begins an inquiry. The mutex is held.
func (r *releasing) inquire() {
	h := r.hold
	n := r.gone.Nodes()
	q := &inquiry{release: r, left: n - r.gone.Unknown(), replies: make([]node.Reply, n)}
	v := dispatch.NewCalls(n, node.Op{Kind: node.Inspect, Names: h.lock.names, Limits: h.client.cfg.limits()})
	for i := range n {
		if r.gone.Vote(i) == quorum.Unknown {
			continue // it has just failed
		}
		c := v.To(i)
		c.To = q
		if err := h.client.nodes.Submit(i, c); err != nil {
			q.record(i, &node.Reply{Err: err})
		}
	}
}

// answer counts a node's answer to the inquiry.
func (q *inquiry) Answer(c *dispatch.Call, reply *node.Reply) {
	q.release.mu.Lock()
	defer q.release.mu.Unlock()
	q.record(c.Node(), reply)
}

// record keeps an answer; the last one concludes. The mutex of the release is held.
func (q *inquiry) record(i int, reply *node.Reply) {
	q.replies[i] = *reply
	if q.left--; q.left == 0 {
		q.conclude()
	}
}

// conclude settles whether the lease was lost. A node that recovers has given the lock to no
// other since it lost its memory, so it counts as one that has the lease. Where a node does not
// answer now, its first answer stands.
func (q *inquiry) conclude() {
	r := q.release
	defer r.decided.Done()
	gone := 0
	for i := range q.replies {
		if q.misses(i) {
			gone++
		}
	}
	if gone < r.gone.Need() {
		return
	}
	r.lost = q.loss()
	r.hold.reportLossFound(r.token, r.lost)
}

// misses reports whether a node did not have the lease, and has not lost its memory.
func (q *inquiry) misses(i int) bool {
	return q.release.gone.Vote(i) == quorum.Granted && q.replies[i].Recovering == 0
}

// loss is the error for a release that comes behind a loss.
func (q *inquiry) loss() *LostError {
	r := q.release
	h := r.hold
	e := &LostError{Names: h.lock.Names(), Owner: h.owner, Cause: LossGone, Reason: "too few nodes still had it when it was released"}
	holders := make([]string, len(q.replies))
	for i := range q.replies {
		err := errGone
		if other, ok := otherHolder(q.replies[i].Holders, h.owner); ok {
			if h.isFollowedBy(&other) {
				holders[i] = other.Owner
			}
			err = &HeldError{Name: other.Name, Owner: other.Owner, TTL: other.TTL}
		}
		if q.misses(i) {
			e.Nodes = append(e.Nodes, NodeError{Node: r.nameOf(i), Err: err})
		}
	}
	e.Nodes = append(e.Nodes, r.errs...)
	if r.forced {
		e.Cause, e.Reason = LossForced, "it was released by force"
	} else if owner, ok := quorum.Usurper(holders); ok {
		return takenBy(owner, e)
	}
	return e
}

// errGone is the reason of a node that did not have the lease when it was released.
var errGone = errors.New("it did not have the lease any more")

// otherHolder is another owner that holds one of the names.
func otherHolder(holders []node.Holder, owner string) (node.Holder, bool) {
	i := slices.IndexFunc(holders, func(h node.Holder) bool { return h.Owner != owner && h.Owner != node.Readers })
	if i < 0 {
		return node.Holder{}, false
	}
	return holders[i], true
}

// reportLossFound tells the log and the hook of a loss that a release has found.
func (h *hold) reportLossFound(token uint64, lost *LostError) {
	c := h.client
	c.warn("quorumlock: a lease was lost before its release", "names", h.lock.names, "owner", h.owner, "err", lost)
	if hook := c.cfg.Hooks.LossFound; hook != nil {
		fire(&c.reports, hook, LossFoundEvent{Names: h.lock.Names(), Owner: h.owner, Token: token, Err: lost})
	}
}

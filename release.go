package quorumlock

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// end ends the lease, if it has not ended yet, and undoes it on the nodes.
func (g *grant) end(cause error) { g.endAt(g.client.clock.Now(), cause, nil) }

// endAt is end for somebody who waits for the nodes, if there is one, and who has just looked at
// the clock. It reports whether this call ended the lease.
func (g *grant) endAt(now time.Duration, cause error, r *releaseRound) bool {
	g.mu.Lock()
	over := g.endLocked(now, cause, r)
	g.mu.Unlock()
	if over {
		g.lease.jointLeases.beginReleases()
	}
	return over
}

// endLocked is endTo with the mutex held; what joint leases hold besides is left to the caller.
func (g *grant) endLocked(now time.Duration, cause error, r *releaseRound) bool {
	if g.state != stateHeld {
		return false
	}
	t := g.lease
	switch {
	case t.leaked:
	case t.reachedLimit(now):
		cause = ErrHoldLimit
	case now >= g.validUntil && !errors.Is(cause, ErrLost):
		cause = g.expiredError("its time had run out before it was released")
	}
	g.state = stateEnded
	t.end(cause)
	g.reportEnd(t, cause, now-t.grantedAt, false) // before anybody else can report a grant
	// In this order: a Close that does not find the hold any more may close the lanes. And
	// who of this client is next must not send anything before the release.
	g.releaseEverywhere(now, r)
	g.client.scheduler.remove(g)
	g.lock.returnSlots(true)
	g.client.queues.onReleased(g)
	if g.ticket != nil {
		g.ticket.abandon()
		g.client.messages.removeTicket(g.ticket)
	}
	return true
}

// reportEnd tells the log and the hooks. Only what nobody asked for is worth a line.
func (g *grant) reportEnd(t *lease, cause error, heldFor time.Duration, handedOver bool) {
	c := g.client
	switch {
	case errors.Is(cause, ErrReleased), errors.Is(cause, ErrClosed):
	case errors.Is(cause, ErrLeaked):
		c.warn("quorumlock: a lease was dropped without a Release; it is released now", "names", g.lock.names, "owner", g.owner, "held", heldFor)
	default:
		c.warn("quorumlock: lease ended", "names", g.lock.names, "owner", g.owner, "held", heldFor, "err", cause)
	}
	if hook := c.cfg.Hooks.Ended; hook != nil {
		report(&c.reporter, hook, EndedEvent{
			Names: g.lock.Names(), Owner: g.owner, Token: t.token, Held: heldFor, HandedOver: handedOver, Err: cause,
		})
	}
}

// expiredError is the error for a lease that ends by itself, as its time is up. The mutex is held.
func (g *grant) expiredError(reason string) error {
	if g.lock.noRenew {
		return g.lostError(LossExpired, reason)
	}
	return g.lostError(LossUnconfirmed, reason)
}

func (g *grant) lostError(cause LossCause, reason string) error {
	return &LostError{Names: g.lock.Names(), Owner: g.owner, Cause: cause, Reason: reason, Nodes: g.nodeErrors()}
}

// undoMargin is how long undos are repeated besides the TTL. What a node has granted is
// over after the TTL; but a node that hangs may have commands in its buffers, and run
// them when it wakes.
const undoMargin = time.Minute

// releaseEverywhere releases this owner on every node that may have seen it. A node that fails is
// tried again until the TTL has passed, and a margin.
func (g *grant) releaseEverywhere(now time.Duration, r *releaseRound) {
	if r == nil {
		g.submitReleases(dispatch.NewCalls(g.client.nodes.Len(), g.releaseOp()), now, dispatch.Ignore)
		return
	}
	r.forced = g.hasTombstone()
	r.calls.Aim(g.client.nodes.Len(), g.releaseOp())
	for i := range g.client.nodes.Len() {
		r.calls.To(i).Deadline = g.lock.deadline(now) // a caller waits
	}
	g.submitReleases(&r.calls, now, r)
}

func (g *grant) submitReleases(v *dispatch.Calls, now time.Duration, to dispatch.Receiver) {
	for i := range g.client.nodes.Len() {
		g.submitUndo(i, now, v.To(i), to)
	}
}

// releaseOp is the operation that undoes.
func (g *grant) releaseOp() node.Op {
	op := g.operation(node.Release)
	op.Announce = g.client.cfg.Redisson
	return op
}

// undoAt does so on one node, before what has been sent there since if it is to be first.
func (g *grant) undoAt(i int, now time.Duration, first bool) {
	op := g.releaseOp()
	c := dispatch.NewCall(i, &op, dispatch.Ignore)
	c.Front = first
	g.submitUndo(i, now, c, c.To)
}

// submitUndo does so on one node, by a call that has the operation.
func (g *grant) submitUndo(i int, now time.Duration, c *dispatch.Call, to dispatch.Receiver) {
	c.To, c.Until = to, now+g.lock.ttl+undoMargin
	if g.ticket != nil {
		op := *c.Op
		op.Waiter = g.ticketAfterUndo(i)
		c.Op = &op
	}
	if !g.proposal.Exposed().Has(i) {
		to.Answer(c, &node.Reply{Outcome: node.Absent})
		return
	}
	if err := g.client.nodes.Submit(i, c); err != nil {
		to.Answer(c, &node.Reply{Err: err})
	}
}

// ticketAfterUndo is what becomes of the waiter's entry on a node, when what that granted is
// undone: one who has not got the lock waits on.
func (g *grant) ticketAfterUndo(i int) node.Waiter {
	if g.lease == nil {
		return g.ticket.onUndo(i)
	}
	if !g.proposal.Exposed().Has(i) {
		g.ticket.leaveNode(i)
	}
	return g.ticket.asLeaver()
}

// releaseRound is a release whose outcome a caller wants to know. The first answers of the nodes
// settle two questions. Have enough nodes confirmed it for others to get the lock? And had the
// lease lost its quorum before, as too few nodes still had it?
type releaseRound struct {
	grant *grant
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

// newReleaseRound is for the caller that drops the last handle of a tenure.
func newReleaseRound(t *lease) *releaseRound {
	n, need := t.grant.claims.Nodes(), t.grant.lock.need
	r := &releaseRound{
		grant: t.grant, token: t.token,
		tally: quorum.NewTally(n, need), gone: quorum.NewTally(n, n-need+1),
	}
	r.decided.Add(1)
	return r
}

// answer counts a node's answer to the release. The mutex of the hold may be held.
func (r *releaseRound) Answer(c *dispatch.Call, reply *node.Reply) {
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
func (r *releaseRound) pending() bool {
	return r.tally.Result() == quorum.Pending || r.gone.Result() == quorum.Pending
}

// missed reports whether an answer shows that the node did not have the lease. Up to validUntil
// at least the need of the rule must have it, so no more than the others may miss it. After
// that, names run out, and an absent name shows nothing.
func (r *releaseRound) missed(reply *node.Reply) bool {
	absent := reply.Outcome == node.Absent || reply.Partial
	return absent && !reply.Repeated && r.grant.client.clock.Now() < r.grant.validUntil
}

// wait returns when both questions are settled.
func (r *releaseRound) wait() error {
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
		Names:   r.grant.lock.Names(),
		Need:    r.tally.Need(),
		Agreed:  r.tally.Granted(),
		Pending: r.tally.Missing(),
		Total:   r.tally.Nodes(),
		Nodes:   slices.Clone(r.errs),
	}
}

func (r *releaseRound) nameOf(i int) string { return r.grant.client.nodes.Name(i) }

// lossInquiry asks the nodes whether they have lost their memory, and for the present holder. It is
// made only where the lease seems to have lost its quorum, so no other release pays for it.
type lossInquiry struct {
	release *releaseRound
	// left counts the nodes that have not answered yet. replies has the answers of the others.
	left    int
	replies []node.Reply
}

// inquire begins an inquiry. The mutex is held.
func (r *releaseRound) inquire() {
	g := r.grant
	n := r.gone.Nodes()
	q := &lossInquiry{release: r, left: n - r.gone.Unknown(), replies: make([]node.Reply, n)}
	v := dispatch.NewCalls(n, node.Op{Kind: node.Inspect, Names: g.lock.names, Limits: g.client.cfg.limits()})
	for i := range n {
		if r.gone.Vote(i) == quorum.Unknown {
			continue // it has just failed
		}
		c := v.To(i)
		c.To = q
		if err := g.client.nodes.Submit(i, c); err != nil {
			q.record(i, &node.Reply{Err: err})
		}
	}
}

// answer counts a node's answer to the inquiry.
func (q *lossInquiry) Answer(c *dispatch.Call, reply *node.Reply) {
	q.release.mu.Lock()
	defer q.release.mu.Unlock()
	q.record(c.Node(), reply)
}

// record keeps an answer; the last one concludes. The mutex of the release is held.
func (q *lossInquiry) record(i int, reply *node.Reply) {
	q.replies[i] = *reply
	if q.left--; q.left == 0 {
		q.conclude()
	}
}

// conclude settles whether the lease was lost. A node that recovers has given the lock to no
// other since it lost its memory, so it counts as one that has the lease. Where a node does not
// answer now, its first answer stands.
func (q *lossInquiry) conclude() {
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
	r.grant.reportLossFound(r.token, r.lost)
}

// misses reports whether a node did not have the lease, and has not lost its memory.
func (q *lossInquiry) misses(i int) bool {
	return q.release.gone.Vote(i) == quorum.Granted && q.replies[i].Recovering == 0
}

// loss is the error for a release that comes behind a loss.
func (q *lossInquiry) loss() *LostError {
	r := q.release
	g := r.grant
	e := &LostError{Names: g.lock.Names(), Owner: g.owner, Cause: LossGone, Reason: "too few nodes still had it when it was released"}
	holders := make([]string, len(q.replies))
	for i := range q.replies {
		err := errGone
		if other, ok := otherHolder(q.replies[i].Holders, g.owner); ok {
			if g.isFollowedBy(&other) {
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
func (g *grant) reportLossFound(token uint64, lost *LostError) {
	c := g.client
	c.warn("quorumlock: a lease was lost before its release", "names", g.lock.names, "owner", g.owner, "err", lost)
	if hook := c.cfg.Hooks.LossFound; hook != nil {
		report(&c.reporter, hook, LossFoundEvent{Names: g.lock.Names(), Owner: g.owner, Token: token, Err: lost})
	}
}

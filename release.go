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

// end ends the lease, unless it has ended, and releases it on the nodes. Nothing waits for the
// nodes.
func (g *grant) end(cause error) { g.endAt(g.client.clock.Now(), cause, nil) }

// endAt ends the lease at now. If r is not nil, r is told when nodes confirm the release. It
// reports whether this call ended the lease.
func (g *grant) endAt(now time.Duration, cause error, r *releaseRound) bool {
	g.mu.Lock()
	over := g.endLocked(now, cause, r)
	g.mu.Unlock()
	if over {
		g.lease.jointLeases.beginReleases()
	}
	return over
}

// endLocked is endAt without the releases of joint leases, which the caller begins after it unlocks
// g.mu. Requires g.mu.
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
	g.reportEnd(t, cause, now-t.grantedAt, false) // before the next holder can report its grant
	// The releases are queued first. A Close that does not find the grant may close the senders.
	// The next waiter of this client must send nothing before the release.
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

// reportEnd tells the log and the hooks. The log gets only ends that the program did not ask for.
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

// expiredError returns the error for a lease whose time is over. Requires g.mu.
func (g *grant) expiredError(reason string) error {
	if g.lock.noRenew {
		return g.lostError(LossExpired, reason)
	}
	return g.lostError(LossUnconfirmed, reason)
}

// lostError returns the error for a lost lease, with the last errors of the nodes. Requires g.mu.
func (g *grant) lostError(cause LossCause, reason string) error {
	return &LostError{Names: g.lock.Names(), Owner: g.owner, Cause: cause, Reason: reason, Nodes: g.nodeErrors()}
}

// undoMargin is how long undos are repeated beyond the TTL. A claim is over after the TTL. But a
// node that hangs may have buffered commands, and run them when it wakes.
const undoMargin = time.Minute

// releaseEverywhere releases this owner on every node that may have seen it. A node that fails is
// retried for ttl+undoMargin. If r is nil, the answers are ignored. Requires g.mu.
func (g *grant) releaseEverywhere(now time.Duration, r *releaseRound) {
	if r == nil {
		g.submitReleases(dispatch.NewCalls(g.client.nodes.Len(), g.releaseOp()), now, dispatch.Ignore)
		return
	}
	r.forced, r.asked = g.hasTombstone(), g.proposal.Exposed()
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

func (g *grant) releaseOp() node.Op {
	op := g.operation(node.Release)
	op.Announce = g.client.cfg.Redisson
	return op
}

// undoAt releases this owner on one node. With front, the release goes ahead of operations that
// were queued later. Requires g.mu.
func (g *grant) undoAt(i int, now time.Duration, front bool) {
	op := g.releaseOp()
	c := dispatch.NewCall(i, &op, dispatch.Ignore)
	c.Front = front
	g.submitUndo(i, now, c, c.To)
}

// submitUndo sends a prepared release to one node. Requires g.mu.
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

// ticketAfterUndo returns the waiter's state for a node on which the claim is undone. A waiter
// without the lock keeps waiting. Requires g.mu.
func (g *grant) ticketAfterUndo(i int) node.Waiter {
	if g.lease == nil {
		return g.ticket.onUndo(i)
	}
	if !g.proposal.Exposed().Has(i) {
		g.ticket.leaveNode(i)
	}
	return g.ticket.asLeaver()
}

// releaseRound is a release whose caller wants to know the outcome. The first answers of the nodes
// settle two questions. Have enough nodes confirmed for others to acquire the lock? Had the lease
// lost its quorum before?
type releaseRound struct {
	grant *grant
	token uint64
	calls dispatch.Calls
	// decided is done when both questions are settled.
	decided sync.WaitGroup

	mu sync.Mutex
	// tally counts the nodes that confirmed the release. gone counts the nodes that did not have
	// the lock. It is won when the other nodes are fewer than the need of the rule.
	tally, gone quorum.Tally
	errs        []NodeError
	// forced is set if a renewal met a tombstone. asked are the nodes that may have had the lease.
	forced bool
	asked  quorum.Set
	lost   *LostError
}

// newReleaseRound makes the round for the caller that releases the last handle of a lease.
func newReleaseRound(t *lease) *releaseRound {
	n, need := t.grant.claims.Nodes(), t.grant.lock.need
	r := &releaseRound{
		grant: t.grant, token: t.token,
		tally: quorum.NewTally(n, need), gone: quorum.NewTally(n, n-need+1),
	}
	r.decided.Add(1)
	return r
}

// Answer counts a node's answer to the release. The caller may hold r.grant.mu.
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

// pending reports whether either question is open. Requires r.mu.
func (r *releaseRound) pending() bool {
	return r.tally.Result() == quorum.Pending || r.gone.Result() == quorum.Pending
}

// missed reports whether an answer shows that the node did not have the lock. Until validUntil at
// least the need of the rule must have it, so no more than the others may miss it. After
// validUntil, names expire, and an absent name shows nothing.
func (r *releaseRound) missed(reply *node.Reply) bool {
	absent := reply.Outcome == node.Absent || reply.Partial
	return absent && !reply.Repeated && r.grant.client.clock.Now() < r.grant.validUntil
}

// wait blocks until both questions are settled, and returns what Release returns.
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

// lossInquiry asks the nodes whether they have lost their memory, and for the present holder. Only
// a release that seems to have lost its quorum pays for it.
type lossInquiry struct {
	release *releaseRound
	// left counts the nodes that have not answered. replies has the answers of the others.
	left    int
	replies []node.Reply
}

// inquire begins an inquiry. Requires r.mu.
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

// Answer counts a node's answer to the inquiry.
func (q *lossInquiry) Answer(c *dispatch.Call, reply *node.Reply) {
	q.release.mu.Lock()
	defer q.release.mu.Unlock()
	q.record(c.Node(), reply)
}

// record keeps an answer. The last answer concludes the inquiry. Requires q.release.mu.
func (q *lossInquiry) record(i int, reply *node.Reply) {
	q.replies[i] = *reply
	if q.left--; q.left == 0 {
		q.conclude()
	}
}

// conclude settles whether the lease was lost. A recovering node has granted the lock to no other
// owner since it lost its memory. So it counts as a node that has the lease. A node that does not
// answer now may recover too. So it counts the same, unless it never had the lease. Requires
// q.release.mu.
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
	answered := q.replies[i].Err == nil || !q.release.asked.Has(i)
	return q.release.gone.Vote(i) == quorum.Granted && answered && q.replies[i].Recovering == 0
}

// loss returns the error for a release that came after a loss.
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

// errGone is the error of a node that did not have the lease when it was released.
var errGone = errors.New("it did not have the lease any more")

// otherHolder returns a holder with another owner id. Readers stand as one, which names no owner.
func otherHolder(holders []node.Holder, owner string) (node.Holder, bool) {
	i := slices.IndexFunc(holders, func(h node.Holder) bool { return h.Owner != owner && h.Owner != node.Readers })
	if i < 0 {
		return node.Holder{}, false
	}
	return holders[i], true
}

// reportLossFound tells the log and the hook of a loss that a release found.
func (g *grant) reportLossFound(token uint64, lost *LostError) {
	c := g.client
	c.warn("quorumlock: a lease was lost before its release", "names", g.lock.names, "owner", g.owner, "err", lost)
	if hook := c.cfg.Hooks.LossFound; hook != nil {
		report(&c.reporter, hook, LossFoundEvent{Names: g.lock.Names(), Owner: g.owner, Token: token, Err: lost})
	}
}

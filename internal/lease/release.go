package lease

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// BeginRelease gives back a handle without waiting. before is why the lease had ended at now, or
// nil. If nodes have to confirm the release, BeginRelease returns the round that counts them, and
// otherwise the result of the release.
func (l *Lease) BeginRelease(now time.Duration, before error) (*Release, error) {
	l.grant.mu.Lock()
	over, r, err := l.releaseLocked(now, before)
	l.grant.mu.Unlock()
	if over {
		l.releaseDependents()
	}
	return r, err
}

// releaseLocked is BeginRelease without the releases of joint leases, which the caller begins after it unlocks l.grant.mu
// if this call ended the lease. Requires l.grant.mu.
func (l *Lease) releaseLocked(now time.Duration, before error) (over bool, r *Release, err error) {
	if l.handles--; l.handles != 0 {
		return false, nil, before
	}
	if before == nil && l.passLocked() {
		return true, nil, nil
	}
	n, need := l.grant.claims.Nodes(), l.grant.spec.Need
	r = &Release{lease: l, tally: decision.NewTally(n, need), gone: decision.NewTally(n, n-need+1)}
	r.decided.Add(1)
	switch over = l.grant.endLocked(now, ErrReleased, r); {
	case !over:
		return false, nil, l.overAt(now)
	case !errors.Is(l.endCause, ErrReleased):
		return true, nil, l.endCause // its time was over first
	case l.isDetached():
		return true, nil, nil
	}
	return true, r, nil
}

// passLocked ends the lease by giving its grant to the next waiter of this client. It sends nothing, as the grant stays
// the same on all nodes. It reports whether a waiter took over. Requires l.grant.mu.
func (l *Lease) passLocked() bool {
	g := l.grant
	if g.lease.token >= g.endOfTokens() {
		return false // most grants have no further token
	}
	now := g.engine.Clock.Now()
	passed := g.lease == l && !l.isDetached() && g.mayHandOver(now) && g.engine.Locals.HandOver(g, func(s *Spec) *Lease {
		l.end(now, ErrReleased)
		g.engine.Events.Ended(l, now-l.grantedAt, true, ErrReleased)
		next := &Lease{}
		if l.extra != nil && l.extra.forced != 0 { // the messages are about the owner, which stays
			next.extra = &extra{forced: l.extra.forced}
		}
		next.start(g, s, l.token+1, now)
		return next
	})
	if passed && l.holdLimit() != g.lease.holdLimit() {
		g.engine.scheduler.schedule(g, g.nextDue(), false)
	}
	return passed
}

// mayHandOver reports whether the grant may go to another holder: within the bounds of the
// configuration, and with more than half of the TTL left. Requires g.mu.
func (g *Grant) mayHandOver(now time.Duration) bool {
	return g.state == stateHeld && now-g.GrantedAt() < g.engine.HandoverTime && g.validUntil-now > g.spec.TTL/2
}

// end ends the lease, unless it has ended, and releases it on the nodes. Nothing waits for the
// nodes.
func (g *Grant) end(cause error) {
	g.mu.Lock()
	over := g.endLocked(g.engine.Clock.Now(), cause, nil)
	g.mu.Unlock()
	if over {
		g.lease.releaseDependents()
	}
}

// endLocked ends the lease at now. If r is not nil, r is told when nodes confirm the release. It reports whether this
// call ended the lease. If so, the caller begins the releases of joint leases after it unlocks g.mu. Requires g.mu.
func (g *Grant) endLocked(now time.Duration, cause error, r *Release) bool {
	if g.state != stateHeld {
		return false
	}
	cause = g.endLease(now, cause)
	if !errors.Is(cause, ErrReleased) {
		r = nil // Ended has reported the loss, so the answers of the nodes must not report it again
	}
	g.state = stateEnded
	// The releases are queued first. A Close that does not find the grant may close the senders.
	// The next waiter of this client must send nothing before the release.
	lost, rest := errors.Is(cause, ErrLost), g.lease.restOfMinHold(now)
	stays := !lost && (g.lease.isDetached() || rest > 0) // the nodes keep the lock for a while
	switch {
	case !stays:
		g.releaseEverywhere(now, g.releaseOp(), r)
	case !g.lease.isDetached():
		g.releaseEverywhere(now, g.shortenOp(rest), r)
	}
	if stays && g.ticket != nil {
		for i := range g.engine.Nodes.Len() {
			g.ticket.Leave(i)
		}
	}
	g.engine.scheduler.remove(g)
	g.spec.returnSlots(!stays)
	g.engine.Locals.OnReleased(g)
	if g.ticket != nil {
		g.ticket.Close()
	}
	return true
}

// endLease ends the lease of a held grant, and returns the actual cause. Requires g.mu.
func (g *Grant) endLease(now time.Duration, cause error) error {
	l := g.lease
	switch {
	case l.leaked:
	case l.reachedLimit(now):
		cause = ErrHoldLimit
	case now >= g.validUntil && !errors.Is(cause, ErrLost):
		cause = g.expired("it expired before it was released")
	}
	l.end(now, cause)
	g.engine.Events.Ended(l, now-l.grantedAt, false, cause) // before the next holder can report its grant
	return cause
}

// undoMargin is how long undos are repeated beyond the TTL. A claim is over after the TTL. But a
// node that hangs may have buffered commands, and run them when it wakes.
const undoMargin = time.Minute

// releaseEverywhere sends a release of this owner to every node that may have seen it. A node that fails is
// retried for TTL+undoMargin. If r is nil, the answers are ignored. Requires g.mu.
func (g *Grant) releaseEverywhere(now time.Duration, op wire.Op, r *Release) {
	exposed := g.exposedNodes()
	if r == nil {
		g.undo(dispatch.NewCalls(g.engine.Nodes.Len(), op), exposed, now, dispatch.Ignore)
	} else {
		r.forced, r.asked = g.refusals.hasTombstone(), exposed
		r.calls.Aim(g.engine.Nodes.Len(), op)
		for i := range g.engine.Nodes.Len() {
			r.calls.To(i).Deadline = g.engine.deadline(g.spec, now) // a caller waits
		}
		g.undo(&r.calls, exposed, now, r)
	}
	for i := range g.engine.Nodes.Len() {
		if exposed.Has(i) {
			continue
		}
		if g.ticket != nil && op.Kind == wire.Release {
			g.ticket.Leave(i)
		}
		if r != nil {
			r.Answer(r.calls.To(i), &wire.Reply{Outcome: wire.Absent})
		}
	}
}

func (g *Grant) releaseOp() wire.Op {
	op := g.operation(wire.Release)
	op.Announce = g.engine.Announce
	return op
}

// shortenOp returns the release of this owner before its MinHold: the nodes keep the lock for the rest, and no longer.
func (g *Grant) shortenOp(rest time.Duration) wire.Op {
	return wire.Op{
		Kind: wire.Shorten, Names: g.spec.Names, Owner: g.owner, TTL: decision.TTLFor(rest), Limits: g.engine.Limits,
		Announce: g.engine.Announce,
	}
}

// undo sends prepared releases to some nodes. Requires g.mu.
func (g *Grant) undo(calls *dispatch.Calls, nodes decision.Set, now time.Duration, to dispatch.Receiver) {
	longest := g.spec.firstTTL() // of all operations of the grant
	if g.spec.Fixed {
		longest = g.engine.Limits.MaxTTL // the lease may be extended by any TTL that the nodes allow
	}
	for i := range nodes.All() {
		c := calls.To(i)
		c.To, c.Until = to, now+longest+undoMargin
		if g.ticket != nil && calls.Op.Kind == wire.Release {
			op := calls.Op
			if op.Waiter = g.ticket.Leaver(); g.lease == nil { // a waiter without the lock keeps waiting
				op.Waiter = g.ticket.AfterUndo(i)
			}
			c.Op = &op
		}
	}
	g.engine.Nodes.Send(calls, nodes, func(i int, err error) bool {
		to.Answer(calls.To(i), &wire.Reply{Err: err})
		return true
	})
}

// Release is a release whose caller wants to know the outcome. The first answers of the nodes
// settle two questions. Have enough nodes confirmed for others to acquire the lock? Had the lease
// lost its quorum before?
type Release struct {
	lease *Lease
	calls dispatch.Calls
	// decided is done when both questions are settled.
	decided sync.WaitGroup

	mu sync.Mutex
	// tally counts the nodes that confirmed the release. gone counts the nodes that did not have
	// the lock. It is won when the other nodes are fewer than the need of the rule.
	tally, gone decision.Tally
	errs        []NodeError
	// forced is set if a renewal met a tombstone. asked are the nodes that may have had the lease.
	forced bool
	asked  decision.Set
	lost   error
}

// Answer counts a node's answer to the release. The caller may hold r.lease.grant.mu.
func (r *Release) Answer(c *dispatch.Call, reply *wire.Reply) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pending := r.pending()
	switch i := c.Node(); {
	case dispatch.UndoFailed(reply):
		r.tally.Record(i, decision.Unknown)
		r.gone.Record(i, decision.Unknown)
		r.errs = append(r.errs, NodeError{Node: r.lease.grant.engine.Nodes.Name(i), Err: reply.Err})
	case r.missed(reply):
		r.tally.Record(i, decision.Granted)
		r.gone.Record(i, decision.Granted)
	default:
		r.tally.Record(i, decision.Granted)
		r.gone.Record(i, decision.Denied)
	}
	switch {
	case !pending || r.pending():
	case r.gone.Result() == decision.Won:
		r.inquire()
	default:
		r.decided.Done()
	}
}

// pending reports whether either question is open. Requires r.mu.
func (r *Release) pending() bool {
	return r.tally.Result() == decision.Pending || r.gone.Result() == decision.Pending
}

// missed reports whether an answer shows that the node did not have the lock. Until validUntil at
// least the need of the rule must have it, so no more than the others may miss it. After
// validUntil, names expire, and an absent name shows nothing.
func (r *Release) missed(reply *wire.Reply) bool {
	absent := reply.Outcome == wire.Absent || reply.Partial
	return absent && !reply.Repeated && r.lease.grant.engine.Clock.Now() < r.lease.grant.validUntil
}

// Wait blocks until both questions are settled, and returns what Release returns.
func (r *Release) Wait() error {
	r.decided.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.lost != nil:
		return r.lost
	case r.tally.Result() == decision.Won:
		return nil
	}
	return r.lease.grant.engine.Errors.NoQuorum(Shortage{
		Op: "release", Spec: r.lease.grant.spec,
		Need: r.tally.Need(), Agreed: r.tally.Granted(), Total: r.tally.Nodes(), Pending: r.tally.Missing(),
		Nodes: slices.Clone(r.errs),
	})
}

// lossInquiry asks the nodes whether they have lost their memory, and for the present holder. Only
// a release that seems to have lost its quorum pays for it.
type lossInquiry struct {
	release *Release
	// left counts the nodes that have not answered. replies has the answers of the others.
	left    int
	replies []wire.Reply
}

// inquire begins an inquiry. Requires r.mu.
func (r *Release) inquire() {
	g := r.lease.grant
	n := r.gone.Nodes()
	q := &lossInquiry{release: r, left: n - r.gone.Unknown(), replies: make([]wire.Reply, n)}
	calls := dispatch.NewCalls(n, wire.Op{Kind: wire.Inspect, Names: g.spec.Names, Limits: g.engine.Limits})
	ask := g.engine.Nodes.All()
	for i := range n {
		calls.To(i).To = q
		if r.gone.Vote(i) == decision.Unknown {
			ask = ask.Without(i) // it has just failed
		}
	}
	g.engine.Nodes.Send(calls, ask, func(i int, err error) bool {
		q.record(i, &wire.Reply{Err: err})
		return true
	})
}

// Answer counts a node's answer to the inquiry.
func (q *lossInquiry) Answer(c *dispatch.Call, reply *wire.Reply) {
	q.release.mu.Lock()
	defer q.release.mu.Unlock()
	q.record(c.Node(), reply)
}

// record keeps an answer. The last answer concludes the inquiry. Requires q.release.mu.
func (q *lossInquiry) record(i int, reply *wire.Reply) {
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
	r.lost = r.lease.grant.engine.Errors.Lost(q.loss())
	r.lease.grant.engine.Events.LossFound(r.lease, r.lost)
}

// misses reports whether a node did not have the lease, and has not lost its memory. A key of another type in the
// place of the lock shows that too, as another program wrote it.
func (q *lossInquiry) misses(i int) bool {
	err := q.replies[i].Err
	answered := err == nil || errors.Is(err, node.ErrWrongType) || !q.release.asked.Has(i)
	return q.release.gone.Vote(i) == decision.Granted && answered && q.replies[i].Recovering == 0
}

func (q *lossInquiry) loss() Loss {
	r := q.release
	g := r.lease.grant
	l := Loss{Spec: g.spec, Owner: g.owner, Cause: Gone, Reason: "too few nodes still had the lease at its release"}
	holders := make([]string, len(q.replies))
	for i := range q.replies {
		missing := g.rejection(i, wire.Release, errGone)
		if err := q.replies[i].Err; errors.Is(err, node.ErrWrongType) {
			missing.Err = err
		}
		if other, ok := otherHolder(q.replies[i].Holders, g.owner); ok {
			if g.isFollowedBy(&other) {
				holders[i] = other.Owner
			}
			missing.Err = g.namedBy(other)
		}
		if q.misses(i) {
			l.Nodes = append(l.Nodes, missing)
		}
	}
	l.Nodes = append(l.Nodes, r.errs...)
	if r.forced {
		l.Cause, l.Reason = Forced, "it was released by force"
	} else if owner, ok := decision.Usurper(holders); ok {
		l.Cause, l.Reason, l.TakenBy = Taken, "", owner
	}
	return l
}

// errGone is the error of a node that did not have the lease when it was released.
var errGone = errors.New("the node no longer had the lease")

// otherHolder returns a holder with another owner id. Readers stand as one, which names no owner.
func otherHolder(holders []wire.Holder, owner string) (wire.Holder, bool) {
	i := slices.IndexFunc(holders, func(h wire.Holder) bool { return h.Owner != owner && h.Owner != wire.Readers })
	if i < 0 {
		return wire.Holder{}, false
	}
	return holders[i], true
}

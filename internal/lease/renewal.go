package lease

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// renewalRound is one fan-out of renewals. It asks every node, also those without the lease, to
// keep it for another TTL.
type renewalRound struct {
	grant  *Grant
	sentAt time.Duration
	tally  decision.Tally
	// done receives the outcome. It is nil if no caller waits.
	done    chan<- error
	decided bool

	calls dispatch.Calls
}

// onDue handles a held lease that is due: its end, its hold limit, or a renewal. takes is how long
// a renewal takes if it is sent now, or noCapacity.
func (g *Grant) onDue(takes time.Duration) {
	g.mu.Lock()
	now := g.engine.Clock.Now()
	why := g.reasonToEnd(now, takes)
	over := why != nil && g.endLocked(now, why, nil) // under the same g.mu, so it ends the lease that was checked
	g.mu.Unlock()
	if over {
		g.lease.releaseDependents()
	}
}

// reasonToEnd returns why the lease must end now, or nil. If it need not end, a due renewal is
// sent. Requires g.mu.
func (g *Grant) reasonToEnd(now, takes time.Duration) error {
	refusal := g.engine.Nodes.Refusal()
	switch {
	case g.state != stateHeld:
		return nil
	case g.lease.leaked:
		return ErrLeaked
	case g.lease.reachedLimit(now):
		return ErrHoldLimit
	case refusal != nil:
		return g.refused(refusal)
	case now >= g.validUntil && g.spec.Fixed:
		return g.expired("its TTL expired, and a Fixed lock is not renewed")
	case now >= g.validUntil:
		return g.expired("no quorum of nodes confirmed a renewal in time")
	}
	if !g.renewIfDue(now, takes) {
		return ErrClosed
	}
	return nil
}

// renewIfDue sends a due renewal if there is capacity and it can succeed in time, and schedules the
// next look. It reports false once the client is closed. Requires g.mu.
func (g *Grant) renewIfDue(now, takes time.Duration) bool {
	due := now >= g.nextRenewalAt
	waits := due && takes == noCapacity
	late := due && !waits && takes >= g.validUntil-now
	if due && !waits && !late {
		g.nextRenewalAt = decision.Never
		g.renew(now, nil)
	}
	g.reportBacking(now)
	next := g.dueWithoutRenewal()
	if !waits && !late { // a late one cannot arrive in time, and would delay renewals that can
		next = g.nextDue()
	}
	return g.engine.scheduler.schedule(g, next, waits)
}

// renew sends a renewal round. Requires g.mu and stateHeld: so no renewal is ever queued behind the
// release of its owner.
func (g *Grant) renew(now time.Duration, done chan<- error) { g.renewFor(now, g.spec.TTL, done) }

// renewFor is renew with another TTL. Requires g.mu and stateHeld.
func (g *Grant) renewFor(now, ttl time.Duration, done chan<- error) {
	g.engine.Nodes.KeepListed(now)
	n := g.engine.Nodes.Len()
	r := &renewalRound{grant: g, sentAt: now, tally: decision.NewTally(n, g.spec.Need), done: done}
	r.calls.Aim(n, g.renewOp(ttl))
	for i := range n {
		c := r.calls.To(i)
		c.To, c.Renews, c.Deadline = r, g.renews(), g.engine.deadline(g.spec, now)
	}
	g.expose(g.engine.Nodes.Send(&r.calls, g.engine.Nodes.All(), r.refused))
	if r.tally.Result() != decision.Lost {
		return
	}
	// Too many nodes are down: the round failed before it began.
	r.decided = true
	_ = r.finish(now) // no node has denied it, so nothing ends the lease
}

func (g *Grant) renewOp(ttl time.Duration) wire.Op {
	op := g.operation(wire.Renew)
	op.TTL = ttl
	return op
}

func (g *Grant) renews() uint8 { return uint8(g.spec.Need) } //nolint:gosec // at most quorum.MaxNodes

// refused counts the vote of a node that is not asked. Requires r.grant.mu.
func (r *renewalRound) refused(i int, err error) bool {
	r.recordVote(i, 0, &wire.Reply{Err: err, Unsent: true})
	return true
}

// renewOn renews the lease on one node. Requires g.mu and stateHeld.
func (g *Grant) renewOn(i int) {
	r := &renewalRound{grant: g, tally: decision.NewTally(g.claims.Nodes(), g.spec.Need), decided: true}
	r.calls.Aim(g.claims.Nodes(), g.renewOp(g.spec.TTL))
	r.calls.To(i).To, r.calls.To(i).Renews = r, g.renews()
	g.expose(g.engine.Nodes.Send(&r.calls, decision.Set(0).With(i), r.refused))
}

// RenewOn puts a valid lease back on one node, which has reported it as free.
func (g *Grant) RenewOn(i int) (sent bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state != stateHeld || g.engine.Clock.Now() >= g.validUntil {
		return false
	}
	g.renewOn(i)
	return true
}

// nextRenewal returns when to renew after a successful round that was sent at the given time.
func (g *Grant) nextRenewal(sent time.Duration) time.Duration {
	due := decision.NextRenewal(sent, g.spec.TTL, 0, g.engine.Jitter())
	return decision.AlignToBunch(due, g.spec.TTL, g.engine.renewalPhase)
}

// Answer counts a node's vote on the renewal. A vote after the end of the lease is ignored: nothing
// revives a lease.
func (r *renewalRound) Answer(c *dispatch.Call, reply *wire.Reply) {
	if over := r.countVote(c, reply); over != nil {
		r.grant.end(over)
	}
}

// AnswerLate counts a node's answer after the deadline of its call. A late confirmation still
// counts while the lease is valid.
func (r *renewalRound) AnswerLate(c *dispatch.Call, reply *wire.Reply) {
	g := r.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state == stateHeld {
		g.recordReply(wire.Renew, c.Node(), c.Sent, c.Op.TTL, reply)
		g.applyLateVote()
	}
}

// countVote counts an answer. It returns an error if the lease must end now.
func (r *renewalRound) countVote(c *dispatch.Call, reply *wire.Reply) (over error) {
	g := r.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state != stateHeld {
		return nil
	}
	r.recordVote(c.Node(), c.Sent, reply)
	if r.tally.Result() == decision.Pending {
		g.applyLateVote()
		return nil
	}
	if r.decided {
		g.applyLateVote()
		return r.evictedBy(reply)
	}
	now := g.engine.Clock.Now()
	if now >= g.validUntil {
		return nil
	}
	g.extendValidity(now)
	g.reportBacking(now)
	r.decided = true
	return r.finish(now)
}

// recordVote records a vote in the tally and the claims. Requires r.grant.mu.
func (r *renewalRound) recordVote(i int, sent time.Duration, reply *wire.Reply) {
	v := r.grant.recordReply(wire.Renew, i, sent, r.calls.Op.TTL, reply)
	r.tally.Record(i, v)
	r.grant.reportVote(nil, wire.Renew, i, sent, reply, v)
}

// finish acts on a round that is won or lost. It returns an error if the lease must end now.
// Requires r.grant.mu.
func (r *renewalRound) finish(now time.Duration) (over error) {
	g := r.grant
	if r.tally.Result() == decision.Won {
		g.failedRenewals = 0
		if !g.spec.Fixed {
			g.nextRenewalAt = g.nextRenewal(r.sentAt)
		}
		g.engine.scheduler.schedule(g, g.nextDue(), false)
		g.engine.Events.Renewed(g, g.validUntil-now)
		r.reportResult(nil)
		return nil
	}
	err := g.engine.Errors.NoQuorum(g.shortage("extend", &r.tally))
	g.engine.Events.RenewalFailed(g, g.validUntil-now, err)
	if over := r.evicted(); over != nil {
		return over
	}
	g.retryRenewal(now)
	r.reportResult(err)
	return nil
}

// reportResult sends the outcome to the caller, if one waits. The channel has room for it.
func (r *renewalRound) reportResult(err error) {
	if r.done != nil {
		r.done <- err
	}
}

// minRetry is the shortest pause before a failed renewal round is repeated near the end of its
// lease.
const minRetry = 10 * time.Millisecond

// retryRenewal schedules the next round after a failed one. The pauses grow with the failures, but
// never beyond half of the remaining validity: the nodes may return before the lease ends. Requires
// g.mu.
func (g *Grant) retryRenewal(now time.Duration) {
	if g.spec.Fixed {
		return
	}
	g.failedRenewals++
	again := decision.NextRenewal(now, g.spec.TTL, int(g.failedRenewals), g.engine.Jitter())
	g.nextRenewalAt = min(again, now+max((g.validUntil-now)/2, minRetry))
	g.engine.scheduler.schedule(g, g.nextDue(), false)
}

// evicted returns why the denials of a renewal round end the lease, or nil if they do not. To end a
// lease early is always safe, and its holder learns of the loss much sooner. Requires r.grant.mu.
//
// Other denials, and any number of unknown answers, do not end the lease: a contender may deny it
// for a moment and then roll back. See docs/adr/0007 and 0036.
func (r *renewalRound) evicted() error {
	g := r.grant
	if r.tally.Blocked() && g.refusals.hasTombstone() {
		return g.loss(Forced, "it was released by force")
	}
	if owner, ok := decision.Usurper(r.holders()); ok {
		return g.engine.Errors.Lost(Loss{Spec: g.spec, Owner: g.owner, Cause: Taken, TakenBy: owner, Nodes: g.nodeErrors()})
	}
	return nil
}

// evictedBy is evicted for a vote that arrived after the round was decided. Requires r.grant.mu.
func (r *renewalRound) evictedBy(reply *wire.Reply) error {
	g := r.grant
	if reply.Outcome != wire.Denied || g.engine.Clock.Now() >= g.validUntil {
		return nil
	}
	return r.evicted()
}

// holders returns the later owners that nodes named when they denied this round. Requires
// r.grant.mu.
func (r *renewalRound) holders() []string {
	owners := make([]string, r.tally.Nodes())
	for i, reply := range r.grant.refusals.all() {
		if r.tally.Vote(i) == decision.Denied && reply.Outcome == wire.Denied && r.grant.isFollowedBy(&reply.Holder) {
			owners[i] = reply.Holder.Owner
		}
	}
	return owners
}

// lookTTL is the TTL of a renewal that only looks for tombstones. It is the shortest one, and a renewal
// shortens nothing.
const lookTTL = time.Millisecond

// onForced handles the message of node i that owner was forced off there.
func (g *Grant) onForced(i int, owner string) {
	if g.owner != owner {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.engine.Clock.Now()
	if g.state != stateHeld || now >= g.validUntil {
		return
	}
	x := g.lease.needExtra()
	if x.forced.Has(i) {
		return
	}
	x.forced = x.forced.With(i)
	switch {
	case x.forced.Len() <= g.claims.Nodes()-g.spec.Need:
	case g.spec.Fixed:
		g.renewFor(now, lookTTL, nil)
	default:
		g.renew(now, nil)
	}
}

// Extend starts a renewal, and sends its outcome to done, which must have room for it. If the lease
// is over, it returns why.
func (l *Lease) Extend(done chan<- error) error {
	return l.extend(func(g *Grant, now time.Duration) { g.renew(now, done) })
}

// ExtendFor is Extend with another TTL, which is at most the MaxTTL of the nodes. The lease must be
// Fixed.
func (l *Lease) ExtendFor(ttl time.Duration, done chan<- error) error {
	return l.extend(func(g *Grant, now time.Duration) { g.renewFor(now, ttl, done) })
}

// extend starts a renewal with start, unless the lease is over.
func (l *Lease) extend(start func(g *Grant, now time.Duration)) error {
	g := l.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.engine.Clock.Now()
	if over := l.overAt(now); over != nil {
		return over
	}
	start(g, now)
	return nil
}

// Downgrade starts the renewal that turns the writer's claims into a reader's on all nodes, and
// sends its outcome to done, which has room for it. From now on, this client's other writers must ask the nodes: only
// there do new readers notice waiting writers.
func (l *Lease) Downgrade(done chan<- error) error {
	g := l.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.engine.Clock.Now()
	switch over := l.overAt(now); {
	case over != nil:
		return over
	case g.spec.Reads:
		done <- nil
		return nil
	case !g.reads && l.handles > 1:
		return ErrShared
	}
	g.reads = true
	g.renew(now, done)
	g.engine.Locals.OnReleased(g)
	return nil
}

package quorumlock

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// lookAt finds in a batch of answers what concerns the node, not the callers. The mutex
// is held.
func (l *lane) lookAt(now time.Duration) {
	if failureOf(l.replies) == nil {
		l.identify()
	}
	for i := range l.replies {
		r, kind := &l.replies[i], l.batch[i].op.Kind
		switch {
		case kind != node.Acquire && kind != node.Renew && kind != node.Latch: // the others say nothing about the node
		case r.Recovering > 0:
			l.recovers(now, r)
		case r.Outcome == node.Granted:
			l.grants(kind)
		case r.Err != nil:
			l.complains(r.Err)
		}
		if l.twin != "" && (r.Err == nil || isAnswer(r.Err)) && kind != node.Release && kind != node.ForceRelease {
			*r = node.Reply{Err: &node.Error{Node: l.node.Name(), Op: kind, Reason: node.ErrSameServer, Err: errTwin(l.twin)}}
		}
	}
}

// errTwin names the node that has the vote.
type errTwin string

func (e errTwin) Error() string {
	return "it is " + string(e) + " by another address, and has no vote of its own"
}

// identify finds out whether another lane leads to the same server.
func (l *lane) identify() {
	identity := l.node.Identity()
	if identity == l.identity && l.twin == "" {
		return
	}
	before := l.twin
	l.identity = identity
	l.twin = l.client.servers.claim(l.index, l.node.Name(), identity)
	if l.twin != "" && l.twin != before {
		l.client.warn("quorumlock: two nodes are one server: only one of them votes", "node", l.node.Name(), "same_as", l.twin)
	}
}

// grants ends what was reported of the node. Renewals are granted also where acquisitions
// are refused because of the clock.
func (l *lane) grants(kind node.Kind) {
	if l.recoverUntil != 0 {
		l.recoverUntil = 0
		l.client.info("quorumlock: node has recovered, and gives new locks again", "node", l.node.Name())
	}
	if l.complaint != nil && kind == node.Acquire {
		l.complaint = nil
		l.client.info("quorumlock: node serves this client again", "node", l.node.Name())
	}
}

// complains reports once that a node refuses this client for a reason that somebody has
// to do something about: while it is alone in that, nobody would notice.
func (l *lane) complains(err error) {
	var refusal *node.Error
	if !errors.As(err, &refusal) {
		return
	}
	switch refusal.Reason {
	case node.ErrSettings, node.ErrClock: //nolint:errorlint // a reason is never wrapped
		if l.complaint != refusal.Reason { //nolint:errorlint // see above
			l.complaint = refusal.Reason
			l.client.warn("quorumlock: node refuses this client", "node", l.node.Name(), "err", err)
		}
	}
}

// recovers reports a recovery, unless it is the one that was reported last. What was left
// of it, was left some time between question and answer: it is another one if its end is
// later in any case, and by more than clocks drift apart.
func (l *lane) recovers(now time.Duration, r *node.Reply) {
	left := min(r.Recovering, 2*maxMaxTTL) // no limits allow for more
	earliest := l.began + left
	if l.recoverUntil != 0 && earliest <= l.recoverUntil+quorum.Drift(l.client.cfg.limits().Recovery()) {
		return
	}
	l.recoverUntil = now + left
	end := l.client.clock.Wall().Add(left)
	event := NodeRecoveringEvent{
		Node:      l.node.Name(),
		Since:     end.Add(-max(l.client.cfg.limits().Recovery(), left)),
		Until:     end,
		Restarted: r.Restarted,
	}
	l.client.warn("quorumlock: node is new or has lost its memory: holders keep their locks, but it gives no new ones until all that it may have forgotten has run out",
		"node", event.Node, "since", event.Since, "until", event.Until, "restarted", event.Restarted)
	if hook := l.client.cfg.Hooks.NodeRecovering; hook != nil {
		l.client.reports.tell(func() { hook(event) })
	}
}

// disbelieve is the answer in the place of one with an implausible token.
func (l *lane) disbelieve(token uint64, r *node.Reply) *node.Reply {
	ahead := time.Duration(min(max(r.Token, token)-token, uint64(never/time.Microsecond))) * time.Microsecond
	return &node.Reply{Err: &node.Error{
		Node: l.node.Name(), Op: node.Acquire, Reason: node.ErrClock,
		Err: fmt.Errorf("it says that it knows a token as large, %v ahead of ours, which cannot be", ahead),
	}}
}

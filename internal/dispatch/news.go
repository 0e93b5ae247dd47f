package dispatch

import (
	"cmp"
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// inspectLocked looks in a batch of answers for news about the node itself.
func (s *sender) inspectLocked(f *flight, now time.Duration) {
	before := ""
	if failureOf(f.replies) == nil {
		identity, process := s.server()
		if f.identity != "" && f.identity != identity {
			s.identifyLocked(f.identity)
			before = s.twin
		}
		s.identifyLocked(identity)
		s.succession.answeredBy(identity, process, f.began, now, s.nodes.env.Recovery)
		s.weaknessLocked()
	}
	twin := cmp.Or(s.twin, before)
	for i := range f.replies {
		r, kind := &f.replies[i], f.batch[i].Op.Kind
		if kind == wire.Acquire || kind == wire.Renew {
			s.succession.doubt(r, now, s.nodes.env.Recovery)
		}
		if kind == wire.Mark && r.Marker != nil {
			s.succession.doubtMarker(r.Marker, now, s.nodes.env.Recovery)
		}
		switch {
		case kind != wire.Acquire && kind != wire.Renew && kind != wire.Latch: // other answers say nothing about the node
		case r.Recovering > 0:
			s.recoveringLocked(f.began, now, r)
		case r.Outcome == wire.Granted:
			s.servesLocked(kind)
		case r.Err != nil:
			s.refusesLocked(r.Err)
		}
		undoes := f.batch[i].Until > 0 || kind == wire.ForceRelease // an undo that the server has done is done
		if twin != "" && (r.Err == nil || isAnswer(r.Err)) && !undoes {
			*r = wire.Reply{Err: &node.Error{Node: s.node.Name(), Op: kind.String(), Reason: node.ErrSameServer, Err: sameServerError(twin)}}
		}
	}
}

// server returns the identity of the server, and its process if that is known.
func (s *sender) server() (identity, process string) {
	if s.host != nil {
		return s.host.Server()
	}
	return s.node.Identity(), ""
}

// sameServerError is the name of the node that has the vote.
type sameServerError string

func (e sameServerError) Error() string {
	return "it is " + string(e) + " by another address, and has no vote of its own"
}

// identifyLocked finds out whether another node is the same server.
func (s *sender) identifyLocked(identity string) {
	if identity == s.identity && s.twin == "" {
		return
	}
	before := s.twin
	if s.identity != "" && s.identity != identity {
		s.forgottenLocked()
	}
	s.identity = identity
	s.twin = s.nodes.identities.claim(s.index, s.node.Name(), identity)
	if s.twin != "" && s.twin != before {
		s.nodes.env.Events.SameServer(s.node.Name(), s.twin)
	}
}

// weaknessLocked reports once which losses of the server would go unnoticed, and again if that ended in between.
func (s *sender) weaknessLocked() {
	if s.weak == nil {
		return
	}
	begins := func(before *bool, reason string) bool {
		was := *before
		*before = reason != ""
		return *before && !was
	}
	if settings := s.weak.Eviction(); begins(&s.evicts, settings) {
		s.nodes.env.Events.MayEvict(s.node.Name(), settings)
	}
	if reason := s.weak.Unseen(); begins(&s.unseen, reason) {
		s.nodes.env.Events.LossesUnseen(s.node.Name(), reason)
	}
}

// servesLocked reports the end of a recovery or of a refusal. A node that refuses acquisitions because of
// the clock still grants renewals, so only an acquisition shows that the clock is right.
func (s *sender) servesLocked(kind wire.Kind) {
	if s.recoverUntil != 0 {
		s.recoverUntil = 0
		s.nodes.env.Events.NodeRecovered(s.node.Name())
	}
	if s.complaint != nil && kind == wire.Acquire {
		s.complaint = nil
		s.nodes.env.Events.NodeServes(s.node.Name())
	}
}

// refusesLocked reports once that a node refuses this client for a reason that a person must
// correct. While only a minority does, nothing else would show it.
func (s *sender) refusesLocked(err error) {
	var refusal *node.Error
	if !errors.As(err, &refusal) {
		return
	}
	switch refusal.Reason {
	case node.ErrSettings, node.ErrLists, node.ErrClock: //nolint:errorlint // a reason is never wrapped
		if s.complaint != refusal.Reason { //nolint:errorlint // see above
			s.complaint = refusal.Reason
			s.nodes.env.Events.NodeRefuses(s.node.Name(), err)
		}
	}
}

// maxRecovery bounds the recovery that a node may report, so that sums of times do not overflow.
// Every allowed MaxTTL and MaxClockSkew together are shorter.
const maxRecovery = 2 * 365 * 24 * time.Hour

// recoveringLocked reports a recovery, unless it has reported this one before. The node
// measured the time left somewhere between question and answer. So it is a new recovery
// only if its earliest possible end is later than the last one's, by more than clocks drift.
func (s *sender) recoveringLocked(began, now time.Duration, r *wire.Reply) {
	env := &s.nodes.env
	left := min(r.Recovering, maxRecovery)
	earliest := began + left
	if s.recoverUntil != 0 && earliest <= s.recoverUntil+decision.Drift(env.Recovery) {
		return
	}
	s.recoverUntil = now + left
	s.forgottenLocked()
	end := env.Clock.Wall().Add(left)
	env.Events.NodeRecovering(s.node.Name(), end.Add(-max(env.Recovery, left)), end, r.HadMarker)
}

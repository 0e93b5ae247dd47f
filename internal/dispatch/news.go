package dispatch

import (
	"cmp"
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// server is what a sender knows of the server that is its node. The sender's mutex guards it.
type server struct {
	node node.Node
	// place is the index of the node.
	place int
	of    *shared
	// evicts and unseen are set once the node has said which losses go unnoticed.
	evicts, unseen bool
	// identity is that of the server that answered last. twin names the node that is the same server and has the vote.
	identity, twin string
	// recoverUntil ends the recovery that was reported last.
	recoverUntil time.Duration
	// complaint is why the node refuses this client, as reported last.
	complaint error
	// succession knows which servers have answered at this address.
	succession succession
}

func newServer(common *shared, place int, nd node.Node) server {
	return server{node: nd, place: place, of: common}
}

// inspect looks in a batch of answers for news about the node itself.
func (v *server) inspect(f *flight, now time.Duration) {
	before, recovery := "", v.of.env.Recovery
	if failureOf(f.replies) == nil {
		identity, process := v.node.Server() // of the server now
		if f.identity != "" && f.identity != identity {
			v.identify(f.identity)
			before = v.twin
		}
		v.identify(identity)
		v.succession.answeredBy(identity, process, f.began, now, recovery)
		v.weaken()
	}
	twin := cmp.Or(v.twin, before)
	for i := range f.replies {
		r, kind := &f.replies[i], f.batch[i].Op.Kind
		if kind == wire.Acquire || kind == wire.Renew {
			v.succession.doubt(r, now, recovery)
		}
		if kind == wire.Mark && r.Marker != nil {
			v.succession.doubtMarker(r.Marker, now, recovery)
		}
		switch {
		case kind != wire.Acquire && kind != wire.Renew && kind != wire.Latch: // other answers say nothing about the node
		case r.Recovering > 0:
			v.recovers(f.began, now, r)
		case r.Outcome == wire.Granted:
			v.serves(kind)
		case r.Err != nil:
			v.refuses(r.Err)
		}
		undoes := f.batch[i].Until > 0 || kind == wire.ForceRelease // an undo that the server has done is done
		if twin != "" && (r.Err == nil || isAnswer(r.Err)) && !undoes {
			*r = wire.Reply{Err: &node.Error{Node: v.node.Name(), Op: kind.String(), Reason: node.ErrSameServer, Err: sameServerError(twin)}}
		}
	}
}

// sameServerError is the name of the node that has the vote.
type sameServerError string

func (e sameServerError) Error() string {
	return "it is " + string(e) + " by another address, and has no vote of its own"
}

// identify finds out whether another node is the same server.
func (v *server) identify(identity string) {
	if identity == v.identity && v.twin == "" {
		return
	}
	before := v.twin
	if v.identity != "" && v.identity != identity {
		v.of.lists.forgotten()
	}
	v.identity = identity
	v.twin = v.of.identities.claim(v.place, v.node.Name(), identity)
	if v.twin != "" && v.twin != before {
		v.of.env.Events.SameServer(v.node.Name(), v.twin)
	}
}

// weaken reports once which losses of the server would go unnoticed, and again if that ended in between.
func (v *server) weaken() {
	begins := func(before *bool, reason string) bool {
		was := *before
		*before = reason != ""
		return *before && !was
	}
	if settings := v.node.Eviction(); begins(&v.evicts, settings) {
		v.of.env.Events.MayEvict(v.node.Name(), settings)
	}
	if reason := v.node.Unseen(); begins(&v.unseen, reason) {
		v.of.env.Events.LossesUnseen(v.node.Name(), reason)
	}
}

// serves reports the end of a recovery or of a refusal. A node that refuses acquisitions because of
// the clock still grants renewals, so only an acquisition shows that the clock is right.
func (v *server) serves(kind wire.Kind) {
	if v.recoverUntil != 0 {
		v.recoverUntil = 0
		v.of.env.Events.NodeRecovered(v.node.Name())
	}
	if v.complaint != nil && kind == wire.Acquire {
		v.complaint = nil
		v.of.env.Events.NodeServes(v.node.Name())
	}
}

// refuses reports once that a node refuses this client for a reason that a person must
// correct. While only a minority does, nothing else would show it.
func (v *server) refuses(err error) {
	var refusal *node.Error
	if !errors.As(err, &refusal) {
		return
	}
	switch refusal.Reason {
	case node.ErrSettings, node.ErrLists, node.ErrClock: //nolint:errorlint // a reason is never wrapped
		if v.complaint != refusal.Reason { //nolint:errorlint // see above
			v.complaint = refusal.Reason
			v.of.env.Events.NodeRefuses(v.node.Name(), err)
		}
	}
}

// maxRecovery bounds the recovery that a node may report, so that sums of times do not overflow.
// Every allowed MaxTTL and MaxClockSkew together are shorter.
const maxRecovery = 2 * 365 * 24 * time.Hour

// recovers reports a recovery, unless it has reported this one before. The node
// measured the time left somewhere between question and answer. So it is a new recovery
// only if its earliest possible end is later than the last one's, by more than clocks drift.
func (v *server) recovers(began, now time.Duration, r *wire.Reply) {
	env := &v.of.env
	left := min(r.Recovering, maxRecovery)
	earliest := began + left
	if v.recoverUntil != 0 && earliest <= v.recoverUntil+decision.Drift(env.Recovery) {
		return
	}
	v.recoverUntil = now + left
	v.of.lists.forgotten()
	end := env.Clock.Wall().Add(left)
	env.Events.NodeRecovering(v.node.Name(), end.Add(-max(env.Recovery, left)), end, r.HadMarker)
}

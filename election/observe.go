package election

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock"
)

// Leader is who leads, as enough nodes see it at one time. By the time that anybody looks at it
// another may lead: what must not be done by two is decided by tokens, not by this.
type Leader struct {
	// Owner is the id under which nodes know it: its Term.Owner.
	Owner string
	// Name is that of the candidate, as in Term.
	Name string
	// Token is that of its term, or 0 if nodes no longer know it: they forget it MaxTTL and MaxClockSkew after
	// the election. It is for display. A resource compares tokens that it is shown by those who write.
	Token uint64
	// Since is when it was elected, by its own clock, as its token tells; zero with the token.
	Since time.Time
}

// Leader asks every node who leads. It fails with ErrNoLeader if nobody has the lock on enough
// nodes, and otherwise as [quorumlock.Lock.Inspect] does: if too few nodes answer, nobody knows.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	if err := e.check(ctx); err != nil {
		return Leader{}, err
	}
	status, err := e.lock.Inspect(ctx)
	if err != nil {
		return Leader{}, err
	}
	owner := status.Holder()
	if owner == "" {
		return Leader{}, ErrNoLeader
	}
	leader := Leader{Owner: owner, Name: nameOf(owner)}
	if leader.Token = tokenOf(status, owner); leader.Token != 0 {
		leader.Since = time.UnixMicro(int64(leader.Token)) //nolint:gosec // it fits in 63 bits
	}
	return leader, nil
}

// Watch looks every Config.Interval who leads, and gives what it finds at first, and whenever
// that changes: a leader, or ErrNoLeader, or the reason why it is not known. It costs a round trip to
// each node per look, and needs no candidate. It ends with ctx, or after a
// *quorumlock.InvalidError or quorumlock.ErrClosed. Terms that last for less than an interval may be missed.
func (e *Election) Watch(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		last := sight{first: true}
		for {
			leader, err := e.Leader(ctx)
			if ctx != nil && ctx.Err() != nil {
				return
			}
			next := sight{leader: leader.knownSince(last.leader), err: err}
			if last.differs(next) && !yield(next.leader, next.err) || hopeless(err) {
				return
			}
			last = next
			if sleep(ctx, e.cfg.Clock, e.cfg.Interval) != nil {
				return
			}
		}
	}
}

// sight is what Watch has seen.
type sight struct {
	leader Leader
	err    error
	first  bool
}

// differs tells other leaders from each other, and reasons why there is none known, but not what
// single nodes say.
func (s sight) differs(next sight) bool {
	return s.first || s.leader.Owner != next.leader.Owner || (s.err == nil) != (next.err == nil) ||
		errors.Is(s.err, ErrNoLeader) != errors.Is(next.err, ErrNoLeader)
}

// knownSince adds what was known of the same leader before.
func (l Leader) knownSince(before Leader) Leader {
	if l.Owner == before.Owner && before.Token != 0 {
		l.Token, l.Since = before.Token, before.Since
	}
	return l
}

// tokenOf is the token of an owner by what nodes know: as many as the rule asks for have taken it,
// and fewer than that may know larger ones, of contenders that came to nothing.
func tokenOf(s *quorumlock.Status, owner string) uint64 {
	var known []uint64
	for _, n := range s.Nodes {
		for _, h := range n.Holders {
			if h.Owner == owner && h.Token != 0 {
				known = append(known, h.Token)
			}
		}
	}
	if len(known) == 0 {
		return 0
	}
	slices.Sort(known)
	return known[len(known)-min(s.Need, len(known))]
}

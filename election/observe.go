package election

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock"
)

// Leader is the leader as enough nodes saw it at one time. Another may lead by the time that the caller reads it. So
// protect resources by tokens, and not by this observation.
type Leader struct {
	// Owner is the leader's id on the nodes: its Term.Owner.
	Owner string
	// Name is the Config.Name of the leader, or the default of that.
	Name string
	// Token is the token of its term; nodes know it as long as the term lasts. While the candidate is being elected, it
	// may still be smaller. It is 0 if the lock is held by a program that gives no token. It is for display only. A
	// resource compares the tokens that its writers show.
	Token uint64
	// Since is the time of the election by the leader's clock, from its token; zero if Token is 0.
	Since time.Time
}

// Leader asks every node for the leader. It fails with ErrNoLeader if no candidate holds the lock on enough nodes. If
// too few nodes answer, it fails as [quorumlock.Lock.Inspect] does.
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

// Watch yields the leader, and every change: a leader, its token, ErrNoLeader, or the reason why the leader is unknown.
// Watch ends with ctx, or after a *quorumlock.InvalidError or quorumlock.ErrClosed.
//
// Watch asks for the leader every Config.Interval. Each poll costs a round trip to each node, and needs no
// candidate. It may miss terms that are shorter than an interval.
func (e *Election) Watch(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		for last := (sight{first: true}); ; {
			leader, err := e.Leader(ctx)
			if ctx != nil && ctx.Err() != nil {
				return
			}
			next := sight{leader: leader.knownSince(last.leader), err: err}
			if last.differs(next) && !yield(next.leader, next.err) || hopeless(err) {
				return
			}
			last = next
			if sleep(ctx, e.clock, e.cfg.Interval) != nil {
				return
			}
		}
	}
}

type sight struct {
	leader Leader
	err    error
	first  bool
}

// differs reports whether the leader, or the reason why there is none, has changed, or the watch ends. It ignores changes of
// the answers of single nodes.
func (s sight) differs(next sight) bool {
	return s.first || s.leader.Owner != next.leader.Owner || s.leader.Token != next.leader.Token ||
		(s.err == nil) != (next.err == nil) ||
		errors.Is(s.err, ErrNoLeader) != errors.Is(next.err, ErrNoLeader) || hopeless(next.err)
}

// knownSince copies earlier knowledge about the same leader. Its token may grow while it is elected, but never shrinks.
func (l Leader) knownSince(before Leader) Leader {
	if l.Owner == before.Owner && before.Token > l.Token {
		l.Token, l.Since = before.Token, before.Since
	}
	return l
}

// tokenOf returns the token of an owner, as confirmed by as many nodes as the rule needs.
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

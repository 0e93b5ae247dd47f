package election

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock"
)

// Leader is the leader as enough nodes saw it at one time. Another may lead by the time that the caller reads it. So
// protect resources by tokens, and not by this observation.
type Leader struct {
	// Owner is the leader's id on the nodes: its Term.Owner.
	Owner string
	// Name is the candidate's name, as in Term.
	Name string
	// Token is the token of its term; nodes know it as long as the term lasts. While the candidate is being elected, it
	// may still be smaller. It is 0 if the lock is held by a program that gives no token. It is for display only. A
	// resource compares the tokens that its writers show.
	Token uint64
	// Since is the time of the election by the leader's clock, from its token; zero if Token is 0.
	Since time.Time
	// Value is the last value that the leader has proclaimed, or empty: see [Election.Proclaim].
	Value string
}

// Leader asks every node for the leader. It fails with ErrNoLeader if no candidate holds the lock on enough nodes. If
// too few nodes answer, it fails as [quorumlock.Lock.Inspect] does.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	leader, _, err := e.look(ctx)
	return leader, err
}

// look is Leader. It also returns when to look again though nothing was announced: when the nodes would drop the lock.
func (e *Election) look(ctx context.Context) (leader Leader, left time.Duration, err error) {
	if err := e.check(ctx); err != nil {
		return Leader{}, 0, err
	}
	lock := e.lock
	if e.cfg.Announce {
		lock = e.board.all
	}
	status, err := lock.Inspect(ctx)
	if err != nil {
		return Leader{}, 0, err
	}
	owner := holderOf(status, e.name)
	if owner == "" {
		return Leader{}, 0, ErrNoLeader
	}
	leader = Leader{Owner: owner, Name: nameOf(owner)}
	if e.cfg.Announce {
		leader.Value = e.board.valueOf(status, owner)
	}
	if leader.Token = tokenOf(status, owner); leader.Token != 0 {
		leader.Since = time.UnixMicro(int64(leader.Token)) //nolint:gosec // it fits in 63 bits
	}
	return leader, timeLeft(status, owner), nil
}

// holderOf returns the owner that enough nodes name as the holder of one of several locks, or "".
func holderOf(s *quorumlock.Status, name string) string {
	nodes := make(map[string]int)
	for _, n := range s.Nodes {
		for _, h := range n.Holders {
			if h.Name == name {
				nodes[h.Owner]++
			}
			if nodes[h.Owner] >= s.Need {
				return h.Owner
			}
		}
	}
	return ""
}

// timeLeft returns how long enough nodes keep the lock for its owner unless the owner renews it, and at least minLook.
func timeLeft(s *quorumlock.Status, owner string) time.Duration {
	var left []time.Duration
	for _, n := range s.Nodes {
		for _, h := range n.Holders {
			if h.Owner == owner {
				left = append(left, h.TTL)
			}
		}
	}
	slices.Sort(left)
	return max(left[len(left)-s.Need], minLook)
}

// secondLook is how soon Watch looks again after a ring.
const secondLook = 10 * time.Millisecond

// minLook is the shortest pause between two looks at a leader whose time is nearly over.
const minLook = 100 * time.Millisecond

// Watch yields the leader, and every change: a leader, its token, its value, ErrNoLeader, or the reason why the leader
// is unknown. Watch ends with ctx, or after a *quorumlock.InvalidError or quorumlock.ErrClosed.
//
// Watch asks for the leader every Config.Interval. Each poll costs a round trip to each node, and needs no
// candidate. It may miss terms that are shorter than an interval.
//
// With Config.Announce, leaders wake Watch at once. It then asks only when the time of the leader would be over
// without a renewal, and every Config.Interval while there is no leader. Like every waiter, it also looks after
// its place on the nodes once a second.
func (e *Election) Watch(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		ring, hears, stop := e.startListening(ctx)
		defer stop()
		last, looks := sight{first: true}, 0
		for {
			leader, left, err := e.look(ctx)
			if ctx != nil && ctx.Err() != nil {
				return
			}
			next := sight{leader: leader.knownSince(last.leader), err: err}
			if last.differs(next) && !yield(next.leader, next.err) || hopeless(err) {
				return
			}
			last = next
			pause := e.cfg.Interval
			switch {
			case !hears():
			case looks == 0:
				pause = min(pause, secondLook)
			case err != nil:
			case looks == 1:
				pause = min(pause, left)
			default:
				pause = left
			}
			looks++
			rang, err := waitFor(ctx, e.cfg.Clock, pause, ring)
			if err != nil {
				return
			}
			if rang {
				looks = 0
			}
		}
	}
}

// startListening begins to listen for announcements, until stop is called. Without Config.Announce, it never rings.
//
// After a change, an observer sets the latch and then waits for it. If a leader deletes the latch in between, and
// another observer sets it again, this observer misses the deletion. So Watch looks twice more after each ring: after
// secondLook, and after an interval.
func (e *Election) startListening(ctx context.Context) (ring <-chan struct{}, hears func() bool, stop func()) {
	if !e.cfg.Announce || e.check(ctx) != nil {
		return nil, func() bool { return false }, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	rings, armed, done := make(chan struct{}, 1), new(atomic.Bool), make(chan struct{})
	go func() {
		defer close(done)
		e.listen(ctx, rings, armed)
	}()
	return rings, armed.Load, func() { cancel(); <-done }
}

// sight is one result of Watch.
type sight struct {
	leader Leader
	err    error
	first  bool
}

// differs reports whether the leader, or the reason why there is none, has changed. It ignores changes of the answers
// of single nodes.
func (s sight) differs(next sight) bool {
	return s.first || s.leader.Owner != next.leader.Owner || s.leader.Token != next.leader.Token || s.leader.Value != next.leader.Value ||
		(s.err == nil) != (next.err == nil) ||
		errors.Is(s.err, ErrNoLeader) != errors.Is(next.err, ErrNoLeader)
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

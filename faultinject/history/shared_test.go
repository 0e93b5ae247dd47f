package history

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// resume is a successful resumption of a lease by another client.
func (s *script) resume(token uint64, call, ret time.Duration) Event {
	return s.add(Event{Kind: Resume, Owner: "owner", Token: token, Call: call, Return: ret})
}

func (s *script) detach(l Event, call, ret time.Duration) { s.about(l, Detach, call, ret, "") }

// readBy is read for another owner, so it is another lease than one with the same token.
func (s *script) readBy(owner string, token uint64, call, ret time.Duration) Event {
	return s.add(Event{Kind: Acquire, Reads: true, Owner: owner, Token: token, Call: call, Return: ret})
}

// force is a release of the owner with token 1 by force.
func (s *script) force(call, ret time.Duration, err string) {
	s.add(Event{Kind: ReleaseOwner, Owner: "owner", Token: 1, Call: call, Return: ret, Error: err})
}

func TestSharedLeases(t *testing.T) {
	for name, test := range map[string]struct {
		want ViolationKind // none if it is legal
		act  func(s *script)
	}{
		"from hand to hand": {act: func(s *script) {
			a := s.grant(1, 1, 2)
			s.act(a, 3, 4)
			s.detach(a, 5, 6)
			b := s.resume(1, 7, 8)
			s.act(b, 9, 10)
			s.detach(b, 11, 12)
			c := s.resume(1, 13, 14)
			s.release(c, 15, 16)
			s.act(s.grant(2, 1, 17), 18, 19)
		}},
		"held by two at once": {act: func(s *script) {
			a := s.grant(1, 1, 2)
			b := s.resume(1, 3, 4)
			s.act(a, 5, 6)
			s.act(b, 5, 6)
			s.act(a, 7, 8)
		}},
		"another lease while it is resumed": {want: Overlap, act: func(s *script) {
			s.detach(s.grant(1, 1, 2), 3, 4)
			b := s.resume(1, 5, 6)
			s.act(s.grant(2, 7, 8), 9, 10)
			s.act(b, 11, 12)
		}},
		"resumed after a later lease": {want: Overlap, act: func(s *script) {
			s.release(s.grant(1, 1, 2), 3, 4)
			s.release(s.grant(2, 5, 6), 7, 8)
			s.resume(1, 9, 10)
		}},
		"resumed after a later lease, and its grant is missing": {want: ActAfterGrant, act: func(s *script) {
			s.release(s.grant(2, 5, 6), 7, 8)
			s.resume(1, 9, 10)
		}},
		"resumed, and its grant is missing": {act: func(s *script) {
			s.release(s.resume(2, 5, 6), 7, 8)
			s.release(s.grant(3, 9, 10), 11, 12)
			s.release(s.grant(1, 1, 2), 3, 4)
		}},
		"one of two frees the lock": {act: func(s *script) {
			a := s.grant(1, 1, 2)
			b := s.resume(1, 3, 4)
			s.release(a, 5, 6)
			s.act(s.grant(2, 6, 7), 8, 9)
			s.act(b, 10, 11) // it learns of it late
		}},
		"one of two loses the lease, and so frees the lock": {act: func(s *script) {
			a := s.grant(1, 1, 2)
			b := s.resume(1, 3, 4)
			s.lost(a, 7)
			s.act(s.grant(2, 6, 8), 9, 10)
			s.act(b, 11, 12)
		}},
		"a failed release of one of two": {act: func(s *script) {
			a := s.grant(1, 1, 2)
			b := s.resume(1, 3, 4)
			s.releaseFailed(a, 7, 8)
			s.act(s.grant(2, 6, 9), 10, 11)
			s.act(b, 12, 13)
		}},
		"valid by the call of a release, and another lease before": {want: Overlap, act: func(s *script) {
			s.grant(1, 1, 2)
			b := s.resume(1, 3, 4)
			s.act(s.grant(2, 5, 6), 7, 8)
			s.release(b, 9, 10)
		}},
		"resumed after the release of its first client": {act: func(s *script) {
			s.release(s.grant(1, 1, 2), 3, 4)
			s.act(s.resume(1, 5, 6), 7, 8) // a late operation may have put it back
		}},
		"put back behind a reader, after a release that another client did not know of": {act: func(s *script) {
			a := s.grant(1, 1, 2)
			b := s.resume(1, 3, 6)
			s.release(a, 4, 5)
			r := s.readBy("reader", 1, 7, 8)
			s.act(r, 9, 10)
			s.release(r, 11, 12)
			s.act(b, 13, 14) // it puts the lock back
			s.act(s.resume(1, 15, 16), 17, 18)
		}},
		"put back behind a writer, after a release that another client did not know of": {want: Overlap, act: func(s *script) {
			a := s.grant(1, 1, 2)
			s.resume(1, 3, 6)
			s.release(a, 4, 5)
			s.release(s.grant(2, 7, 8), 9, 10)
			s.resume(1, 15, 16)
		}},
		"a reader while it is resumed": {want: Overlap, act: func(s *script) {
			s.detach(s.grant(1, 1, 2), 3, 4)
			b := s.resume(1, 5, 6)
			s.act(s.readBy("reader", 1, 7, 8), 9, 10)
			s.act(b, 11, 12)
		}},
		"resumed after the release of a resumed lease": {want: Revived, act: func(s *script) {
			s.detach(s.grant(1, 1, 2), 3, 4)
			s.release(s.resume(1, 5, 6), 7, 8)
			s.resume(1, 9, 10)
		}},
		"resumed during that release": {act: func(s *script) {
			s.detach(s.grant(1, 1, 2), 3, 4)
			s.release(s.resume(1, 5, 6), 7, 9)
			s.resume(1, 8, 10)
		}},
		"resumed after a release that failed": {act: func(s *script) {
			s.detach(s.grant(1, 1, 2), 3, 4)
			s.releaseFailed(s.resume(1, 5, 6), 7, 8)
			s.resume(1, 9, 10)
		}},
		"resumed after a forced release": {want: Revived, act: func(s *script) {
			s.grant(1, 1, 2)
			s.force(3, 4, "")
			s.resume(1, 5, 6)
		}},
		"resumed after a forced release that failed": {act: func(s *script) {
			s.grant(1, 1, 2)
			s.force(3, 4, "no quorum")
			s.resume(1, 5, 6)
		}},
		"valid after a forced release": {act: func(s *script) {
			a := s.grant(1, 1, 2)
			s.force(3, 4, "")
			s.act(s.grant(2, 4, 5), 6, 7)
			s.act(a, 8, 9)
		}},
		"valid before a forced release, and another lease": {want: Overlap, act: func(s *script) {
			a := s.grant(1, 1, 2)
			s.act(s.grant(2, 3, 4), 5, 6)
			s.act(a, 7, 8)
			s.force(9, 10, "")
		}},
		"a client acts after it has detached the lease": {want: Revived, act: func(s *script) {
			a := s.grant(1, 1, 2)
			s.detach(a, 3, 4)
			s.resume(1, 5, 6)
			s.act(a, 7, 8)
		}},
		"detached, and never resumed": {act: func(s *script) {
			s.detach(s.grant(1, 1, 2), 3, 4)
			s.act(s.grant(2, 3, 5), 6, 7)
		}},
		"two owners with one token": {want: TokenTwice, act: func(s *script) {
			s.detach(s.grant(1, 1, 2), 3, 4)
			s.resume(1, 5, 6)
			s.add(Event{Kind: Acquire, Owner: "another", Token: 1, Call: 7, Return: 8})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var s script
			test.act(&s)
			result := Check(s.history(t), ample)
			if test.want == "" {
				require.NoError(t, result.Err())
				return
			}
			require.NotEmpty(t, result.Violations)
			require.Equal(t, test.want, result.Violations[0].Kind, "%v", result.Violations)
		})
	}
}

// shared gives the lock to an owner whose lease goes from client to client. In the end one of them frees the lock, and
// the others may still believe that they have it.
func (s *simulation) shared(names ...string) {
	s.now += 1 + s.upTo(s.slack)
	s.token += 1 + s.Uint64N(3)
	grant := s.grant(Event{Names: names})
	held := []Event{grant}
	for range s.IntN(4) {
		s.now = max(s.now, grant.Return) + 1 + s.upTo(s.slack)
		s.seen(held)
		if last := held[len(held)-1]; s.IntN(3) > 0 {
			s.about(last, Detach, "")
			held = held[:len(held)-1]
		}
		s.now += 1 + s.upTo(s.slack)
		resumed := s.add(Event{
			Client: fmt.Sprintf("c%d", s.IntN(s.clients)), Kind: Resume, Names: names, Owner: grant.Owner, Token: grant.Token,
			Call: max(grant.Return, s.now-s.upTo(s.slack)), Return: s.now + s.upTo(s.slack),
		})
		held = append(held, resumed)
		s.now = max(s.now, resumed.Return) + 1
	}
	s.seen(held)
	s.now = max(s.now, grant.Return) + 1
	if last := held[len(held)-1]; s.IntN(2) == 0 {
		s.about(last, Release, "")
	} else {
		s.add(Event{Client: "c0", Kind: ReleaseOwner, Names: names, Owner: grant.Owner, Token: grant.Token, Call: s.now, Return: s.now + s.upTo(s.slack)})
	}
	late := s.now + 1 + s.upTo(3*s.slack)
	for _, l := range held[:len(held)-1] { // they learn of it late
		s.aboutAt(l, Act, late, late+s.upTo(s.slack), "")
	}
}

// seen makes clients see their leases valid now.
func (s *simulation) seen(held []Event) {
	for _, l := range held {
		if s.now > l.Return {
			s.about(l, Act, "")
		}
	}
}

// about adds an event that happens now.
func (s *simulation) about(l Event, kind Kind, err string) {
	s.aboutAt(l, kind, max(l.Return, s.now-s.upTo(s.slack/4)), max(l.Return, s.now)+s.upTo(s.slack), err)
}

func (s *simulation) aboutAt(l Event, kind Kind, call, ret time.Duration, err string) {
	e := l
	e.Kind, e.Lease, e.Call, e.Return, e.Error = kind, l.Op, max(l.Return, call), ret, err
	s.add(e)
}

func TestSoundSharedLeasesAreLegal(t *testing.T) {
	seeds(t, 50, func(t *testing.T, r *rand.Rand) {
		s := newSimulation(r, 3, 2, 20)
		for range 30 {
			s.shared(namesOf[r.IntN(len(namesOf))]...)
		}
		require.NoError(t, Check(s.history(t), ample).Err())
	})
}

// A lease that an owner resumes although another one has had the lock is found among sound ones.
func TestResumedAfterAnotherIsIllegal(t *testing.T) {
	seeds(t, 50, func(t *testing.T, r *rand.Rand) {
		s := newSimulation(r, 3, 2, 20)
		for range 10 {
			s.shared("a")
		}
		old := s.events[r.IntN(len(s.events))]
		s.now += 200
		s.shared("a")
		s.now += 200
		s.add(Event{Client: "c9", Kind: Resume, Names: old.Names, Owner: old.Owner, Token: old.Token, Call: s.now, Return: s.now + 10})
		require.Error(t, Check(s.history(t), ample).Err())
	})
}

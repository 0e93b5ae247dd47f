package history

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCheckOfReadersAndWriters(t *testing.T) {
	for _, c := range []checkCase{
		{"readers at the same time", func(s *script) {
			a := s.read(5, 10, 20)
			b := s.read(5, 10, 20)
			s.act(a, 30, 31)
			s.act(b, 30, 31)
			s.release(a, 40, 41)
			s.act(b, 50, 51)
		}, nil},
		{"a reader with the token of the writer before", func(s *script) {
			a := s.grant(5, 10, 20)
			s.release(a, 21, 22)
			b := s.read(5, 23, 30)
			s.act(b, 31, 32)
		}, nil},
		{"readers with growing tokens", func(s *script) {
			a := s.read(5, 10, 20)
			b := s.read(7, 21, 30)
			s.act(a, 31, 32)
			s.act(b, 31, 32)
		}, nil},
		{"a reader beside a writer", func(s *script) {
			a := s.grant(5, 10, 20)
			b := s.read(5, 21, 30)
			s.act(b, 31, 32)
			s.act(a, 33, 34)
		}, []ViolationKind{Overlap}},
		{"a writer beside a reader", func(s *script) {
			a := s.read(5, 10, 20)
			b := s.grant(6, 21, 30)
			s.act(a, 31, 32)
			s.release(b, 33, 34)
		}, []ViolationKind{Overlap}},
		{"a reader that comes while a writer acts, and all that is known of it is its grant", func(s *script) {
			a := s.grant(5, 10, 20)
			s.read(5, 22, 30)
			s.act(a, 33, 34)
		}, []ViolationKind{Overlap}},
		{"a writer acts after a reader of its token, which may have come when it was granted", func(s *script) {
			a := s.grant(5, 10, 40)
			s.read(5, 10, 30)
			s.act(a, 41, 42)
		}, []ViolationKind{ActAfterGrant}},
		{"a reader acts after a newer writer", func(s *script) {
			a := s.read(5, 10, 40)
			s.grant(6, 10, 30)
			s.act(a, 41, 42)
		}, []ViolationKind{ActAfterGrant}},
		{"a reader under a newer token acts beside a writer that comes before it", func(s *script) {
			a := s.grant(5, 10, 40)
			b := s.read(6, 10, 30)
			s.act(b, 31, 32)
			s.act(a, 41, 42)
		}, []ViolationKind{ActAfterGrant}},
		{"a reader acts after another, where a writer must have come between them", func(s *script) {
			a := s.read(5, 10, 20)
			s.grant(6, 10, 60)
			s.read(7, 10, 30)
			s.act(a, 41, 42)
		}, []ViolationKind{ActAfterGrant}},
		{"a reader with an old token, after a writer", func(s *script) {
			a := s.grant(6, 10, 20)
			s.release(a, 21, 22)
			s.read(5, 23, 30)
		}, []ViolationKind{TokenOrder}},
		{"a reader with an old token, after a reader", func(s *script) {
			s.read(6, 10, 20)
			s.read(5, 21, 30)
		}, []ViolationKind{TokenOrder}},
		{"a smaller token of a reader that asked before the other had it", func(s *script) {
			s.read(6, 10, 20)
			s.read(5, 20, 30)
		}, nil},
		{"a writer with the token of a reader before", func(s *script) {
			a := s.read(5, 10, 20)
			s.release(a, 21, 22)
			s.grant(5, 23, 30)
		}, []ViolationKind{TokenOrder}},
		{"writers with one token", func(s *script) {
			a := s.grant(5, 10, 20)
			s.release(a, 21, 22)
			b := s.grant(5, 23, 30)
			s.release(b, 31, 32)
			s.read(5, 33, 40)
		}, []ViolationKind{TokenTwice}},
		{"readers beside a downgraded writer", func(s *script) {
			a := s.grant(5, 10, 20)
			s.downgrade(a, 30, 40)
			b := s.read(5, 21, 30)
			s.act(b, 31, 32)
			s.act(a, 50, 51)
			s.release(a, 60, 61)
		}, nil},
		{"a reader before the downgrade", func(s *script) {
			a := s.grant(5, 10, 20)
			b := s.read(5, 21, 29)
			s.act(b, 30, 31)
			s.downgrade(a, 30, 40)
		}, []ViolationKind{Overlap}},
		{"a writer beside a downgraded one", func(s *script) {
			a := s.grant(5, 10, 20)
			s.downgrade(a, 21, 22)
			b := s.grant(6, 23, 30)
			s.act(b, 31, 32)
			s.act(a, 33, 34)
		}, []ViolationKind{Overlap}},
		{"a downgrade that failed may have happened", func(s *script) {
			a := s.grant(5, 10, 20)
			s.about(a, Downgrade, 21, 22, "no quorum")
			b := s.read(5, 23, 30)
			s.act(a, 31, 32)
			s.act(b, 31, 32)
		}, nil},
		{"a downgrade without a return may have happened", func(s *script) {
			a := s.grant(5, 10, 20)
			s.about(a, Downgrade, 21, 0, "")
			b := s.read(5, 23, 30)
			s.act(a, 31, 32)
			s.act(b, 31, 32)
		}, nil},
		{"a downgrade that failed, as the lease had ended", func(s *script) {
			a := s.grant(5, 10, 20)
			s.lost(a, 25)
			s.about(a, Downgrade, 30, 31, "lost")
			s.grant(6, 26, 40)
		}, nil},
		{"a downgrade that succeeded after the loss", func(s *script) {
			a := s.grant(5, 10, 20)
			s.lost(a, 25)
			s.downgrade(a, 30, 31)
		}, []ViolationKind{Revived}},
		{"a failed downgrade is no end", func(s *script) {
			a := s.grant(5, 10, 20)
			s.about(a, Downgrade, 21, 22, "no quorum")
			s.act(a, 30, 31)
		}, nil},
		{"a reader downgrades", func(s *script) {
			a := s.read(5, 10, 20)
			s.downgrade(a, 21, 22)
			s.release(a, 30, 31)
			s.grant(6, 32, 33)
		}, nil},
		{"a reader's acquisition without a return proves nothing", func(s *script) {
			s.add(Event{Kind: Acquire, Reads: true, Call: 10})
			a := s.grant(5, 15, 20)
			s.act(a, 90, 91)
		}, nil},
		{"a reader whose release is not known may be gone", func(s *script) {
			a := s.read(5, 10, 20)
			s.about(a, Release, 30, 0, "")
			b := s.grant(6, 21, 40)
			s.act(b, 41, 42)
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) { verdict(t, c.check(t)) })
	}
}

func TestReaderViolationNamesReaders(t *testing.T) {
	var s script
	a := s.grant(5, 110, 120)
	b := s.read(5, 125, 130)
	s.act(b, 131, 132)
	s.downgrade(a, 133, 134)
	s.act(a, 140, 141)
	r := Check(s.history(t), ample)
	require.Len(t, r.Violations, 1)
	require.Equal(t, `overlap of "job": lease owner (client c1/w0, token 5) was valid +10ns..+23ns (downgrade); `+
		`lease owner (reader, client c1/w0, token 5) was granted within, at +15ns..+20ns, and valid until +21ns (act)`, r.Violations[0].String())
	dir := t.TempDir()
	require.NoError(t, r.Save(dir))
	require.Contains(t, read(t, dir, ViolationsFile), "    > +15ns..+20ns c1/w0 acquire job to read -> token 5")
	require.Contains(t, read(t, dir, VisualFile), "acquire job to read -\\u003e token 5")
}

// turn gives the lock to a writer, which may downgrade, or to several readers at once.
func (s *simulation) turn() {
	name := Event{Names: []string{"a"}}
	if s.IntN(2) == 0 {
		s.now += 1 + s.upTo(s.slack)
		s.token += 1 + s.Uint64N(3)
		writer := s.grant(name)
		if s.IntN(2) == 0 {
			s.hold(writer)
			return
		}
		s.now = max(s.now, writer.Return) + s.upTo(s.slack)
		s.downgrades(writer)
		defer func(from time.Duration) {
			end := s.now
			s.now = from
			s.hold(writer)
			s.now = max(s.now, end)
		}(s.now)
	}
	name.Reads = true
	end := s.now
	for range s.IntN(4) {
		s.now += 1 + s.upTo(s.slack)
		if s.token == 0 || s.IntN(4) == 0 {
			s.token++
		}
		granted := s.now
		s.hold(s.grant(name))
		end = max(end, s.now)
		s.now = granted
	}
	s.now = end
}

// downgrades turns a writer's lease into a reader's now, whatever result the client gets.
func (s *simulation) downgrades(writer Event) {
	e := writer
	e.Kind, e.Lease = Downgrade, writer.Op
	e.Call, e.Return = max(writer.Return, s.now-s.upTo(s.slack)), s.now+s.upTo(s.slack)
	switch s.IntN(4) {
	case 0:
		e.Return = 0
	case 1:
		e.Error = "no quorum"
	}
	s.add(e)
}

func TestReadersAndWritersThatWorkAreLegal(t *testing.T) {
	seeds(t, 100, func(t *testing.T, r *rand.Rand) {
		s := newSimulation(r, 3, 2, 20)
		for range 20 {
			s.turn()
		}
		if err := Check(s.history(t), ample).Err(); err != nil {
			t.Error(err)
		}
	})
}

func TestBothCheckersAgreeOnReaders(t *testing.T) {
	agreeOn(t, 300, func(t *testing.T, r *rand.Rand) *History {
		s := newSimulation(r, 3, 1, 20)
		for range 5 {
			s.turn()
		}
		for range r.IntN(4) {
			if len(s.events) > 0 {
				corrupt(r, s.events)
			}
		}
		return s.history(t)
	})
}

// TestBothCheckersAgreeOnAnythingOfReaders is TestBothCheckersAgreeOnAnything with readers and downgrades.
func TestBothCheckersAgreeOnAnythingOfReaders(t *testing.T) {
	agreeOn(t, 2000, func(t *testing.T, r *rand.Rand) *History {
		var s script
		for range 1 + r.IntN(4) {
			call := between(r, 1, 12)
			ret := between(r, call, 14)
			l := s.add(Event{Kind: Acquire, Reads: r.IntN(2) == 0, Owner: "owner", Token: 1 + r.Uint64N(4), Call: call, Return: ret})
			for range r.IntN(4) {
				call := between(r, l.Return, 16)
				ret := between(r, call, 18)
				kinds := []func(Event, time.Duration, time.Duration){s.act, s.act, s.refused, s.release, s.releaseFailed, s.downgrade, s.maybeDowngrade}
				kinds[r.IntN(len(kinds))](l, call, ret)
			}
		}
		return s.history(t)
	})
}

func (s *script) maybeDowngrade(l Event, call, _ time.Duration) { s.about(l, Downgrade, call, 0, "") }

// TestForgetfulReadLockIsIllegal grants a reader beside a writer after a long legal history, so that both
// see it.
func TestForgetfulReadLockIsIllegal(t *testing.T) {
	seeds(t, 50, func(t *testing.T, r *rand.Rand) {
		s := newSimulation(r, 3, 2, 20)
		for range 10 {
			s.turn()
		}
		at := s.now + 500
		var events []Event
		for _, reads := range []bool{false, true} {
			s.now, s.token = at, s.token+1
			events = append(events, s.grant(Event{Names: []string{"a"}, Reads: reads}))
		}
		for _, e := range events {
			e.Kind, e.Lease, e.Call, e.Return = Act, e.Op, at+30, at+40
			s.add(e)
		}
		s.now = at + 40
		for range 10 {
			s.turn()
		}
		result := Check(s.history(t), ample)
		if !slices.ContainsFunc(result.Violations, func(v Violation) bool { return v.Kind == Overlap }) {
			t.Errorf("found %v", result.Violations)
		}
	})
}

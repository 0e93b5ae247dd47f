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
		{"readers at the same time", `a=read 5 10..20; b=read 5 10..20; act a 30..31; act b 30..31; release a 40..41; act b 50..51`, nil},
		{"a reader with the token of the writer before", `a=grant 5 10..20; release a 21..22; b=read 5 23..30; act b 31..32`, nil},
		{"readers with growing tokens", `a=read 5 10..20; b=read 7 21..30; act a 31..32; act b 31..32`, nil},
		{"a reader beside a writer", `a=grant 5 10..20; b=read 5 21..30; act b 31..32; act a 33..34`, []ViolationKind{Overlap}},
		{"a writer beside a reader", `a=read 5 10..20; b=grant 6 21..30; act a 31..32; release b 33..34`, []ViolationKind{Overlap}},
		{"a reader that comes while a writer acts, and all that is known of it is its grant", `a=grant 5 10..20; read 5 22..30; act a 33..34`, []ViolationKind{Overlap}},
		{"a writer acts after a reader of its token, which may have come when it was granted", `a=grant 5 10..40; read 5 10..30; act a 41..42`, []ViolationKind{ActAfterGrant}},
		{"a reader acts after a newer writer", `a=read 5 10..40; grant 6 10..30; act a 41..42`, []ViolationKind{ActAfterGrant}},
		{"a reader under a newer token acts beside a writer that comes before it", `a=grant 5 10..40; b=read 6 10..30; act b 31..32; act a 41..42`, []ViolationKind{ActAfterGrant}},
		{"a reader acts after another, where a writer must have come between them", `a=read 5 10..20; grant 6 10..60; read 7 10..30; act a 41..42`, []ViolationKind{ActAfterGrant}},
		{"a reader with an old token, after a writer", `a=grant 6 10..20; release a 21..22; read 5 23..30`, []ViolationKind{TokenOrder}},
		{"a reader with an old token, after a reader", `read 6 10..20; read 5 21..30`, []ViolationKind{TokenOrder}},
		{"a smaller token of a reader that asked before the other had it", `read 6 10..20; read 5 20..30`, nil},
		{"a writer with the token of a reader before", `a=read 5 10..20; release a 21..22; grant 5 23..30`, []ViolationKind{TokenOrder}},
		{"writers with one token", `a=grant 5 10..20; release a 21..22; b=grant 5 23..30; release b 31..32; read 5 33..40`, []ViolationKind{TokenTwice}},
		{"readers beside a downgraded writer", `a=grant 5 10..20; downgrade a 30..40; b=read 5 21..30; act b 31..32; act a 50..51; release a 60..61`, nil},
		{"a reader before the downgrade", `a=grant 5 10..20; b=read 5 21..29; act b 30..31; downgrade a 30..40`, []ViolationKind{Overlap}},
		{"a writer beside a downgraded one", `a=grant 5 10..20; downgrade a 21..22; b=grant 6 23..30; act b 31..32; act a 33..34`, []ViolationKind{Overlap}},
		{"a downgrade that failed may have happened", `a=grant 5 10..20; downgrade a 21..22 no quorum; b=read 5 23..30; act a 31..32; act b 31..32`, nil},
		{"a downgrade without a return may have happened", `a=grant 5 10..20; downgrade a 21..?; b=read 5 23..30; act a 31..32; act b 31..32`, nil},
		{"a downgrade that failed, as the lease had ended", `a=grant 5 10..20; lost a 25..25 it expired; downgrade a 30..31 lost; grant 6 26..40`, nil},
		{"a downgrade that succeeded after the loss", `a=grant 5 10..20; lost a 25..25 it expired; downgrade a 30..31`, []ViolationKind{Revived}},
		{"a failed downgrade is no end", `a=grant 5 10..20; downgrade a 21..22 no quorum; act a 30..31`, nil},
		{"a reader downgrades", `a=read 5 10..20; downgrade a 21..22; release a 30..31; grant 6 32..33`, nil},
		{"a reader's acquisition without a return proves nothing", `acquire to read 10..?; a=grant 5 15..20; act a 90..91`, nil},
		{"a reader whose release is not known may be gone", `a=read 5 10..20; release a 30..?; b=grant 6 21..40; act b 41..42`, nil},
	} {
		t.Run(c.name, func(t *testing.T) { verdict(t, c.check(t)) })
	}
}

func TestReaderViolationNamesReaders(t *testing.T) {
	r := Check(play(t, "a=grant 5 110..120; b=read 5 125..130; act b 131..132; downgrade a 133..134; act a 140..141"), ample)
	require.Len(t, r.Violations, 1)
	require.Equal(t, `overlap of "job": lease owner (client c1/w0, token 5) was valid +10ns..+23ns (downgrade); `+
		`lease owner (reader, client c1/w0, token 5) was granted within, at +15ns..+20ns, and valid until +21ns (act)`, r.Violations[0].String())
	require.Equal(t, "c1/w0 acquire job to read -> token 5", r.Violations[0].Events[1].String())
}

// turn gives the lock to a writer, which may downgrade, or to several readers at once.
func (s *simulation) turn() {
	name := Event{Name: "a"}
	if s.IntN(2) == 0 {
		s.now += 1 + s.upTo(slack)
		s.token += 1 + s.Uint64N(3)
		writer := s.grant(name)
		if s.IntN(2) == 0 {
			s.hold(writer)
			return
		}
		s.now = max(s.now, writer.Return) + s.upTo(slack)
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
		s.now += 1 + s.upTo(slack)
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
	e.Call, e.Return = max(writer.Return, s.now-s.upTo(slack)), s.now+s.upTo(slack)
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
		s := newSimulation(r, 2)
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
		s := newSimulation(r, 1)
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

// TestForgetfulLockIsIllegal grants a reader or a second writer beside a writer after a long legal history, so that both see it.
func TestForgetfulLockIsIllegal(t *testing.T) {
	seeds(t, 50, func(t *testing.T, r *rand.Rand) {
		s := newSimulation(r, 2)
		for range 10 {
			s.turn()
		}
		at := s.now + 500
		var events []Event
		for _, reads := range []bool{false, r.IntN(2) == 0} {
			s.now, s.token = at, s.token+1
			events = append(events, s.grant(Event{Name: "a", Reads: reads}))
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

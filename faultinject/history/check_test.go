package history

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ample = time.Minute

// checkCase is a history and its expected violations.
type checkCase struct {
	name string
	play string
	want []ViolationKind // none if it is legal
}

// check requires that Check finds the expected violations and no others. It returns the history.
func (c checkCase) check(t *testing.T) *History {
	t.Helper()
	h := play(t, c.play)
	r := Check(h, ample)
	require.Equal(t, c.want, kindsOf(r), "%v", r.Violations)
	require.Equal(t, len(c.want) == 0, r.Err() == nil)
	return h
}

func kindsOf(r *Result) []ViolationKind {
	var kinds []ViolationKind
	for _, v := range r.Violations {
		kinds = append(kinds, v.Kind)
	}
	return kinds
}

func TestCheck(t *testing.T) {
	for _, c := range []checkCase{
		{"nothing", ``, nil},
		{"one after the other", `a=grant 5 10..20; act a 21..22; release a 30..40; b=grant 6 41..50; act b 51..52`, nil},
		{"a waiter gets it while the release is under way", `a=grant 5 10..20; b=grant 6 12..35; release a 30..40; act b 36..37`, nil},
		{"a grant at the very instant of the release", `a=grant 5 10..20; release a 30..40; grant 6 25..30`, nil},
		{"a grant before the release was called", `a=grant 5 10..20; release a 30..40; grant 6 25..29`, []ViolationKind{Overlap}},
		{"an act at the very instant of the next grant", `a=grant 5 10..20; act a 30..31; grant 6 25..30`, nil},
		{"an act within a grant, and the old one sees its end later", `a=grant 5 10..20; b=grant 6 25..60; act a 50..90; act b 70..71; lost a 100..100 it expired`, nil},
		{"two valid at once", `a=grant 5 10..20; b=grant 6 25..30; act b 31..32; act a 33..34`, []ViolationKind{Overlap}},
		{"two valid at once, and the tokens the wrong way round", `a=grant 6 10..20; grant 5 25..30; act a 33..34`, []ViolationKind{Overlap, TokenOrder}},
		{"where clocks step, only the order of tokens is certain, so it is told in any case", `a=grant 10 1..2; release a 2..2; b=grant 5 3..4; act b 11..11; c=grant 20 5..6; act c 7..7`, []ViolationKind{Overlap, TokenOrder}},
		{"an act that takes long proves its beginning only", `a=grant 5 10..20; act a 24..99; b=grant 6 22..30; act b 31..32`, nil},
		{"an act after a newer grant, but perhaps granted after it", `b=grant 6 10..30; a=grant 5 10..20; act a 31..32; release b 30..40`, []ViolationKind{ActAfterGrant}},
		{"an act long after a newer lease came and went", `a=grant 5 10..20; b=grant 6 25..30; release b 31..35; act a 90..91`, []ViolationKind{Overlap}},
		{"a smaller token later", `a=grant 6 10..20; release a 21..22; grant 5 23..30`, []ViolationKind{TokenOrder}},
		{"a smaller token from an attempt that was under way", `grant 6 10..20; grant 5 20..30`, nil},
		{"a token twice", `a=grant 5 10..20; release a 21..22; grant 5 23..30`, []ViolationKind{TokenTwice}},
		{"a token twice, concurrently", `grant 5 10..20; grant 5 10..20`, []ViolationKind{TokenTwice}},
		{"a token twice, of different names", `grant 5 job 10..20; grant 5 other 10..20`, nil},
		{"valid after it was lost", `a=grant 5 10..20; lost a 30..30 it expired; act a 31..32`, []ViolationKind{Revived}},
		{"valid at the instant at which it was seen lost", `a=grant 5 10..20; lost a 30..30 it expired; act a 30..32`, nil},
		{"valid after an act was refused", `a=grant 5 10..20; act a 21..22 over; act a 23..24`, []ViolationKind{Revived}},
		{"valid after its release", `a=grant 5 10..20; release a 21..22; act a 23..24`, []ViolationKind{Revived}},
		{"valid during its release", `a=grant 5 10..20; release a 21..30; act a 22..40`, nil},
		{"valid after a release that failed", `a=grant 5 10..20; release a 21..22 no quorum; act a 23..24`, []ViolationKind{Revived}},
		{"a release that succeeds after the loss", `a=grant 5 10..20; lost a 21..21 it expired; release a 23..24`, []ViolationKind{Revived}},
		{"a release that fails after the loss, and the next grant before", `a=grant 5 10..20; grant 6 22..25; lost a 30..30 it expired; release a 31..32 no quorum`, nil},
		{"a release that failed may have happened", `a=grant 5 10..20; release a 21..22 no quorum; grant 6 23..24`, nil},
		{"a release that failed may not have been the end", `a=grant 5 10..20; grant 6 21..24; release a 30..32 no quorum`, nil},
		{"a release without a return proves nothing", `a=grant 5 10..20; grant 6 21..24; release a 30..?`, nil},
		{"an act without a return proves nothing", `a=grant 5 10..20; grant 6 21..24; act a 30..?`, nil},
		{"holders die", `a=grant 1 1..2; act a 3..4; b=grant 2 11..12; act b 13..14; c=grant 3 21..22; act c 23..24`, nil},
		{"acquisitions without a lease prove nothing", `a=grant 5 10..20; acquire 11..25 no quorum; acquire 26..?; acquire 27..28 no quorum; act a 90..91`, nil},
		{"a name each", `a=grant 5 a 10..20; b=grant 4 b 22..31; act a 40..41; act b 40..41`, nil},
	} {
		t.Run(c.name, func(t *testing.T) { verdict(t, c.check(t)) })
	}
}

func TestViolationNamesClientsAndTimes(t *testing.T) {
	r := Check(play(t, "a=grant 5 110..120; b=grant 6 125..130; act b 131..132; act a 133..134"), ample)
	require.Len(t, r.Violations, 1)
	v := r.Violations[0]
	require.Equal(t, "job", v.Name)
	require.Equal(t, []uint64{1, 2, 4, 3}, []uint64{v.Events[0].Op, v.Events[1].Op, v.Events[2].Op, v.Events[3].Op})
	require.Equal(t, `overlap of "job": lease owner (client c1/w0, token 5) was valid +10ns..+23ns (act); `+
		`lease owner (client c1/w0, token 6) was granted within, at +15ns..+20ns, and valid until +21ns (act)`, v.String())
	require.ErrorContains(t, r.Err(), "faultinject: history: 1 violations, the first: overlap")
}

func TestLocksNeedNoPorcupine(t *testing.T) {
	require.NoError(t, Check(play(t, "grant 5 10..20"), 0).Err())
	require.ErrorContains(t, Check(play(t, "grant 5 10..20; grant 5 30..40"), 0).Err(), "1 violations")
}

func TestViolationFoundOnlyByPorcupineIsReported(t *testing.T) {
	r := &Result{}
	r.add(subject{of: Latch, name: "job", slot: none}, "Illegal")
	r.add(subject{of: Latch, name: "fine", slot: none}, "Ok")
	require.Len(t, r.Violations, 1)
	require.Equal(t, Unexplained, r.Violations[0].Kind)
	r.add(subject{of: Latch, name: "job", slot: none}, "Illegal")
	require.Len(t, r.Violations, 1, "a violation is reported once")
}

func TestCounts(t *testing.T) {
	r := Check(play(t, "a=grant 5 a 10..20; act a 21..22; act a 23..24; release a 25..26; b=grant 6 b 27..40; act b 41..42 over; "+
		"lost b 43..43; release b 44..45 no quorum; acquire 50..60 no quorum; acquire 100..?"), ample)
	require.NoError(t, r.Err())
	require.Equal(t, Counts{Granted: 2, Refused: 1, Unanswered: 1, Acts: 2, Lost: 1, Released: 1, Silence: 60}, r.Total)
	require.Equal(t, Counts{Granted: 1, Acts: 2, Released: 1, Silence: 80}, r.Objects[Object{Name: "a"}])
	require.Equal(t, Counts{Refused: 1, Unanswered: 1, Silence: 90}, r.Objects[Object{Name: "job"}])
	require.Equal(t, 1, r.Objects[Object{Name: "b"}].Granted)
}

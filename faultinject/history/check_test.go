package history

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ample = time.Minute

// checkCase is a history and its expected violations.
type checkCase struct {
	name   string
	script func(s *script)
	want   []ViolationKind // none if it is legal
}

// check requires that Check finds the expected violations and no others. It returns the history.
func (c checkCase) check(t *testing.T) *History {
	t.Helper()
	var s script
	c.script(&s)
	h := s.history(t)
	r := Check(h, ample)
	require.Equal(t, c.want, kindsOf(r), "%v", r.Violations)
	require.Equal(t, len(c.want) == 0, r.Verdict == Ok, r.Verdict)
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
		{"nothing", func(*script) {}, nil},
		{"one after the other", func(s *script) {
			a := s.grant(5, 10, 20)
			s.act(a, 21, 22)
			s.release(a, 30, 40)
			b := s.grant(6, 41, 50)
			s.act(b, 51, 52)
		}, nil},
		{"a waiter gets it while the release is under way", func(s *script) {
			a := s.grant(5, 10, 20)
			b := s.grant(6, 12, 35)
			s.release(a, 30, 40)
			s.act(b, 36, 37)
		}, nil},
		{"a grant at the very instant of the release", func(s *script) {
			a := s.grant(5, 10, 20)
			s.release(a, 30, 40)
			s.grant(6, 25, 30)
		}, nil},
		{"a grant before the release was called", func(s *script) {
			a := s.grant(5, 10, 20)
			s.release(a, 30, 40)
			s.grant(6, 25, 29)
		}, []ViolationKind{Overlap}},
		{"an act at the very instant of the next grant", func(s *script) {
			a := s.grant(5, 10, 20)
			s.act(a, 30, 31)
			s.grant(6, 25, 30)
		}, nil},
		{"an act within a grant, and the old one sees its end later", func(s *script) {
			a := s.grant(5, 10, 20)
			b := s.grant(6, 25, 60)
			s.act(a, 50, 90)
			s.act(b, 70, 71)
			s.lost(a, 100)
		}, nil},
		{"two valid at once", func(s *script) {
			a := s.grant(5, 10, 20)
			b := s.grant(6, 25, 30)
			s.act(b, 31, 32)
			s.act(a, 33, 34)
		}, []ViolationKind{Overlap}},
		{"two valid at once, and the tokens the wrong way round", func(s *script) {
			a := s.grant(6, 10, 20)
			s.grant(5, 25, 30)
			s.act(a, 33, 34)
		}, []ViolationKind{Overlap, TokenOrder}},
		{"an act that takes long proves its beginning only", func(s *script) {
			a := s.grant(5, 10, 20)
			s.act(a, 24, 99)
			b := s.grant(6, 22, 30)
			s.act(b, 31, 32)
		}, nil},
		{"an act after a newer grant, but perhaps granted after it", func(s *script) {
			b := s.grant(6, 10, 30)
			a := s.grant(5, 10, 20)
			s.act(a, 31, 32)
			s.release(b, 30, 40)
		}, []ViolationKind{ActAfterGrant}},
		{"an act long after a newer lease came and went", func(s *script) {
			a := s.grant(5, 10, 20)
			b := s.grant(6, 25, 30)
			s.release(b, 31, 35)
			s.act(a, 90, 91)
		}, []ViolationKind{Overlap}},
		{"a smaller token later", func(s *script) {
			a := s.grant(6, 10, 20)
			s.release(a, 21, 22)
			s.grant(5, 23, 30)
		}, []ViolationKind{TokenOrder}},
		{"a smaller token from an attempt that was under way", func(s *script) {
			s.grant(6, 10, 20)
			s.grant(5, 20, 30)
		}, nil},
		{"a token twice", func(s *script) {
			a := s.grant(5, 10, 20)
			s.release(a, 21, 22)
			s.grant(5, 23, 30)
		}, []ViolationKind{TokenTwice}},
		{"a token twice, concurrently", func(s *script) {
			s.grant(5, 10, 20)
			s.grant(5, 10, 20)
		}, []ViolationKind{TokenTwice}},
		{"a token twice, of different names", func(s *script) {
			s.grant(5, 10, 20, "job")
			s.grant(5, 10, 20, "other")
		}, nil},
		{"valid after it was lost", func(s *script) {
			a := s.grant(5, 10, 20)
			s.lost(a, 30)
			s.act(a, 31, 32)
		}, []ViolationKind{Revived}},
		{"valid at the instant at which it was seen lost", func(s *script) {
			a := s.grant(5, 10, 20)
			s.lost(a, 30)
			s.act(a, 30, 32)
		}, nil},
		{"valid after an act was refused", func(s *script) {
			a := s.grant(5, 10, 20)
			s.refused(a, 21, 22)
			s.act(a, 23, 24)
		}, []ViolationKind{Revived}},
		{"valid after its release", func(s *script) {
			a := s.grant(5, 10, 20)
			s.release(a, 21, 22)
			s.act(a, 23, 24)
		}, []ViolationKind{Revived}},
		{"valid during its release", func(s *script) {
			a := s.grant(5, 10, 20)
			s.release(a, 21, 30)
			s.act(a, 22, 40)
		}, nil},
		{"valid after a release that failed", func(s *script) {
			a := s.grant(5, 10, 20)
			s.releaseFailed(a, 21, 22)
			s.act(a, 23, 24)
		}, []ViolationKind{Revived}},
		{"a release that succeeds after the loss", func(s *script) {
			a := s.grant(5, 10, 20)
			s.lost(a, 21)
			s.release(a, 23, 24)
		}, []ViolationKind{Revived}},
		{"a release that fails after the loss, and the next grant before", func(s *script) {
			a := s.grant(5, 10, 20)
			s.grant(6, 22, 25)
			s.lost(a, 30)
			s.releaseFailed(a, 31, 32)
		}, nil},
		{"a release that failed may have happened", func(s *script) {
			a := s.grant(5, 10, 20)
			s.releaseFailed(a, 21, 22)
			s.grant(6, 23, 24)
		}, nil},
		{"a release that failed may not have been the end", func(s *script) {
			a := s.grant(5, 10, 20)
			s.grant(6, 21, 24)
			s.releaseFailed(a, 30, 32)
		}, nil},
		{"a release without a return proves nothing", func(s *script) {
			a := s.grant(5, 10, 20)
			s.grant(6, 21, 24)
			s.about(a, Release, 30, 0, "")
		}, nil},
		{"an act without a return proves nothing", func(s *script) {
			a := s.grant(5, 10, 20)
			s.grant(6, 21, 24)
			s.about(a, Act, 30, 0, "")
		}, nil},
		{"holders die", func(s *script) {
			for i := range time.Duration(20) {
				s.act(s.grant(uint64(i)+1, 10*i+1, 10*i+2), 10*i+3, 10*i+4)
			}
		}, nil},
		{"acquisitions without a lease prove nothing", func(s *script) {
			a := s.grant(5, 10, 20)
			s.failed(11, 25)
			s.unanswered(26)
			s.failed(27, 28)
			s.act(a, 90, 91)
		}, nil},
		{"several names, taken one after the other", func(s *script) {
			a := s.grant(5, 10, 20, "a", "b")
			s.release(a, 21, 30)
			s.grant(6, 22, 31, "b", "c")
		}, nil},
		{"several names of which one is held", func(s *script) {
			a := s.grant(5, 10, 20, "a", "b")
			s.grant(6, 22, 31, "b", "c")
			s.act(a, 40, 41)
		}, []ViolationKind{Overlap}},
		{"a name each", func(s *script) {
			a := s.grant(5, 10, 20, "a")
			b := s.grant(4, 22, 31, "b")
			s.act(a, 40, 41)
			s.act(b, 40, 41)
		}, nil},
		{"each of two names", func(s *script) {
			a := s.grant(5, 10, 20, "a", "b")
			s.release(a, 21, 22)
			s.grant(4, 30, 31, "b", "a")
		}, []ViolationKind{TokenOrder, TokenOrder}},
	} {
		t.Run(c.name, func(t *testing.T) { verdict(t, c.check(t)) })
	}
}

func TestViolationNamesClientsAndTimes(t *testing.T) {
	var s script
	a := s.grant(5, 110, 120)
	b := s.grant(6, 125, 130)
	s.act(b, 131, 132)
	s.act(a, 133, 134)
	r := Check(s.history(t), ample)
	require.Len(t, r.Violations, 1)
	v := r.Violations[0]
	require.Equal(t, "job", v.Name)
	require.Equal(t, []uint64{1, 2, 4, 3}, []uint64{v.Events[0].Op, v.Events[1].Op, v.Events[2].Op, v.Events[3].Op})
	require.Equal(t, `overlap of "job": lease owner (client c1/w0, token 5) was valid +10ns..+23ns (act); `+
		`lease owner (client c1/w0, token 6) was granted within, at +15ns..+20ns, and valid until +21ns (act)`, v.String())
	require.ErrorContains(t, r.Err(), "faultinject: history: 1 violations, the first: overlap")
}

func TestCheckTimeoutIsUndecided(t *testing.T) {
	var s script
	s.grant(5, 10, 20)
	r := Check(s.history(t), 0)
	require.Equal(t, Unknown, r.Verdict)
	require.Equal(t, []string{"job"}, r.Undecided)
	require.EqualError(t, r.Err(), "faultinject: history: no verdict in time for job")
}

func TestDirectViolationNeedsNoPorcupine(t *testing.T) {
	var s script
	s.grant(5, 10, 20)
	s.grant(5, 30, 40)
	require.Equal(t, Illegal, Check(s.history(t), 0).Verdict)
}

func TestViolationFoundOnlyByPorcupineIsReported(t *testing.T) {
	r := &Result{}
	r.add(subject{name: "job", slot: none}, "Illegal")
	r.add(subject{name: "fine", slot: none}, "Ok")
	require.Len(t, r.Violations, 1)
	require.Equal(t, Unexplained, r.Violations[0].Kind)
	r.add(subject{name: "job", slot: none}, "Illegal")
	require.Len(t, r.Violations, 1, "a violation is reported once")
}

func TestCounts(t *testing.T) {
	var s script
	a := s.grant(5, 10, 20, "a", "b")
	s.act(a, 21, 22)
	s.act(a, 23, 24)
	s.release(a, 25, 26)
	b := s.grant(6, 27, 40, "b")
	s.refused(b, 41, 42)
	s.lost(b, 43)
	s.releaseFailed(b, 44, 45)
	s.failed(50, 60)
	s.unanswered(100)
	r := Check(s.history(t), ample)
	require.NoError(t, r.Err())
	require.Equal(t, Counts{
		Granted: 2, Refused: 1, Unanswered: 1, Acts: 2, Lost: 1, Released: 1, ReleasesFailed: 1, Silence: 60, SilenceFrom: 30,
	}, r.Total)
	require.Equal(t, Counts{Granted: 1, Acts: 2, Released: 1, Silence: 80, SilenceFrom: 10}, r.Names["a"])
	require.Equal(t, Counts{Refused: 1, Unanswered: 1, Silence: 90}, r.Names["job"])
	require.Equal(t, 2, r.Names["b"].Granted)
}

// TestTokenOrderIsReportedBesidesAnOverlap: where clocks step, two simultaneous leases are possible, and only the
// order of their tokens is guaranteed. So a wrong order is reported in any case.
func TestTokenOrderIsReportedBesidesAnOverlap(t *testing.T) {
	var s script
	a := s.grant(10, 1, 2)
	s.release(a, 2, 2)
	b := s.grant(5, 3, 4)
	s.act(b, 11, 11)
	c := s.grant(20, 5, 6)
	s.act(c, 7, 7)
	result := Check(s.history(t), time.Minute)
	require.Equal(t, Illegal, result.Verdict)
	kinds := make(map[ViolationKind]int)
	for _, v := range result.Violations {
		kinds[v.Kind]++
	}
	require.Positive(t, kinds[Overlap], result.Violations)
	require.Positive(t, kinds[TokenOrder], result.Violations)
}

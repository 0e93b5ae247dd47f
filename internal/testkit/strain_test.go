package testkit

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := MeasureStrain(t)
		require.Zero(t, s.Worst(), "nothing is known yet")
		time.Sleep(time.Second)
		require.Zero(t, s.Worst(), "in a bubble nothing is late")
		for range len(s.late) {
			s.note(time.Millisecond)
		}
		s.note(3 * time.Millisecond)
		require.Equal(t, 3*time.Millisecond, s.Worst())
		require.Equal(t, time.Millisecond, s.quantile(0.9))
		require.Zero(t, s.quantile(0.4))
		s.await(time.Now().Add(-time.Second))
		require.Equal(t, time.Second, s.Worst(), "a tick that is still to come is late already")
	})
}

// skipping notes how it is skipped.
type skipping struct {
	testing.TB
	format string
	args   []any
}

func (s *skipping) Helper() {}

func (s *skipping) Skipf(format string, args ...any) { s.format, s.args = format, args }

func TestInconclusive(t *testing.T) {
	var s skipping
	Inconclusive(&s, "late by %v", time.Second)
	require.Equal(t, "INCONCLUSIVE: late by %v", s.format)
	require.Equal(t, []any{time.Second}, s.args)
}

// ending notes how a test was ended.
type ending struct {
	skipping
	fatal bool
}

func (e *ending) Fatalf(string, ...any) { e.fatal = true }

func TestBounds(t *testing.T) {
	busy, idle := &Strain{late: []time.Duration{time.Second}}, &Strain{late: []time.Duration{time.Microsecond}}
	for what, test := range map[string]struct {
		strain              *Strain
		took                time.Duration
		fatal, inconclusive bool
	}{
		"in time":                       {idle, time.Second, false, false},
		"late on an idle machine":       {idle, 2 * time.Second, true, false},
		"late on a busy machine":        {busy, 2 * time.Second, false, true},
		"very late on a busy machine":   {busy, time.Minute, true, false},
		"in time on a busy machine too": {busy, time.Second, false, false},
	} {
		var e ending
		test.strain.Within(&e, test.took, time.Second, "it")
		require.Equal(t, test.fatal, e.fatal, what)
		require.Equal(t, test.inconclusive, e.format != "", what)
	}
	var e ending
	busy.Missing(&e, "%d sections", 3)
	require.False(t, e.fatal)
	require.Equal(t, []any{3, time.Second}, e.args)
	idle.Missing(&e, "%d sections", 3)
	require.True(t, e.fatal)
}

// A machine that is idle but for one stall explains what the stall can break, and nothing else.
func TestOneStallOfAnIdleMachine(t *testing.T) {
	const stall = 300 * time.Millisecond
	stalled := &Strain{late: append(make([]time.Duration, 100), stall)}
	for what, test := range map[string]struct {
		broken func(e *ending)
		fatal  bool
	}{
		"the lease ended, and the stall was long enough for that": {func(e *ending) { stalled.Broken(e, stall, "a lease %d", 3) }, false},
		"the lease ended, and the stall was too short for that":   {func(e *ending) { stalled.Broken(e, stall+1, "a lease %d", 3) }, true},
		"progress is missing, which a stall only delays":          {func(e *ending) { stalled.Missing(e, "a section %d", 3) }, true},
	} {
		var e ending
		test.broken(&e)
		require.Equal(t, test.fatal, e.fatal, what)
		require.Equal(t, !test.fatal, e.format != "", what)
		if !test.fatal {
			require.Equal(t, []any{3, stall}, e.args, what)
		}
	}
	var e ending
	busy := &Strain{late: []time.Duration{2 * time.Millisecond}}
	busy.Broken(&e, stall, "a lease %d", 3)
	require.False(t, e.fatal, "a busy machine explains it without a stall")
}

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
		synctest.Wait() // for the tick that is due now
		require.Zero(t, s.Worst(), "in a bubble nothing is late")
		require.Positive(t, s.ticks)
		for range s.ticks / 8 {
			s.due = time.Now().Add(-2 * time.Millisecond)
			s.note()
		}
		require.Equal(t, 2*time.Millisecond, s.Worst())
		require.True(t, s.isBusy())
		s.due = time.Now().Add(-time.Second)
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

func TestMissing(t *testing.T) {
	const stall = 300 * time.Millisecond
	due := time.Now().Add(time.Hour)
	busy := &Strain{due: due, ticks: 100, late: 11, worst: 2 * time.Millisecond}
	idle := &Strain{due: due, ticks: 100, late: 10, worst: 2 * time.Millisecond}
	stalled := &Strain{due: due, ticks: 100, late: 1, worst: stall}
	for what, c := range map[string]struct {
		strain *Strain
		stall  time.Duration
		late   time.Duration // the explanation, 0 if the test fails
	}{
		"a busy machine":                                   {busy, 0, quiet},
		"a busy machine that did not stall":                {busy, stall, quiet},
		"an idle machine":                                  {idle, stall, 0},
		"a stall that was long enough":                     {stalled, stall, stall},
		"a stall that was too short":                       {stalled, stall + 1, 0},
		"a stall, and progress, which a stall only delays": {stalled, 0, 0},
	} {
		var e ending
		c.strain.Missing(&e, c.stall, "%d sections", 3)
		require.Equal(t, c.late == 0, e.fatal, what)
		if c.late != 0 {
			require.Equal(t, []any{3, c.late}, e.args, what)
		}
	}
}

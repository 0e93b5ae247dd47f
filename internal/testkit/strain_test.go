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
		require.Equal(t, time.Millisecond, s.Quantile(0.9))
		require.Zero(t, s.Quantile(0.4))
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

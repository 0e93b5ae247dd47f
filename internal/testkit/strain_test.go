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
		time.Sleep(time.Second)
		require.Zero(t, s.Worst(), "in a bubble nothing is late")
		s.note(3 * time.Millisecond)
		s.note(time.Millisecond)
		require.Equal(t, 3*time.Millisecond, s.Worst())
		s.Reset()
		require.Zero(t, s.Worst())
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

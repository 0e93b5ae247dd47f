package clock_test

import (
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/quorumlock/quorumlock/clock"
)

func TestSkewedRate(t *testing.T) {
	m := clock.NewManual(epoch)
	m.Advance(7 * time.Second)
	fast, slow := clock.NewSkewed(m, 1.005), clock.NewSkewed(m, 0.98)
	require.Equal(t, 7*time.Second, fast.Now(), "the clock starts at the time of its base")
	require.Equal(t, m.Wall(), fast.Wall())

	m.Advance(1000 * time.Second)
	require.InDelta(t, float64(1012*time.Second), float64(fast.Now()), 2)
	require.InDelta(t, float64(987*time.Second), float64(slow.Now()), 2)
	require.WithinDuration(t, m.Wall().Add(5*time.Second), fast.Wall(), 2)
	require.WithinDuration(t, m.Wall().Add(-20*time.Second), slow.Wall(), 2)
}

func TestSkewedWallClockSteps(t *testing.T) {
	m := clock.NewManual(epoch)
	s := clock.NewSkewed(m, 1)
	s.StepWall(time.Hour)
	require.Equal(t, epoch.Add(time.Hour), s.Wall())
	require.Equal(t, epoch, m.Wall(), "the base takes no notice")
	s.StepWall(-3 * time.Hour)
	m.StepWall(time.Minute)
	require.Equal(t, epoch.Add(time.Minute-2*time.Hour), s.Wall(), "the steps of the base come on top")
	require.Zero(t, s.Now())
}

func TestSkewedJump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := clock.NewManual(epoch)
		s := clock.NewSkewed(m, 2)
		var due, later, stopped, based counter
		s.AfterFunc(10*time.Second, due.inc)
		s.AfterFunc(15*time.Second, later.inc)
		timer := s.AfterFunc(5*time.Second, stopped.inc)
		m.AfterFunc(5*time.Second, based.inc)
		require.True(t, timer.Stop())

		m.Advance(time.Second)
		s.Jump(8 * time.Second)
		synctest.Wait()
		require.Equal(t, 10*time.Second, s.Now())
		require.Equal(t, time.Second, m.Now())
		require.Equal(t, epoch.Add(2*time.Second), s.Wall(), "the wall clock stays")
		due.require(t, 1)
		later.require(t, 0)

		m.Advance(2500*time.Millisecond - 1)
		later.require(t, 0)
		m.Advance(1)
		later.require(t, 1)
		require.Equal(t, 15*time.Second, s.Now())

		m.Advance(time.Hour)
		due.require(t, 1)
		stopped.require(t, 0)
		based.require(t, 1)
	})
}

func TestSkewedJumpInAFunction(t *testing.T) {
	m := clock.NewManual(epoch)
	s := clock.NewSkewed(m, 1)
	var at time.Duration
	s.AfterFunc(time.Minute, func() { at = m.Now() })
	s.AfterFunc(time.Second, func() { s.Jump(time.Hour) })
	m.Advance(time.Second)
	require.Equal(t, time.Second, at)
}

func TestSkewedJumpsAddUp(t *testing.T) {
	m := clock.NewManual(epoch)
	s := clock.NewSkewed(m, 1)
	s.Jump(time.Second)
	s.Jump(time.Minute)
	require.Equal(t, time.Minute+time.Second, s.Now())
	s.Jump(math.MaxInt64)
	m.Advance(time.Second)
	require.Equal(t, time.Duration(math.MaxInt64), s.Now(), "the time does not wrap around")
}

// grabber is a base that hands over what its timers would run.
type grabber struct {
	*clock.Manual
	fire func()
}

func (g *grabber) AfterFunc(d time.Duration, f func()) clock.Timer {
	g.fire = f
	return g.Manual.AfterFunc(d, func() {})
}

// A timer of the base may have fired already, and wait for its turn, when the
// timer above it is stopped or set again.
func TestSkewedIgnoresAnOutdatedFiring(t *testing.T) {
	base := &grabber{Manual: clock.NewManual(epoch)}
	s := clock.NewSkewed(base, 1)
	runs := 0
	timer := s.AfterFunc(time.Second, func() { runs++ })
	base.Advance(time.Second)

	require.True(t, timer.Stop())
	base.fire()
	require.Zero(t, runs, "overtaken by a Stop")

	require.False(t, timer.Reset(time.Second))
	base.fire()
	require.Zero(t, runs, "overtaken by a Reset")

	base.Advance(time.Second)
	base.fire()
	base.fire()
	require.Equal(t, 1, runs, "twice in time")
}

func TestSkewedRefuses(t *testing.T) {
	m := clock.NewManual(epoch)
	for _, rate := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1)} {
		require.Panics(t, func() { clock.NewSkewed(m, rate) }, "%v", rate)
	}
	require.PanicsWithValue(t, "clock: NewSkewed at the rate -1: it must be above zero and finite",
		func() { clock.NewSkewed(m, -1) })
	require.PanicsWithValue(t, "clock: Jump by a negative duration: local time never goes back",
		func() { clock.NewSkewed(m, 1).Jump(-1) })
}

func TestSkewedConcurrentUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := clock.NewManual(epoch)
		s := clock.NewSkewed(m, 1.01)
		var fired counter
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 20 {
					s.AfterFunc(time.Millisecond, fired.inc)
					stopped := s.AfterFunc(time.Hour, func() { t.Error("it was stopped") })
					m.Advance(time.Microsecond)
					s.Jump(time.Microsecond)
					s.Wall()
					s.StepWall(1)
					stopped.Stop()
				}
			})
		}
		all.Wait()
		m.Advance(time.Second)
		synctest.Wait()
		fired.require(t, 160)
	})
}

// A timer is never early by its own clock, and late by no more than the
// rounding of one nanosecond of the base; the clock itself never goes back.
func TestSkewedTimersAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := clock.NewManual(epoch)
		rate := rapid.Float64Range(0.1, 10).Draw(t, "rate")
		m.Advance(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "before")))
		s := clock.NewSkewed(m, rate)
		m.Advance(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "since")))

		d := time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "d"))
		deadline := s.Now() + d
		fired := time.Duration(0)
		s.AfterFunc(d, func() { fired = s.Now() })
		last := s.Now()
		for fired == 0 {
			m.Advance(d/7 + 1)
			require.GreaterOrEqual(t, s.Now(), last)
			last = s.Now()
		}
		require.GreaterOrEqual(t, fired, deadline)
		require.Less(t, float64(fired-deadline), 2*rate+2)
	})
}

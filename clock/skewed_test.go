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
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// pass lets the time of the bubble pass, and all timers run that are due then.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestSkewedWallClockSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		process := clock.Process()
		pass(7 * time.Second)
		base := testkit.NewSkewed(process, 1)
		s := testkit.NewSkewed(base, 1)
		began := base.Wall()
		s.StepWall(time.Hour)
		require.Equal(t, began.Add(time.Hour), s.Wall())
		require.Equal(t, began, base.Wall(), "the base takes no notice")
		s.StepWall(-3 * time.Hour)
		base.StepWall(time.Minute)
		require.Equal(t, began.Add(time.Minute-2*time.Hour), s.Wall(), "the steps of the base come on top")
		require.Equal(t, 7*time.Second, s.Now(), "the clock starts at the time of its base")
	})
}

func TestSkewedJump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := clock.Process()
		s, began := testkit.NewSkewed(base, 2), base.Wall()
		var due, later, stopped, based counter
		s.AfterFunc(10*time.Second, due.inc)
		s.AfterFunc(15*time.Second, later.inc)
		timer := s.AfterFunc(5*time.Second, stopped.inc)
		base.AfterFunc(5*time.Second, based.inc)
		require.True(t, timer.Stop())

		pass(time.Second)
		s.Jump(8 * time.Second)
		synctest.Wait()
		require.Equal(t, 10*time.Second, s.Now())
		require.Equal(t, time.Second, base.Now())
		require.Equal(t, began.Add(2*time.Second), s.Wall(), "the wall clock stays")
		due.require(t, 1)
		later.require(t, 0)

		pass(2500*time.Millisecond - 1)
		later.require(t, 0)
		pass(1)
		later.require(t, 1)
		require.Equal(t, 15*time.Second, s.Now())

		pass(time.Hour)
		due.require(t, 1)
		stopped.require(t, 0)
		based.require(t, 1)
	})
}

func TestSkewedJumpInAFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := clock.Process()
		s := testkit.NewSkewed(base, 1)
		var at time.Duration
		s.AfterFunc(time.Minute, func() { at = base.Now() })
		s.AfterFunc(time.Second, func() { s.Jump(time.Hour) })
		pass(time.Second)
		require.Equal(t, time.Second, at)
	})
}

func TestSkewedJumpsAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testkit.NewSkewed(clock.Process(), 1)
		s.Jump(time.Second)
		s.Jump(time.Minute)
		require.Equal(t, time.Minute+time.Second, s.Now())
		s.Jump(math.MaxInt64)
		pass(time.Second)
		require.Equal(t, time.Duration(math.MaxInt64), s.Now(), "the time does not wrap around")
	})
}

// grabber is a base that hands over what its timers would run.
type grabber struct {
	clock.Clock
	fire func()
}

func (g *grabber) AfterFunc(d time.Duration, f func()) clock.Timer {
	g.fire = f
	return g.Clock.AfterFunc(d, func() {})
}

// A timer of the base may have fired already, and wait for its turn, when the
// timer above it is stopped or set again.
func TestSkewedIgnoresAnOutdatedFiring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &grabber{Clock: clock.Process()}
		s := testkit.NewSkewed(base, 1)
		runs := 0
		timer := s.AfterFunc(time.Second, func() { runs++ })
		pass(time.Second)

		require.True(t, timer.Stop())
		base.fire()
		require.Zero(t, runs, "overtaken by a Stop")

		require.False(t, timer.Reset(time.Second))
		base.fire()
		require.Zero(t, runs, "overtaken by a Reset")

		pass(time.Second)
		base.fire()
		base.fire()
		require.Equal(t, 1, runs, "twice in time")
	})
}

func TestSkewedConcurrentUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testkit.NewSkewed(clock.Process(), 1.01)
		var fired counter
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 20 {
					s.AfterFunc(time.Millisecond, fired.inc)
					stopped := s.AfterFunc(time.Hour, func() { t.Error("it was stopped") })
					time.Sleep(time.Microsecond)
					s.Jump(time.Microsecond)
					s.Wall()
					s.StepWall(1)
					stopped.Stop()
				}
			})
		}
		all.Wait()
		pass(time.Second)
		fired.require(t, 160)
	})
}

// A timer is never early by its own clock, and late by no more than the
// rounding of one nanosecond of the base; the clock itself never goes back.
func TestSkewedTimersAreExact(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		rate := rapid.Float64Range(0.1, 10).Draw(r, "rate")
		before := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(r, "before"))
		since := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(r, "since"))
		d := time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(r, "d"))
		var deadline, fired time.Duration
		times := make([]time.Duration, 1, 100)
		synctest.Test(t, func(*testing.T) {
			base := clock.Process()
			pass(before)
			s := testkit.NewSkewed(base, rate)
			pass(since)
			deadline = s.Now() + d
			s.AfterFunc(d, func() { fired = s.Now() })
			for fired == 0 {
				times = append(times, s.Now())
				pass(d/7 + 1)
			}
		})
		require.IsNonDecreasing(r, times)
		require.GreaterOrEqual(r, fired, deadline)
		require.Less(r, float64(fired-deadline), 2*rate+2)
	})
}

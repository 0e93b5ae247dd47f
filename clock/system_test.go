package clock_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

const patience = 10 * time.Second

func TestSystemMoves(t *testing.T) {
	c := clock.System()
	before, wall := c.Now(), time.Now()
	require.GreaterOrEqual(t, before, time.Duration(0))
	fired := make(chan time.Duration, 1)
	c.AfterFunc(20*time.Millisecond, func() { fired <- c.Now() })
	select {
	case at := <-fired:
		require.GreaterOrEqual(t, at-before, 20*time.Millisecond, "not early by its own clock")
		require.Less(t, at-before, patience)
	case <-time.After(patience):
		require.Fail(t, "the timer did not fire")
	}
	require.WithinRange(t, c.Wall(), wall.Round(0), time.Now().Round(0))
}

// Outside of a bubble, where the wall clock is read together with a monotonic
// one, that must not get into a comparison of two machines' times.
func TestWallHasNoMonotonicReading(t *testing.T) {
	for name, c := range map[string]clock.Clock{
		"system": clock.System(), "process": clock.Process(),
		"skewed": testkit.NewSkewed(clock.Process(), 2),
	} {
		at := c.Wall()
		require.Equal(t, at.Round(0), at, name)
	}
}

func TestSystemNeverGoesBack(t *testing.T) {
	c := clock.System()
	last := c.Now()
	for range 10_000 {
		now := c.Now()
		require.GreaterOrEqual(t, now, last)
		last = now
	}
}

func TestSystemClocksShareAnOrigin(t *testing.T) {
	first := clock.System().Now()
	second := clock.System().Now()
	require.GreaterOrEqual(t, second, first)
	require.Less(t, second-first, patience)
}

func TestSystemStop(t *testing.T) {
	timer := clock.System().AfterFunc(time.Hour, func() { t.Error("it was stopped") })
	require.True(t, timer.Stop())
	require.False(t, timer.Stop())
}

// machine is a clock over the fake time of a bubble that can be suspended: then
// it goes on, and ordinary timers do not.
type machine struct {
	began     time.Time
	rate      time.Duration
	suspended atomic.Int64
	fired     atomic.Int64 // when the timer fired, by ordinary time
}

func (m *machine) now() time.Duration {
	return time.Since(m.began)/m.rate + time.Duration(m.suspended.Load())
}

func (m *machine) run(t *testing.T, d time.Duration, steps func(*machine)) {
	synctest.Test(t, func(*testing.T) {
		m.began = time.Now()
		clock.SlicedAfterFunc(m.now, 250*time.Millisecond, d, func() {
			m.fired.Store(int64(time.Since(m.began)))
		})
		steps(m)
	})
}

func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestSlicedTimerNoticesASuspend(t *testing.T) {
	(&machine{rate: 1}).run(t, 5*time.Second, func(m *machine) {
		sleep(300 * time.Millisecond)
		m.suspended.Store(int64(10 * time.Second))
		sleep(199 * time.Millisecond)
		require.Zero(t, m.fired.Load(), "between two looks at the clock")
		sleep(time.Millisecond)
		require.EqualValues(t, 500*time.Millisecond, m.fired.Load(), "at the next look, not 4.5 s later")
	})
}

// A suspend that ends before the deadline brings the timer forward by as much.
func TestSlicedTimerAfterAShortSuspend(t *testing.T) {
	(&machine{rate: 1}).run(t, 5*time.Second, func(m *machine) {
		sleep(1001 * time.Millisecond)
		m.suspended.Store(int64(3300 * time.Millisecond))
		sleep(time.Hour)
		require.EqualValues(t, 1700*time.Millisecond, m.fired.Load())
	})
}

// Ordinary timers that run ahead of the clock do not make it fire early.
func TestSlicedTimerIsNeverEarly(t *testing.T) {
	(&machine{rate: 3}).run(t, time.Second, func(m *machine) {
		sleep(time.Hour)
		require.EqualValues(t, 3*time.Second, m.fired.Load())
	})
}

func TestProcessStartsAtZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock.Process()
		require.Zero(t, c.Now())
		time.Sleep(time.Minute)
		require.Equal(t, time.Minute, c.Now())
		require.Zero(t, clock.Process().Now(), "each has an origin of its own")
		require.Equal(t, epoch.Add(time.Minute), c.Wall().UTC())
	})
}

func TestNowAllocatesNothing(t *testing.T) {
	for name, c := range map[string]clock.Clock{
		"system": clock.System(), "process": clock.Process(),
		"skewed": testkit.NewSkewed(clock.Process(), 1.005),
	} {
		require.Zero(t, testing.AllocsPerRun(100, func() { c.Now() }), name)
	}
}

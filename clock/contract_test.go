package clock_test

import (
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

var epoch = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// subject is a clock under test and what makes its local time pass. It runs in
// a bubble, where pass returns only when nothing more is going to happen.
type subject struct {
	clock.Clock
	pass func(d time.Duration)
}

// sliced is the system clock with the fake time of a bubble below.
type sliced struct{ clock.Clock }

func (s sliced) AfterFunc(d time.Duration, f func()) clock.Timer {
	return clock.SlicedAfterFunc(s.Now, 250*time.Millisecond, d, f)
}

func asleep(c clock.Clock) subject {
	return subject{c, func(d time.Duration) { time.Sleep(d); synctest.Wait() }}
}

func skewed(rates ...float64) subject {
	c, rate := clock.Process(), 1.0
	for _, r := range rates {
		c, rate = testkit.NewSkewed(c, r), rate*r
	}
	return subject{c, func(d time.Duration) {
		time.Sleep(time.Duration(math.Ceil(float64(d) / rate)))
		synctest.Wait()
	}}
}

var subjects = map[string]func() subject{
	"process":           func() subject { return asleep(clock.Process()) },
	"sliced":            func() subject { return asleep(sliced{clock.Process()}) },
	"fast":              func() subject { return skewed(1.25) },
	"slow":              func() subject { return skewed(0.5) },
	"fast on slow":      func() subject { return skewed(0.5, 1.25) },
	"skewed on process": func() subject { return skewed(1) },
}

// TestContract holds every clock to what [clock.Clock] promises.
func TestContract(t *testing.T) {
	for name, newSubject := range subjects {
		for promise, check := range promises {
			t.Run(name+"/"+promise, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { check(t, newSubject()) })
			})
		}
	}
}

var promises = map[string]func(t *testing.T, c subject){
	"time passes": func(t *testing.T, c subject) {
		now, wall := c.Now(), c.Wall()
		c.pass(3 * time.Second)
		require.Equal(t, 3*time.Second, c.Now()-now)
		require.Equal(t, 3*time.Second, c.Wall().Sub(wall))
	},
	"a timer fires once, and at its time": func(t *testing.T, c subject) {
		var fired counter
		deadline := c.Now() + time.Second
		timer := c.AfterFunc(time.Second, func() {
			fired.Add(1)
			require.Equal(t, deadline, c.Now())
		})
		c.pass(time.Second - 20)
		fired.require(t, 0)
		c.pass(20)
		fired.require(t, 1)
		c.pass(time.Hour)
		fired.require(t, 1)
		require.False(t, timer.Stop())
	},
	"nothing to wait for": func(t *testing.T, c subject) {
		var fired counter
		c.AfterFunc(0, fired.inc)
		c.AfterFunc(-time.Second, fired.inc)
		synctest.Wait()
		fired.require(t, 2)
	},
	"a timer for ever": func(t *testing.T, c subject) {
		var fired counter
		c.pass(time.Second)
		timer := c.AfterFunc(math.MaxInt64, fired.inc)
		c.pass(time.Hour)
		fired.require(t, 0)
		require.True(t, timer.Stop())
	},
	"a stopped timer": func(t *testing.T, c subject) {
		var fired counter
		timer := c.AfterFunc(time.Second, fired.inc)
		c.pass(time.Second / 2)
		require.True(t, timer.Stop())
		require.False(t, timer.Stop(), "the timer was stopped before")
		c.pass(time.Hour)
		fired.require(t, 0)
	},
	"a pending timer set later": func(t *testing.T, c subject) {
		var fired counter
		timer := c.AfterFunc(time.Second, fired.inc)
		c.pass(time.Second / 2)
		require.True(t, timer.Reset(time.Second))
		c.pass(time.Second - 20)
		fired.require(t, 0)
		c.pass(20)
		fired.require(t, 1)
	},
	"a pending timer set earlier": func(t *testing.T, c subject) {
		var fired counter
		timer := c.AfterFunc(time.Hour, fired.inc)
		require.True(t, timer.Reset(time.Second))
		c.pass(time.Second)
		fired.require(t, 1)
		c.pass(time.Hour)
		fired.require(t, 1)
	},
	"a pending timer set to now": func(t *testing.T, c subject) {
		var fired counter
		timer := c.AfterFunc(time.Hour, fired.inc)
		require.True(t, timer.Reset(0))
		synctest.Wait()
		fired.require(t, 1)
		require.False(t, timer.Stop())
	},
	"a timer set again after it fired or was stopped": func(t *testing.T, c subject) {
		var fired counter
		timer := c.AfterFunc(time.Second, fired.inc)
		c.pass(time.Second)
		require.False(t, timer.Reset(time.Second))
		c.pass(time.Second)
		fired.require(t, 2)
		require.False(t, timer.Reset(time.Second))
		require.True(t, timer.Stop())
		require.False(t, timer.Reset(time.Second))
		c.pass(time.Second)
		fired.require(t, 3)
	},
	"a function that sets its own timer": func(t *testing.T, c subject) {
		var fired counter
		self := make(chan clock.Timer, 1)
		self <- c.AfterFunc(time.Second, func() {
			fired.Add(1)
			timer := <-self
			if timer.Stop() {
				t.Error("a timer whose function runs is not pending")
			}
			timer.Reset(time.Second)
			self <- timer
		})
		for i := range 5 {
			c.pass(time.Second)
			fired.require(t, i+1)
		}
		require.True(t, (<-self).Stop())
	},
}

type counter struct{ atomic.Int64 }

func (c *counter) inc() { c.Add(1) }

func (c *counter) require(t *testing.T, want int) {
	t.Helper()
	require.EqualValues(t, want, c.Load(), "runs of the function")
}

package clock_test

import (
	"cmp"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/quorumlock/quorumlock/clock"
)

func TestManualRunsInOrderOnTheCaller(t *testing.T) {
	m := clock.NewManual(epoch)
	type run struct {
		name string
		at   time.Duration
	}
	var runs []run // unguarded: the race detector sees any other goroutine
	arm := func(name string, d time.Duration) {
		m.AfterFunc(d, func() { runs = append(runs, run{name, m.Now()}) })
	}
	arm("third", 3*time.Second)
	arm("first", time.Second)
	arm("second", 2*time.Second)
	arm("second again", 2*time.Second)
	arm("too late", 3*time.Second+1)
	m.Advance(3 * time.Second)
	require.Equal(t, []run{
		{"first", time.Second},
		{"second", 2 * time.Second},
		{"second again", 2 * time.Second},
		{"third", 3 * time.Second},
	}, runs)
	m.Advance(1)
	require.Len(t, runs, 5)
}

func TestManualFunctionsMayArmAndStop(t *testing.T) {
	m := clock.NewManual(epoch)
	var at []time.Duration
	note := func() { at = append(at, m.Now()) }
	victim := m.AfterFunc(4*time.Second, note)
	m.AfterFunc(time.Second, func() {
		note()
		m.AfterFunc(time.Second, note) // within this Advance
		m.AfterFunc(time.Hour, note)   // not within it
		m.AfterFunc(0, note)           // at once, and still on this goroutine
		m.AfterFunc(-time.Hour, note)  // likewise, and the clock does not go back
		require.True(t, victim.Stop())
	})
	m.Advance(10 * time.Second)
	require.Equal(t, []time.Duration{time.Second, time.Second, time.Second, 2 * time.Second}, at)
	require.Equal(t, 10*time.Second, m.Now())
}

func TestManualAtOnceOutsideOfAdvance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := clock.NewManual(epoch)
		var mu sync.Mutex
		mu.Lock() // the caller may hold what f needs
		done := false
		timer := m.AfterFunc(0, func() {
			mu.Lock()
			defer mu.Unlock()
			done = true
		})
		require.False(t, timer.Stop(), "the timer has fired")
		mu.Unlock()
		synctest.Wait()
		require.True(t, done)
	})
}

func TestManualWallClockSteps(t *testing.T) {
	m := clock.NewManual(epoch)
	fired := false
	m.AfterFunc(time.Minute, func() { fired = true })
	m.StepWall(time.Hour)
	require.Equal(t, epoch.Add(time.Hour), m.Wall())
	require.Zero(t, m.Now(), "local time takes no notice")
	m.StepWall(-2 * time.Hour)
	m.Advance(time.Second)
	require.Equal(t, epoch.Add(-time.Hour+time.Second), m.Wall())
	require.False(t, fired)
}

func TestManualNeverGoesBack(t *testing.T) {
	m := clock.NewManual(epoch)
	require.PanicsWithValue(t, "clock: Advance by a negative duration: local time never goes back", func() { m.Advance(-1) })
	m.Advance(time.Second)
	m.Advance(math.MaxInt64)
	require.Equal(t, time.Duration(math.MaxInt64), m.Now(), "the time does not wrap around")
}

func TestManualConcurrentUse(t *testing.T) {
	m := clock.NewManual(epoch)
	var fired counter
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 100 {
				m.AfterFunc(time.Duration(1+i), fired.inc)
				stopped := m.AfterFunc(time.Hour, func() { t.Error("it was stopped") })
				m.Advance(1)
				m.Wall()
				stopped.Reset(2 * time.Hour)
				stopped.Stop()
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 800, m.Now(), "every Advance counts")
	m.Advance(100)
	fired.require(t, 800)
}

// Two that overlap add up: the second begins where the first ends.
func TestManualAdvancesTakeTurns(t *testing.T) {
	m := clock.NewManual(epoch)
	started, done := make(chan struct{}), make(chan struct{})
	m.AfterFunc(time.Second, func() {
		go func() {
			defer close(done)
			close(started)
			m.Advance(time.Second)
		}()
		<-started
		for range 1000 {
			runtime.Gosched() // the chance to go wrong
		}
	})
	m.Advance(2 * time.Second)
	<-done
	require.Equal(t, 3*time.Second, m.Now())
}

// The twin keeps all timers in a list and sorts it for each step.
func TestManualTwin(t *testing.T) {
	type twin struct {
		id    int
		at    time.Duration
		timer clock.Timer
	}
	rapid.Check(t, func(t *rapid.T) {
		m := clock.NewManual(epoch)
		var pending []twin
		var got, want []int
		short := rapid.Map(rapid.IntRange(1, 5), func(n int) time.Duration { return time.Duration(n) })
		id := 0
		take := func(t *rapid.T) twin {
			if len(pending) == 0 {
				t.Skip("no timer")
			}
			i := rapid.IntRange(0, len(pending)-1).Draw(t, "timer")
			w := pending[i]
			pending = slices.Delete(pending, i, i+1)
			return w
		}
		t.Repeat(map[string]func(*rapid.T){
			"arm": func(t *rapid.T) {
				id++
				w, d := twin{id: id}, short.Draw(t, "d")
				w.at = m.Now() + d
				w.timer = m.AfterFunc(d, func() { got = append(got, w.id) })
				pending = append(pending, w)
			},
			"stop": func(t *rapid.T) {
				w := take(t)
				require.True(t, w.timer.Stop())
				require.False(t, w.timer.Stop())
			},
			"reset": func(t *rapid.T) {
				w, d := take(t), short.Draw(t, "d")
				require.True(t, w.timer.Reset(d))
				w.at = m.Now() + d
				pending = append(pending, w)
			},
			"advance": func(t *rapid.T) {
				d := short.Draw(t, "d")
				target := m.Now() + d
				slices.SortStableFunc(pending, func(a, b twin) int { return cmp.Compare(a.at, b.at) })
				for len(pending) > 0 && pending[0].at <= target {
					want = append(want, pending[0].id)
					pending = pending[1:]
				}
				m.Advance(d)
				require.Equal(t, target, m.Now())
			},
			"": func(t *rapid.T) { require.Equal(t, want, got) },
		})
	})
}

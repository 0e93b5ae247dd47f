package sim

import (
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

// apart is the clock of a bubble, with no two timers at one instant. Such timers fire in random order, so runs could not be
// repeated. A timer whose instant is taken is late by a few nanoseconds.
type apart struct {
	clock.Clock

	mu sync.Mutex
	// taken are the instants of all timers so far.
	taken map[time.Duration]struct{}
}

func newApart() *apart {
	return &apart{Clock: clock.Process(), taken: make(map[time.Duration]struct{})}
}

// delay returns the least duration from d on that ends at an instant of its own, and takes that.
func (a *apart) delay(d time.Duration) time.Duration {
	d = max(d, 0)
	if d > 2*lastCall {
		return d // the run is over before
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for now := a.Now(); ; d++ {
		if _, taken := a.taken[now+d]; !taken {
			a.taken[now+d] = struct{}{}
			return d
		}
	}
}

// Sleep is time.Sleep.
func (a *apart) Sleep(d time.Duration) { time.Sleep(a.delay(d)) }

// NewTimer is time.NewTimer.
func (a *apart) NewTimer(d time.Duration) *time.Timer { return time.NewTimer(a.delay(d)) }

// AfterFunc implements [clock.Clock].
func (a *apart) AfterFunc(d time.Duration, f func()) clock.Timer {
	return apartTimer{a, a.Clock.AfterFunc(a.delay(d), f)}
}

type apartTimer struct {
	apart *apart
	clock.Timer
}

// Reset implements [clock.Timer].
func (t apartTimer) Reset(d time.Duration) bool { return t.Timer.Reset(t.apart.delay(d)) }

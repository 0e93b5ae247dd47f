package dispatch

import (
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

// alarm runs a function at an instant, or before. Its timer keeps running from one exchange to the next: resetting
// it for each would cost more than one firing too early now and then. The sender's mutex guards it.
type alarm struct {
	clock clock.Clock
	run   func()
	timer clock.Timer
	set   bool
	at    time.Duration
}

// arm makes sure that the function runs at an instant, or before. The function says by rung that it runs.
func (a *alarm) arm(now, at time.Duration) {
	switch {
	case a.set && a.at <= at:
		return
	case a.timer == nil:
		a.timer = a.clock.AfterFunc(at-now, a.run)
	default:
		a.timer.Reset(at - now)
	}
	a.set, a.at = true, at
}

func (a *alarm) rung() { a.set = false }

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

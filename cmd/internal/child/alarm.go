package child

import (
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

// Alarm is a timer that counts suspends of the machine, as a lease does.
type Alarm struct {
	// Rings receives a value when the time is over.
	Rings chan struct{}
	timer clock.Timer
}

// NewAlarm makes an alarm that is not set.
func NewAlarm() *Alarm { return &Alarm{Rings: make(chan struct{}, 1)} }

// Set makes the alarm ring after d; at once if d is not positive.
func (a *Alarm) Set(d time.Duration) {
	if a.timer != nil {
		a.timer.Reset(d)
		return
	}
	a.timer = clock.System().AfterFunc(d, func() {
		select {
		case a.Rings <- struct{}{}:
		default: // it rings already
		}
	})
}

// Stop ends the alarm.
func (a *Alarm) Stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

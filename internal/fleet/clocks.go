package fleet

import (
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/clock"
)

// Ahead is a clock whose wall time is ahead of the clock in it.
type Ahead struct {
	clock.Clock
	// By is how far the wall time is ahead.
	By time.Duration
}

// Wall returns the wall time of the clock in it, plus By.
func (a Ahead) Wall() time.Time { return a.Clock.Wall().Add(a.By) }

// SkewedBy returns a change of a client's configuration: its wall clock differs from the fleet's by d.
func SkewedBy(f *Fleet, d time.Duration) func(*quorumlock.Config) {
	return func(cfg *quorumlock.Config) {
		wrong := clock.NewSkewed(f.Clock, 1)
		wrong.StepWall(d)
		cfg.Clock = wrong
	}
}

package fleet

import (
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// SkewedBy returns a change of a client's configuration: its wall clock differs from the fleet's by d.
func SkewedBy(f *Fleet, d time.Duration) func(*quorumlock.Config) {
	return func(cfg *quorumlock.Config) {
		wrong := testkit.NewSkewed(f.Clock, 1)
		wrong.StepWall(d)
		cfg.Clock = wrong
	}
}

package chaos_test

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/faultinject/chaos"
	"github.com/quorumlock/quorumlock/faultinject/workload"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// undrawn are the methods and options that chaos does not draw, besides those that no workload draws.
var undrawn = []string{
	"Config.Nodes",     // only a slot of a cluster needs it, and then chaos sets it
	"Config.AllowEven", // it only lets New accept an even number of nodes
	"Config.Jitter",    // it only makes a simulation repeatable
}

// TestEveryOperationIsDrawn lets clients work without faults until each exported method and option was used. A new one fails
// it until a workload draws it, or is an exception.
func TestEveryOperationIsDrawn(t *testing.T) {
	t.Parallel()
	strain, drawn := testkit.MeasureStrain(t), make(workload.Tally)
	for seed := range uint64(12) {
		report := run(t, chaos.Config{Every: true, Workers: 3, Kinds: chaos.Kinds(), Seed: seed, Out: t.Output()})
		drawn.Add(report.Drawn)
		if len(drawn.Undrawn(undrawn...)) == 0 {
			break
		}
	}
	t.Log(drawn)
	if missing := drawn.Undrawn(undrawn...); len(missing) > 0 {
		strain.Missing(t, time.Second, "chaos does not draw these, or they are exceptions that do not exist: %v", missing)
	}
}

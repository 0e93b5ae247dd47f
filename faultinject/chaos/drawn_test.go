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
	"Config.Nodes",  // only a slot of a cluster needs it, and then chaos sets it
	"Config.Jitter", // it only makes a simulation repeatable
}

// TestEveryOperationIsDrawn lets clients work without faults until each exported method and option was used. A new one fails
// it until a workload draws it, or is an exception.
func TestEveryOperationIsDrawn(t *testing.T) {
	t.Parallel()
	strain, drawn, once := testkit.MeasureStrain(t), make(workload.Tally), make(map[workload.Stage]int)
	for seed := range uint64(12) {
		report := run(t, chaos.Config{Every: true, Workers: 3, Kinds: chaos.Kinds(), Seed: seed, Prefix: "app/", Out: t.Output()})
		drawn.Add(report.Drawn)
		for stage, n := range report.Once {
			once[stage] += n
		}
		if len(drawn.Undrawn(undrawn...)) == 0 && once[workload.Succeeded] > 0 && once[workload.Told] > 0 {
			break
		}
	}
	t.Log(drawn)
	if once[workload.Succeeded] == 0 || once[workload.Told] == 0 {
		strain.Missing(t, time.Second, "work is done once, and a client is told of that: %v", once)
	}
	if missing := drawn.Undrawn(undrawn...); len(missing) > 0 {
		strain.Missing(t, time.Second, "chaos does not draw these, or they are exceptions that do not exist: %v", missing)
	}
}

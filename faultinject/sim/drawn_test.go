//go:build !race

// The race detector makes these cases five times slower, and other tests of this package show it the same code.

package sim_test

import (
	"testing"

	"github.com/quorumlock/quorumlock/faultinject/sim"
	"github.com/quorumlock/quorumlock/faultinject/workload"
)

// undrawn are the options that the simulation does not draw, besides those that no workload draws.
var undrawn = []string{
	"Config.Prefix",   // the judges read what nodes have under the names without it
	"Config.Redisson", // a message to Redisson is one to nobody there
}

// TestEveryOperationIsDrawn plays cases of each kind until each exported method and option was used. A new one fails it
// until a workload draws it, or package workload lists it among those that change nothing.
func TestEveryOperationIsDrawn(t *testing.T) {
	const most = 300
	for i := range uint64(most) {
		for _, kind := range sim.Kinds {
			sim.Run(t, kind.Draw(*from+i), false)
		}
		if len(workload.Drawn().Undrawn(undrawn...)) == 0 {
			break
		}
	}
	drawn := workload.Drawn()
	t.Log(drawn)
	if missing := drawn.Undrawn(undrawn...); len(missing) > 0 {
		t.Errorf("no workload draws these, or they are exceptions that do not exist: %v", missing)
	}
}

package sim_test

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/faultinject/sim"
)

// Locks that stay on the nodes after their release break no promise of safety, whatever fails. Such a lock is free
// later than the simulation expects, so this test looks at no other promise.
func TestSimulationOfMinHold(t *testing.T) {
	const cases = 150
	grants := 0
	for i := range uint64(cases) {
		c := sim.Draw(*from + i)
		for n := range c.Tasks {
			if task := &c.Tasks[n]; !task.Fixed {
				task.MinHold = time.Duration(n%4) * 300 * time.Millisecond
			}
		}
		v := sim.Run(t, c, false)
		grants += v.Grants
		for _, broken := range v.Violations {
			switch broken.Promise {
			case sim.Exclusion, sim.Tokens, sim.Finality:
				t.Errorf("case %v, with a MinHold: %v", c, broken)
			}
		}
	}
	if grants < cases {
		t.Errorf("only %d grants in %d cases", grants, cases)
	}
}

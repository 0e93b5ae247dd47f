package chaos_test

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/faultinject/chaos"
)

// TestScenarioMoreDemandThanCapacity: callers of each client ask for more than the nodes can serve, and give up. Nodes are
// killed, hang, and are slow meanwhile. Nothing that was given up is left on the nodes, each client closes in time, and
// the workers keep their locks, and get them again soon after the last fault.
func TestScenarioMoreDemandThanCapacity(t *testing.T) {
	scenario(t, chaos.Config{Crowd: 100, Clients: 2, Workers: 2, Plan: parse(t, `
		1s      pause n2 for 500ms
		2s      slow -n3 by 30ms for 1s
		3.5s    kill n1 for 500ms
		4.5s    part c1-n4 for 500ms
	`)}, func(r *chaos.Report, _ time.Duration) []string {
		return unless(r.Counts.Granted > 0, "no worker got a lock")
	})
}

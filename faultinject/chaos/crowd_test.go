package chaos_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/faultinject/chaos"
)

// TestScenarioMoreDemandThanCapacity: callers of each client ask for more than the nodes can serve, and give up. Nodes are
// killed, hang, and are slow meanwhile. Nothing that was given up is left on the nodes, each client closes in time, and
// the locks of the other callers keep their promises.
func TestScenarioMoreDemandThanCapacity(t *testing.T) {
	report := run(t, chaos.Config{Crowd: 200, Clients: 2, Workers: 2, Patient: true, Out: t.Output(), Plan: parse(t, `
		1s      pause n2 for 500ms
		2s      slow -n3 by 30ms for 1s
		3.5s    kill n1 for 500ms
		4.5s    part c1-n4 for 500ms
	`)})
	require.Empty(t, report.Violations)
	require.Positive(t, report.Counts.Granted)
}

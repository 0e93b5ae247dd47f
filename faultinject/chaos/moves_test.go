package chaos_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/faultinject/chaos"
	"github.com/quorumlock/quorumlock/faultinject/history"
	"github.com/quorumlock/quorumlock/node"
)

// lostLocks counts the lost leases of locks that a workload holds until it releases them.
func lostLocks(r *chaos.Report) (n int) {
	for _, name := range []string{"alpha", "beta"} {
		n += r.Objects[history.Object{Of: history.Lock, Name: name}].Lost
	}
	return n
}

// misled counts the refusals of clients whose name starts with a prefix because of their list, or of their limits.
func misled(r *chaos.Report, client string) (n int) {
	for _, e := range r.History.Events() {
		if strings.HasPrefix(e.Client, client) && (strings.Contains(e.Error, node.ErrLists.Error()) || strings.Contains(e.Error, node.ErrSettings.Error())) {
			n++
		}
	}
	return n
}

// TestScenarioNodesChange: while users of every kind work, clients go from three nodes to five, and back to three, two of
// which have other addresses. As docs/on-call.md says, one node comes or goes at a time, and no client moves again before the
// list before has run out. No move costs a lease, and no client is refused.
func TestScenarioNodesChange(t *testing.T) {
	var moves []chaos.Move
	after := time.Second
	for _, list := range [][]int{{0, 1, 2, 3}, {0, 1, 2, 3, 4}, {1, 2, 3, 4}, {1, 3, 4}} {
		for client := range clients {
			moves = append(moves, chaos.Move{After: after, Client: client, Nodes: list})
			after = 300 * time.Millisecond // clients with two lists work beside each other
		}
		after = oldListsCount
	}
	cfg := chaos.Config{Kinds: chaos.Kinds(), Workers: 1, Listed: []int{0, 1, 2}, Moves: moves, Plan: parse(t, `
		4s      kill n2 for 500ms
		11.5s   pause n1 for 1s
		21.5s   part c1-n5 for 1s
		24s     slow -n3 by 100ms for 2s
		31.5s   pause n4 for 1s
	`)}
	scenario(t, cfg, func(r *chaos.Report, _ time.Duration) []string { return undisturbed(r) })
}

// undisturbed lists what clients notice of moves, and should not.
func undisturbed(r *chaos.Report) []string {
	lacks := unless(lostLocks(r) == 0, "%d leases of locks were lost, and none needs to be", lostLocks(r))
	return append(lacks, unless(misled(r, "") == 0, "%d calls were refused because of a list or of limits", misled(r, ""))...)
}

// TestScenarioLimitsChange: while users of every kind work, MaxTTL and MaxClockSkew double, and go back. As docs/on-call.md says,
// a recovery that is long enough for both comes first and goes last, and no client moves again before the limits before have run
// out. In each step a node loses its memory, and with it locks of clients with either limits.
func TestScenarioLimitsChange(t *testing.T) {
	var moves []chaos.Move
	after, before := time.Second, limitSteps[0]
	for _, next := range []node.Limits{limitSteps[1], limitSteps[2], limitSteps[1], limitSteps[0]} {
		for client := range clients {
			moves = append(moves, chaos.Move{After: after, Client: client, Limits: next})
			after = 500 * time.Millisecond // clients with two limits work beside each other
		}
		after, before = 3*before.Recovery()+ttl/4, next
	}
	cfg := chaos.Config{Kinds: chaos.Kinds(), Workers: 1, Alike: true, Limits: limitSteps[0], Moves: moves, Plan: parse(t, `
		1300ms  wipe n1 for 200ms
		7.3s    wipe n2 for 200ms
		18s     wipe n3 for 200ms
		28.5s   wipe n4 for 200ms
	`)}
	scenario(t, cfg, func(r *chaos.Report, _ time.Duration) []string { return undisturbed(r) })
}

// TestScenarioLimitsWithoutRecovery: a client gets the larger limits at once, as an operator leaves out a step. The recovery of
// the others is too short for its locks, so the nodes refuse it until its limits are corrected.
func TestScenarioLimitsWithoutRecovery(t *testing.T) {
	cfg := chaos.Config{Kinds: chaos.Kinds(), Workers: 1, Alike: true, Limits: limitSteps[0], Moves: []chaos.Move{
		{After: 2 * time.Second, Client: 2, Limits: limitSteps[2]}, {After: 4 * time.Second, Client: 2, Limits: limitSteps[1]},
	}, Plan: parse(t, `
		3s      wipe n1 for 200ms
		5s      kill n2 for 200ms
	`)}
	scenario(t, cfg, func(r *chaos.Report, _ time.Duration) []string { return refusedUntilCorrected(t, r) })
}

// refusedUntilCorrected checks that only the second process of c3 was refused, and lists what else should be seen.
func refusedUntilCorrected(t *testing.T, r *chaos.Report) []string {
	t.Helper()
	wrong := slices.DeleteFunc(r.History.Events(), func(e history.Event) bool { return e.Client != "c3.2" || e.Token == 0 })
	require.Empty(t, wrong, "leases of c3 before it is corrected")
	lacks := unless(misled(r, "c3.2") > 0, "c3 is refused")
	lacks = append(lacks, unless(misled(r, "c1")+misled(r, "c2") == 0, "the others are not refused")...)
	lacks = append(lacks, unless(lostLocks(r) == 0, "%d leases of locks were lost, and none needs to be", lostLocks(r))...)
	return append(lacks, unless(grants(r, "c3.3", 0, time.Hour) > 0, "c3 gets locks when it is corrected")...)
}

// TestScenarioListTwoStepsAway: a client lists three nodes by mistake while the others list five. It reaches only two of
// these, and the others only the other three, so both have a majority of their own. The nodes refuse it until its list is
// corrected.
func TestScenarioListTwoStepsAway(t *testing.T) {
	all := []int{0, 1, 2, 3, 4}
	cfg := chaos.Config{Moves: []chaos.Move{{After: 2 * time.Second, Client: 2, Nodes: all[2:]}, {After: 4 * time.Second, Client: 2, Nodes: all}}, Plan: parse(t, `
		1500ms  part c3-n3 for 4s
		1500ms  part c1-n4 for 4s
		1500ms  part c1-n5 for 4s
		1500ms  part c2-n4 for 4s
		1500ms  part c2-n5 for 4s
	`)}
	scenario(t, cfg, func(r *chaos.Report, _ time.Duration) []string { return refusedUntilCorrected(t, r) })
}

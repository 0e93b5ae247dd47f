package chaos_test

import (
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/chaos"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// ownerChanges gives the slot of a cluster four other owners: by a planned failover, by a move of the slot, by a cut
// between the owner and the other servers, and by the death of the owner.
const ownerChanges = `
	1s      failover n1
	8s      move n1
	15s     isolate n1 for 6s
	28s     kill n1 for 5s
`

// scenarioOnCluster plays a plan with ownerChanges up to three times, as scenario does.
func scenarioOnCluster(t *testing.T, kind string, cfg chaos.Config, unseen func(r *chaos.Report) []string) {
	t.Helper()
	t.Parallel()
	strain := testkit.MeasureStrain(t)
	var lacks []string
	for range 3 {
		cfg.Out, cfg.Patient = t.Output(), true
		cfg.Servers = start(t, kind)
		before := ownersSoFar(t, cfg.Servers[0])
		report := runOn(t, cfg)
		owners := ownersSoFar(t, cfg.Servers[0]) - before
		lacks = append(report.Slow, unless(owners >= 4, "the slot has four new owners: it had %d", owners)...)
		if lacks = append(lacks, unseen(report)...); len(lacks) == 0 {
			return
		}
		t.Logf("not seen in this run: %v", lacks)
	}
	strain.Missing(t, 0, "%v", lacks)
}

var epoch = regexp.MustCompile(`cluster_current_epoch:(\d+)`)

// ownersSoFar returns a number that grows whenever slots have another owner.
func ownersSoFar(t *testing.T, s faultinject.Server) int {
	t.Helper()
	text, err := s.Command(t.Context(), "CLUSTER", "INFO")
	require.NoError(t, err)
	match := epoch.FindStringSubmatch(text)
	require.NotNil(t, match, text)
	n, err := strconv.Atoi(match[1])
	require.NoError(t, err)
	return n
}

// TestScenarioClusterAlone: the only node is a slot of a cluster. All kinds of locks keep their promises, and are
// acquired again after each change of the owner.
func TestScenarioClusterAlone(t *testing.T) {
	cfg := chaos.Config{Kinds: chaos.Kinds(), Workers: 2, Plan: parse(t, ownerChanges)}
	scenarioOnCluster(t, "cluster", cfg, func(r *chaos.Report) (lacks []string) {
		for _, span := range [][2]time.Duration{{2, 8}, {11, 15}, {21, 28}, {33, 60}} {
			from, to := span[0]*time.Second, span[1]*time.Second
			lacks = append(lacks, unless(grants(r, "", from, to) > 0, "locks are acquired between %v and %v", from, to)...)
		}
		return lacks
	})
}

// TestScenarioClusterAmongNodes: one of three nodes is a slot of a cluster. The other two keep all leases, whatever
// happens to the cluster.
func TestScenarioClusterAmongNodes(t *testing.T) {
	cfg := chaos.Config{Plan: parse(t, ownerChanges)}
	scenarioOnCluster(t, "mixed", cfg, func(r *chaos.Report) (lacks []string) {
		lacks = unless(r.Counts.Lost == 0, "%d leases were lost, and none needs to be", r.Counts.Lost)
		for _, client := range []string{"c1", "c2", "c3"} {
			lacks = append(lacks, unless(grants(r, client, time.Second, 28*time.Second) > 0, "%s gets locks all the time", client)...)
		}
		return lacks
	})
}

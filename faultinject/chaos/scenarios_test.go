package chaos_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/chaos"
	"github.com/quorumlock/quorumlock/faultinject/history"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

func parse(t *testing.T, text string) faultinject.Plan {
	t.Helper()
	plan, err := faultinject.ParsePlan(strings.NewReader(text))
	require.NoError(t, err)
	return plan
}

// scenario plays a plan up to three times, on new nodes, until the report shows everything that the test expects.
// unseen lists the rest. Events may be late by the given time, and effects of a step by its lag besides. A broken
// promise fails the test in any run.
func scenario(t *testing.T, cfg chaos.Config, unseen func(r *chaos.Report, late time.Duration) []string) {
	t.Helper()
	t.Parallel()
	strain := testkit.MeasureStrain(t)
	var lacks []string
	var lag time.Duration
	for range 3 {
		cfg.Out, cfg.Patient = t.Output(), true
		report := run(t, cfg)
		lag = slices.Max(slices.Collect(maps.Values(report.Lags)))
		lacks = append(slices.Clone(report.Slow), unseen(report, strain.Worst())...)
		if len(lacks) == 0 {
			return
		}
		t.Logf("not seen in this run: %s", strings.Join(lacks, "; "))
	}
	// A slow engine needs seconds for a fault or its repair. That leaves little time to see the effect.
	stall := 500 * time.Millisecond
	if lag > time.Second {
		stall = 0
	}
	strain.Missing(t, stall, "%s; a fault began or ended %v late", strings.Join(lacks, "; "), lag)
}

// grants counts the leases that clients whose name starts with a prefix got between two instants of the plan.
func grants(r *chaos.Report, client string, from, to time.Duration) (n int) {
	for _, e := range r.History.Events() {
		at := e.Return - r.Began
		if e.Kind == history.Acquire && e.Token != 0 && strings.HasPrefix(e.Client, client) && from <= at && at <= to {
			n++
		}
	}
	return n
}

// refusals are why clients got no lease between two instants of the plan, each reason once.
func refusals(r *chaos.Report, from, to time.Duration) (reasons []string) {
	for _, e := range r.History.Events() {
		at := e.Return - r.Began
		if e.Kind == history.Acquire && e.Error != "" && from <= at && at <= to && !slices.Contains(reasons, e.Error) {
			reasons = append(reasons, e.Error)
		}
	}
	return reasons
}

// unless returns an empty list if seen is true, and otherwise one with the message.
func unless(seen bool, format string, args ...any) []string {
	if seen {
		return nil
	}
	return []string{fmt.Sprintf(format, args...)}
}

// TestScenarioWhatCanBeSpared: a majority lock tolerates the loss of a minority. One node after the other is killed,
// slow, cut off briefly, or restarted empty, and two are cut off from one client.
func TestScenarioWhatCanBeSpared(t *testing.T) {
	scenario(t, chaos.Config{Plan: parse(t, `
		1s      kill n1 for 1s
		2s      pause n2 for 3s     # longer than the TTL
		5.5s    slow -n3 by 300ms for 1s
		7s      part -n4 for 100ms
		7.3s    part -n4 for 200ms
		7.7s    part -n4 for 50ms
		8.5s    part c1-n1 for 3s
		8.5s    mute c1-n2 for 3s
		9s      deafen c2-n3 for 2s
		9s      deafen c2-n4 for 2s
		12s     wipe n1 for 200ms   # a rolling restart without persistence
		13s     wipe n2 for 200ms
		14s     wipe n3 for 200ms
		15s     wipe n4 for 200ms
		16s     wipe n5 for 200ms
	`)}, func(r *chaos.Report, _ time.Duration) (lacks []string) {
		lacks = unless(r.Counts.Lost == 0, "%d leases were lost, and none needs to be", r.Counts.Lost)
		for _, client := range []string{"c1", "c2", "c3"} {
			lacks = append(lacks, unless(grants(r, client, time.Second, 11500*time.Millisecond) > 0, "%s gets locks all the time", client)...)
		}
		return lacks
	})
}

// TestScenarioWithoutAMajority: without a majority, acquiring fails with an error that says so. With a majority
// again, it succeeds.
func TestScenarioWithoutAMajority(t *testing.T) {
	scenario(t, chaos.Config{Plan: parse(t, `
		1s      kill n1 for 3s
		1s      kill n2 for 3s
		1s      kill n3 for 3s
		10s     pause n3 for 4s
		10s     pause n4 for 4s
		10s     pause n5 for 4s
		17s     kill n1 for 2s
		17s     kill n2 for 2s
		17s     wipe n3 for 2s
		17s     wipe n4 for 2s
		17s     stop n5 for 2s
	`)}, func(r *chaos.Report, late time.Duration) (lacks []string) {
		for from, to := range map[time.Duration]time.Duration{
			time.Second:      4*time.Second + 3*time.Second, // and the recovery of all three
			10 * time.Second: 14 * time.Second,
			17 * time.Second: 19*time.Second + 3*time.Second,
		} {
			moment := 500*time.Millisecond + r.Lags[from] + late
			require.Zero(t, grants(r, "", from+moment, to-moment), "no client gets a lock between %v and %v", from, to)
			reasons := refusals(r, from+moment, to-moment)
			lacks = append(lacks, unless(len(reasons) > 0, "clients are refused between %v and %v", from, to)...)
			for _, why := range reasons {
				require.Regexp(t, `no quorum: \d of 5 nodes agreed|is held by|gave up`, why)
			}
		}
		lacks = append(lacks, unless(grants(r, "", 7*time.Second, 10*time.Second) > 0, "a lock is acquired between the first and the second loss")...)
		return append(lacks, unless(grants(r, "", 14*time.Second, 17*time.Second) > 0, "a lock is acquired between the second and the third loss")...)
	})
}

// TestScenarioPartitionedClient: a client that is cut off from a majority acquires nothing, and the others continue.
// Each cut lasts for three TTLs: if the client holds all locks when it begins, the others must wait for the first TTL.
func TestScenarioPartitionedClient(t *testing.T) {
	scenario(t, chaos.Config{Brisk: true, Plan: parse(t, `
		1s      part c1-n1 for 6s
		1s      part c1-n2 for 6s
		1s      part c1-n3 for 6s
		9s      mute c1-n3 for 6s   # its requests arrive, and it never learns of it
		9s      mute c1-n4 for 6s
		9s      mute c1-n5 for 6s
		17s     deafen c1- for 6s
	`)}, func(r *chaos.Report, late time.Duration) (lacks []string) {
		for _, at := range []time.Duration{1, 9, 17} {
			from, to := at*time.Second+300*time.Millisecond+r.Lags[at*time.Second]+late, (at+6)*time.Second-100*time.Millisecond
			require.Zero(t, grants(r, "c1", from, to), "c1 gets nothing from %v on", from)
			for _, other := range []string{"c2", "c3"} {
				lacks = append(lacks, unless(grants(r, other, from, to) > 0, "%s goes on from %v on", other, from)...)
			}
		}
		return append(lacks, unless(grants(r, "c1", 23*time.Second, time.Hour) > 0, "c1 gets locks again")...)
	})
}

// TestScenarioLateRequests: requests that run twice, and requests to a minority that arrive late, cost no lease, also if
// their connection or their process is gone by then.
func TestScenarioLateRequests(t *testing.T) {
	scenario(t, chaos.Config{Plan: parse(t, `
		1s      twice c1- for 1s
		2.5s    twice - for 1.5s
		4.5s    late c2-n1 for 1s
		4.5s    late c2-n2 for 2s
		7s      late c3-n4 for 2s
		7s      twice c3-n5 for 2s
		7.5s    murder c3 for 500ms
	`)}, func(r *chaos.Report, _ time.Duration) (lacks []string) {
		lacks = unless(r.Counts.Lost == 0, "%d leases were lost, and none needs to be", r.Counts.Lost)
		for _, client := range []string{"c1", "c2", "c3"} {
			lacks = append(lacks, unless(grants(r, client, time.Second, time.Hour) > 0, "%s gets locks", client)...)
		}
		return lacks
	})
}

// TestScenarioSleepingHolder freezes holders between the check of the lease and the write, until others have held the
// lock. Their late writes are refused.
func TestScenarioSleepingHolder(t *testing.T) {
	scenario(t, chaos.Config{Clients: 4, Think: ttl / 2, Plan: parse(t, `
		2s      freeze c1 for 5s
		2s      freeze c2 for 5s
		2s      freeze c3 for 5s
		9s      freeze c2 for 5s
		9s      freeze c3 for 5s
		9s      freeze c4 for 5s
		16s     freeze c3 for 5s
		16s     freeze c4 for 5s
		16s     freeze c1 for 5s
	`)}, func(r *chaos.Report, _ time.Duration) []string {
		return unless(r.Late > 0, "late writes are refused")
	})
}

// TestScenarioKilledClient: the locks of a killed client are free after the TTL.
func TestScenarioKilledClient(t *testing.T) {
	scenario(t, chaos.Config{Plan: parse(t, `
		1s      murder c1 for 1s
		3s      murder c2 for 4s
		4s      murder c3 for 1s
		9s      murder c1 for 1s
		9s      murder c2 for 1s
		9s      murder c3 for 1s
	`)}, func(r *chaos.Report, _ time.Duration) (lacks []string) {
		for object, counts := range r.Objects {
			// First a killed holder, and then one that holds the lock for the longest time.
			most := ttl + 2*ttl + 2*time.Second
			lacks = append(lacks, unless(counts.Silence < most, "%s is acquired again within %v: it was after %v", object.Name, most, counts.Silence)...)
		}
		return lacks
	})
}

// TestScenarioClockSteps: if a node's clock steps further than locks allow for, two clients may hold one lock. Tokens
// still show the order.
func TestScenarioClockSteps(t *testing.T) {
	scenario(t, chaos.Config{TokensOnly: true, Plan: parse(t, `
		1s      clock n1 by 3s for 2s
		4s      clock n2 by 800ms for 2s
		7s      clock n3 by -800ms for 2s
		10s     clock n4 by 1h for 2s
	`)}, func(r *chaos.Report, _ time.Duration) []string {
		return unless(r.Counts.Granted > 0, "a lock is acquired")
	})
}

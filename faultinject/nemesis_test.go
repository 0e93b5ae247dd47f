package faultinject_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/faultinject"
)

func nemesis(seed uint64) faultinject.Nemesis {
	return faultinject.Nemesis{Seed: seed, Nodes: 5, Clients: 3, TTL: 2 * time.Second, ClockStep: 10 * time.Millisecond}
}

func TestNemesisRepeatsItself(t *testing.T) {
	plan := nemesis(1).Plan(time.Minute)
	require.NotEmpty(t, plan)
	require.Equal(t, plan, nemesis(1).Plan(time.Minute))
	require.NotEqual(t, plan, nemesis(2).Plan(time.Minute))
}

// What is printed can be played again.
func TestNemesisPlansAreReadable(t *testing.T) {
	for seed := range uint64(50) {
		plan := nemesis(seed).Plan(time.Minute)
		read, err := faultinject.ParsePlan(strings.NewReader(plan.String()))
		require.NoError(t, err, "seed %d", seed)
		require.Equal(t, plan.String(), read.String(), "seed %d", seed)
		require.Len(t, read, len(plan), "seed %d", seed)
	}
}

// A target that is broken is not broken again before it is whole, and all is over in time.
func TestNemesisStepsDoNotOverlap(t *testing.T) {
	for seed := range uint64(50) {
		free := make(map[string]time.Duration)
		for _, s := range nemesis(seed).Plan(time.Minute) {
			require.GreaterOrEqual(t, s.At, free[s.Target()], "seed %d: %s", seed, s)
			require.LessOrEqual(t, s.End(), time.Minute, "seed %d: %s", seed, s)
			free[s.Target()] = s.End()
		}
	}
}

// Over some seeds, each fault is there; without clock steps, and with some episodes only,
// it is as asked for.
func TestNemesisChooses(t *testing.T) {
	faults := func(change func(*faultinject.Nemesis)) map[faultinject.Fault]int {
		count := make(map[faultinject.Fault]int)
		for seed := range uint64(50) {
			n := nemesis(seed)
			change(&n)
			for _, s := range n.Plan(time.Minute) {
				count[s.Fault]++
			}
		}
		return count
	}
	all := faults(func(*faultinject.Nemesis) {})
	for _, fault := range []faultinject.Fault{
		faultinject.Stop, faultinject.Kill, faultinject.Wipe, faultinject.Flush, faultinject.Pause, faultinject.Clock,
		faultinject.Memory, faultinject.Part, faultinject.Deafen, faultinject.Mute, faultinject.Slow, faultinject.Freeze, faultinject.Murder,
	} {
		require.Positive(t, all[fault], fault)
	}
	require.Zero(t, faults(func(n *faultinject.Nemesis) { n.ClockStep = 0 })[faultinject.Clock])
	some := faults(func(n *faultinject.Nemesis) { n.Episodes = []faultinject.Episode{faultinject.Sleeper} })
	require.Len(t, some, 1)
	require.Positive(t, some[faultinject.Freeze])
	require.Empty(t, faults(func(n *faultinject.Nemesis) {
		n.ClockStep, n.Episodes = 0, []faultinject.Episode{faultinject.WrongClock}
	}))
	alone := faults(func(n *faultinject.Nemesis) { n.Clients = 0 })
	for _, fault := range []faultinject.Fault{
		faultinject.Deafen, faultinject.Mute, faultinject.Slow, faultinject.Freeze, faultinject.Murder,
	} {
		require.Zero(t, alone[fault], fault)
	}
	require.Positive(t, alone[faultinject.Part])
}

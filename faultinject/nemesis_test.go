package faultinject_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/faultinject"
)

// draw draws a plan. Its steps end in time, no target is broken again before it is whole, and a printed plan can be
// replayed.
func draw(t *testing.T, n faultinject.Nemesis) faultinject.Plan {
	t.Helper()
	plan, err := n.Plan(time.Minute)
	require.NoError(t, err)
	require.NoError(t, plan.Check(n.Nodes, n.Clients))
	free := make(map[string]time.Duration)
	for _, s := range plan {
		require.GreaterOrEqual(t, s.At, free[s.Target()], "seed %d: %s", n.Seed, s)
		require.LessOrEqual(t, s.End(), time.Minute, "seed %d: %s", n.Seed, s)
		free[s.Target()] = s.End()
	}
	read, err := faultinject.ParsePlan(strings.NewReader(plan.String()))
	require.NoError(t, err)
	require.Equal(t, plan.String(), read.String())
	return plan
}

func nemesis(seed uint64) faultinject.Nemesis {
	return faultinject.Nemesis{Seed: seed, Nodes: 5, Clients: 3, TTL: 2 * time.Second, ClockStep: 10 * time.Millisecond, Losses: true}
}

func TestNemesisRepeatsItself(t *testing.T) {
	plan := draw(t, nemesis(1))
	require.NotEmpty(t, plan)
	require.Equal(t, plan, draw(t, nemesis(1)))
	require.NotEqual(t, plan, draw(t, nemesis(2)))
}

// TestNemesisDrawsEachFault: over some seeds, each fault occurs. Options for clock steps and episodes are respected.
func TestNemesisDrawsEachFault(t *testing.T) {
	faults := func(change func(*faultinject.Nemesis)) map[faultinject.Fault]int {
		count := make(map[faultinject.Fault]int)
		for seed := range uint64(50) {
			n := nemesis(seed)
			change(&n)
			for _, s := range draw(t, n) {
				count[s.Fault]++
			}
		}
		return count
	}
	all := faults(func(*faultinject.Nemesis) {})
	for _, fault := range []faultinject.Fault{
		faultinject.Stop, faultinject.Kill, faultinject.Wipe, faultinject.Lose, faultinject.Flush, faultinject.Pause, faultinject.Clock,
		faultinject.Memory, faultinject.Part, faultinject.Deafen, faultinject.Mute, faultinject.Slow, faultinject.ArriveLate, faultinject.ArriveTwice,
		faultinject.Freeze, faultinject.Murder,
	} {
		require.Positive(t, all[fault], fault)
	}
	require.Zero(t, faults(func(n *faultinject.Nemesis) { n.ClockStep = 0 })[faultinject.Clock])
	require.Zero(t, faults(func(n *faultinject.Nemesis) { n.Losses = false })[faultinject.Lose])
	some := faults(func(n *faultinject.Nemesis) { n.Episodes = []faultinject.Episode{faultinject.Sleeper} })
	require.Len(t, some, 1)
	require.Positive(t, some[faultinject.Freeze])
	alone := faults(func(n *faultinject.Nemesis) { n.Clients = 0 })
	for _, fault := range []faultinject.Fault{
		faultinject.Deafen, faultinject.Mute, faultinject.Slow, faultinject.ArriveLate, faultinject.ArriveTwice,
		faultinject.Freeze, faultinject.Murder,
	} {
		require.Zero(t, alone[fault], fault)
	}
	require.Positive(t, alone[faultinject.Part])
	for _, fault := range []faultinject.Fault{faultinject.Failover, faultinject.Move, faultinject.Isolate} {
		require.Zero(t, all[fault], fault)
	}
}

// TestNemesisOfClusters: a slot of a cluster gets other owners, and is spared the faults that its servers cannot have.
// The plans for other nodes stay the same.
func TestNemesisOfClusters(t *testing.T) {
	count, others := make(map[faultinject.Fault]int), make(map[faultinject.Fault]int)
	for seed := range uint64(50) {
		n := nemesis(seed)
		n.Shards = 1
		plan := draw(t, n)
		for _, s := range plan {
			if s.Node == 0 {
				count[s.Fault]++
			} else {
				others[s.Fault]++
			}
		}
	}
	for _, fault := range []faultinject.Fault{faultinject.Failover, faultinject.Move, faultinject.Isolate} {
		require.Positive(t, count[fault], fault)
		require.Zero(t, others[fault], fault)
	}
	for _, fault := range []faultinject.Fault{faultinject.Pause, faultinject.Clock, faultinject.Wipe, faultinject.Lose} {
		require.Zero(t, count[fault], fault)
		require.Positive(t, others[fault], fault)
	}
}

func TestInvalidNemesis(t *testing.T) {
	for text, change := range map[string]func(n *faultinject.Nemesis){
		"0 nodes":                        func(n *faultinject.Nemesis) { n.Nodes = 0 },
		"6 of 5 nodes cannot be slots":   func(n *faultinject.Nemesis) { n.Shards = 6 },
		"-1 clients":                     func(n *faultinject.Nemesis) { n.Clients = -1 },
		"a TTL of 0s":                    func(n *faultinject.Nemesis) { n.TTL = 0 },
		"clocks step by -1s":             func(n *faultinject.Nemesis) { n.ClockStep = -time.Second },
		`no episode is called "minorty"`: func(n *faultinject.Nemesis) { n.Episodes = []faultinject.Episode{"minorty"} },
		"no episode of [majority] fits": func(n *faultinject.Nemesis) {
			n.TTL, n.Episodes = time.Hour, []faultinject.Episode{faultinject.Majority}
		},
		"no episode of [] fits into 1m0s": func(n *faultinject.Nemesis) {
			n.ClockStep, n.Episodes = 0, []faultinject.Episode{faultinject.WrongClock}
		},
	} {
		n := nemesis(1)
		change(&n)
		plan, err := n.Plan(time.Minute)
		require.ErrorContains(t, err, text)
		require.Empty(t, plan)
	}
	n := nemesis(1)
	n.Nodes, n.TTL, n.Episodes = 0, 0, []faultinject.Episode{"x"}
	_, err := n.Plan(time.Minute)
	require.Len(t, strings.Split(err.Error(), "\n"), 3, "all at once")
}

// TestNemesisOfOneNode: with no node to spare, only faults that fit are drawn.
func TestNemesisOfOneNode(t *testing.T) {
	for seed := range uint64(20) {
		n := nemesis(seed)
		n.Nodes, n.Clients = 1, 1
		require.NotEmpty(t, draw(t, n))
	}
}

func TestNemesisSparesAMajority(t *testing.T) {
	for seed := range uint64(50) {
		n := nemesis(seed)
		n.Episodes = []faultinject.Episode{faultinject.Minority}
		plan := draw(t, n)
		for _, at := range plan {
			down := make(map[int]bool)
			for _, s := range plan {
				if s.At <= at.At && at.At < s.End() {
					down[s.Node] = true
				}
			}
			require.LessOrEqual(t, len(down), 2, "seed %d: at %v", seed, at.At)
		}
	}
}

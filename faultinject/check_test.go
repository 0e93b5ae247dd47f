package faultinject_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/faultinject"
)

func TestCheck(t *testing.T) {
	for text, want := range map[string]string{
		"1s kill n5 for 1s":                           "",
		"1s part c3-n5 for 1s":                        "",
		"1s part - for 1s":                            "",
		"1s flush n1\n1s freeze c1 for 1s":            "",
		"1s kill n1 for 1s\n2s kill n1 for 1s":        "",
		"1s clock n1 by 1s for 9s\n2s kill n1 for 1s": "",
		"1s part c1-n1 for 9s\n2s part -n1 for 1s":    "",
		"1s kill n6 for 1s":                           `faultinject: "1s kill n6 for 1s": there is no such node among 5`,
		"1s part c4-n1 for 1s":                        "there is no such client among 3",
		"1s mute c1-n6 for 1s":                        "there is no such node among 5",
		"1s murder c4 for 1s":                         "there is no such client among 3",
		"1s kill n1 for 9s\n2s kill n1 for 1s":        `faultinject: "2s kill n1 for 1s" begins before "1s kill n1 for 9s" has ended`,
		"2s pause n1 for 1s\n1s wipe n1 for 9s":       "begins before",
		"1s stop n1 for 2s\n2s flush n1":              "begins before",
		"1s isolate n1 for 2s\n2s move n1":            "begins before",
		"1s failover n1\n2s move n1":                  "",
	} {
		plan, err := faultinject.ParsePlan(strings.NewReader(text))
		require.NoError(t, err)
		err = plan.Check(5, 3)
		if want == "" {
			require.NoError(t, err, text)
		} else {
			require.ErrorContains(t, err, want, text)
		}
	}
}

func TestCheckOfLiterals(t *testing.T) {
	for want, s := range map[string]faultinject.Step{
		`no fault is called "explode"`:     {Fault: "explode"},
		"a time is negative":               {Fault: faultinject.Kill, At: -1},
		"negative, or too long":            {Fault: faultinject.Kill, For: -1},
		"or too long":                      {Fault: faultinject.Kill, At: 1<<63 - 1, For: time.Second},
		"it is of an instant":              {Fault: faultinject.Flush, For: time.Second},
		"the delay is negative":            {Fault: faultinject.Slow, For: time.Second, Amount: -1},
		"the lost writes must lie between": {Fault: faultinject.Lose, For: time.Second, Amount: 2 * time.Second},
		"there is no such node among 5":    {Fault: faultinject.Kill, Node: faultinject.All},
	} {
		require.ErrorContains(t, faultinject.Plan{s}.Check(5, 3), want)
	}
	// The index that a fault does not use is ignored: a zero is not the first client.
	kill := faultinject.Step{Fault: faultinject.Kill, Node: 1, For: time.Second}
	require.NoError(t, faultinject.Plan{kill}.Check(5, 0))
	require.Equal(t, "0s kill n2 for 1s", kill.String())
}

// TestNodesOutOfRange: Nodes refuses steps with other targets.
func TestNodesOutOfRange(t *testing.T) {
	plan := faultinject.Plan{{Fault: faultinject.Kill, Node: 7, For: time.Millisecond}}
	require.ErrorContains(t, plan.Run(t.Context(), faultinject.Nodes{}, nil), "there is no such node among 0")
}

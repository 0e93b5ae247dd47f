package faultinject_test

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/faultinject"
)

var allFaults = []struct {
	step   faultinject.Step
	target string
	line   string
}{
	{faultinject.Step{Fault: faultinject.Stop, Client: faultinject.All, For: time.Second}, "n1", "0s stop n1 for 1s"},
	{faultinject.Step{At: time.Second, Fault: faultinject.Kill, Node: 11, Client: faultinject.All, For: 2 * time.Minute}, "n12", "1s kill n12 for 2m0s"},
	{faultinject.Step{At: 1, Fault: faultinject.Wipe, Node: 1, Client: faultinject.All}, "n2", "1ns wipe n2 for 0s"},
	{faultinject.Step{At: time.Hour, Fault: faultinject.Flush, Node: 2, Client: faultinject.All}, "n3", "1h0m0s flush n3"},
	{faultinject.Step{At: 2350 * time.Millisecond, Fault: faultinject.Pause, Node: 1, Client: faultinject.All, For: 800 * time.Millisecond}, "n2", "2.35s pause n2 for 800ms"},
	{faultinject.Step{Fault: faultinject.Clock, Client: faultinject.All, For: time.Second, Amount: -1500 * time.Microsecond}, "n1", "0s clock n1 by -1.5ms for 1s"},
	{faultinject.Step{Fault: faultinject.Memory, Client: faultinject.All, For: time.Second}, "n1", "0s memory n1 for 1s"},
	{faultinject.Step{Fault: faultinject.Part, Node: 1, For: time.Second}, "c1-n2", "0s part c1-n2 for 1s"},
	{faultinject.Step{Fault: faultinject.Deafen, Node: faultinject.All, Client: 2, For: time.Second}, "c3-", "0s deafen c3- for 1s"},
	{faultinject.Step{Fault: faultinject.Mute, Node: 3, Client: faultinject.All, For: time.Second}, "-n4", "0s mute -n4 for 1s"},
	{faultinject.Step{Fault: faultinject.Slow, Node: faultinject.All, Client: faultinject.All, For: time.Second, Amount: time.Microsecond}, "-", "0s slow - by 1µs for 1s"},
	{faultinject.Step{Fault: faultinject.ArriveLate, Node: 1, Client: 2, For: time.Second}, "c3-n2", "0s late c3-n2 for 1s"},
	{faultinject.Step{Fault: faultinject.ArriveTwice, Node: faultinject.All, For: time.Second}, "c1-", "0s twice c1- for 1s"},
	{faultinject.Step{Fault: faultinject.Freeze, Node: faultinject.All, For: time.Second}, "c1", "0s freeze c1 for 1s"},
	{faultinject.Step{Fault: faultinject.Murder, Node: faultinject.All, Client: 1, For: time.Second}, "c2", "0s murder c2 for 1s"},
}

func TestStepAsText(t *testing.T) {
	for _, c := range allFaults {
		t.Run(string(c.step.Fault), func(t *testing.T) {
			require.Equal(t, c.line, c.step.String())
			require.Equal(t, c.target, c.step.Target())
			require.Equal(t, c.step.At+c.step.For, c.step.End())
			plan, err := faultinject.ParsePlan(strings.NewReader(c.line))
			require.NoError(t, err)
			require.Equal(t, faultinject.Plan{c.step}, plan)
		})
	}
}

// TestPlanAsText: a plan is printed in the order of its steps. Simultaneous steps keep their order.
func TestPlanAsText(t *testing.T) {
	var plan faultinject.Plan
	for _, c := range allFaults {
		plan = append(plan, c.step)
	}
	given := slices.Clone(plan)
	text := plan.String()
	require.Equal(t, given, plan, "writing it changes nothing")

	read, err := faultinject.ParsePlan(strings.NewReader(text))
	require.NoError(t, err)
	require.Equal(t, inOrder(plan), read)
	require.Equal(t, text, read.String())
	require.Equal(t, faultinject.Wipe, read[11].Fault, text)
}

func inOrder(p faultinject.Plan) faultinject.Plan {
	return slices.SortedStableFunc(slices.Values(p), func(a, b faultinject.Step) int { return cmp.Compare(a.At, b.At) })
}

func TestPlanWithComments(t *testing.T) {
	plan, err := faultinject.ParsePlan(strings.NewReader("# seed 7\r\n\n  \t\n2s  flush\tn2 # all of it\n1s kill n1 for 1s"))
	require.NoError(t, err)
	require.Equal(t, faultinject.Plan{
		{At: 2 * time.Second, Fault: faultinject.Flush, Node: 1, Client: faultinject.All},
		{At: time.Second, Fault: faultinject.Kill, Client: faultinject.All, For: time.Second},
	}, plan, "as it was written")

	none, err := faultinject.ParsePlan(strings.NewReader("# nothing happens\n"))
	require.NoError(t, err)
	require.Empty(t, none)
	require.Empty(t, none.String())
}

func TestBadSteps(t *testing.T) {
	for _, c := range []struct{ line, problem string }{
		{"1s kill", "expected a time, a fault and a target"},
		{"soon kill n1 for 1s", `time: invalid duration "soon"`},
		{"1 kill n1 for 1s", `time: missing unit in duration "1"`},
		{"-1s kill n1 for 1s", "a time is negative"},
		{"9999999h kill n1 for 1s", `time: invalid duration "9999999h"`},
		{"1s melt n1 for 1s", `no fault is called "melt"`},
		{"1s Kill n1 for 1s", `no fault is called "Kill"`},
		{"soon melt n1 for 1s", `time: invalid duration "soon"`},
		{"1s kill c1 for 1s", `expected something like n1, not "c1"`},
		{"1s kill n0 for 1s", `expected something like n1, not "n0"`},
		{"1s kill n-1 for 1s", `expected something like n1, not "n-1"`},
		{"1s kill n+1 for 1s", `expected something like n1, not "n+1"`},
		{"1s kill n for 1s", `expected something like n1, not "n"`},
		{"1s kill 1 for 1s", `expected something like n1, not "1"`},
		{"1s kill nn1 for 1s", `expected something like n1, not "nn1"`},
		{"1s kill n99999999999999999999 for 1s", `expected something like n1, not "n99999999999999999999"`},
		{"1s freeze n1 for 1s", `expected something like c1, not "n1"`},
		{"1s part n1 for 1s", "part is about a way, such as c1-n2, c1- or -n2; not n1"},
		{"1s part n1-c1 for 1s", `expected something like c1, not "n1"`},
		{"1s part x-n1 for 1s", `expected something like c1, not "x"`},
		{"1s part c1-x for 1s", `expected something like n1, not "x"`},
		{"1s kill n1", `expected "for" and how long`},
		{"1s kill n1 for", `expected "for" and how long`},
		{"1s kill n1 by 1s", `expected "for" and how long`},
		{"1s kill n1 for ever", `time: invalid duration "ever"`},
		{"1s kill n1 for -1s", "a time is negative"},
		{"1s kill n1 for 1s too", `"too" is too much`},
		{"1s flush n1 for 1s", `"for 1s" is too much`},
		{"1s clock n1 for 1s", `expected "by" and how much`},
		{"1s clock n1 by", `expected "by" and how much`},
		{"1s clock n1 by far for 1s", `time: invalid duration "far"`},
		{"1s clock n1 by 1s", `expected "for" and how long`},
		{"1s slow -n1 by -5ms for 1s", "the delay is negative"},
		{"2000000h kill n1 for 2000000h", "or too long"},
	} {
		t.Run(c.line, func(t *testing.T) {
			_, err := faultinject.ParsePlan(strings.NewReader(c.line))
			require.ErrorContains(t, err, c.problem)
			require.NotContains(t, err.Error(), "\n")
			require.True(t, strings.HasPrefix(err.Error(), `faultinject: line 1 of the plan: "`+c.line+`": `), err)
		})
	}
}

func TestBadPlans(t *testing.T) {
	_, err := faultinject.ParsePlan(strings.NewReader("# a plan\n\n1s kill n1 for 1s\n2s melt n1 for 1s # no\n"))
	require.EqualError(t, err, `faultinject: line 4 of the plan: "2s melt n1 for 1s": no fault is called "melt"`)

	_, err = faultinject.ParsePlan(strings.NewReader("1s flush n1\n#" + strings.Repeat("x", 1<<17)))
	require.EqualError(t, err, "faultinject: reading line 2 of the plan: bufio.Scanner: token too long")

	broken := errors.New("broken")
	_, err = faultinject.ParsePlan(iotest.ErrReader(broken))
	require.ErrorIs(t, err, broken)
}

// FuzzParsePlan: a parsed plan can be printed and parsed again, with the same result.
func FuzzParsePlan(f *testing.F) {
	for _, c := range allFaults {
		f.Add(c.line)
	}
	f.Add("3s flush n2 # a comment\n\n1s flush n1")
	f.Add("1s slow c1-n2-n3 by 1h for -1s")
	f.Add("2562047h47m16.854775807s kill n9223372036854775807 for 0s")
	f.Add("0s clock n1 by -2562047h47m16.854775808s for 0.1us")
	f.Fuzz(func(t *testing.T, text string) {
		plan, err := faultinject.ParsePlan(strings.NewReader(text))
		if err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "faultinject: "), err)
			require.Nil(t, plan)
			return
		}
		for _, s := range plan {
			require.GreaterOrEqual(t, s.At, time.Duration(0))
			require.GreaterOrEqual(t, s.End(), s.At)
			require.GreaterOrEqual(t, s.Node, faultinject.All)
			require.GreaterOrEqual(t, s.Client, faultinject.All)
		}
		again, err := faultinject.ParsePlan(strings.NewReader(plan.String()))
		require.NoError(t, err)
		require.True(t, slices.Equal(inOrder(plan), again), "%v\nbecame\n%v", plan, again)
	})
}

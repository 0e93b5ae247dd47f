package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRunsOfWorkThatIsDoneOnce: the runs are judged in the order in which clients tell of them.
func TestRunsOfWorkThatIsDoneOnce(t *testing.T) {
	at := func(name, owner string, stage Stage, began, ended time.Duration) Run {
		return Run{Name: name, Owner: owner, Stage: stage, Began: began * time.Second, Ended: ended * time.Second, Window: 10 * time.Second}
	}
	var r Runs
	for _, step := range []struct {
		run  Run
		want string
	}{
		{at("a", "A", Ended, 1, 2), ""},
		{at("a", "B", Told, 0, 0), "a counts as done by B, whose run failed"},
		{at("a", "A", Told, 0, 0), ""}, // before its own client knows
		{at("a", "A", Succeeded, 1, 2), ""},
		{at("b", "A", Told, 0, 0), "b counts as done by A"},
		{at("a", "C", Ended, 11, 11), ""}, // nodes have not confirmed it
		{at("a", "D", Ended, 12, 13), ""},
		{at("a", "D", Succeeded, 12, 13), ""},
		{at("a", "C", Succeeded, 11, 11), "a was done from"},
		{at("a", "E", Succeeded, 40, 41), "whose run failed"},
	} {
		got := r.Note(step.run)
		require.Equal(t, step.want == "", got == "", "%v: %s", step.run, got)
		require.Contains(t, got, step.want)
	}
	require.Equal(t, map[Stage]int{Ended: 3, Told: 3, Succeeded: 4}, r.Counts())
}

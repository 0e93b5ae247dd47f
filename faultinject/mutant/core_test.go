package mutant_test

import (
	"os/exec"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// ofTheCore are the mutants that package decision finds by itself: it explores every order of events
// for its own Proposal and Claims. Package decision has the scopes that it explores.
var ofTheCore = []string{"any-heal-counts", "grant-without-a-second-look", "no-second-token-round"}

// TestMutantsOfTheCore shows that the exploration finds the mutants that break its rules.
func TestMutantsOfTheCore(t *testing.T) {
	if *budget == 0 {
		t.Skip("no budget: run it with -args -budget=10000")
	}
	for _, m := range selected(t) {
		if !slices.Contains(ofTheCore, m.Name) {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			overlay, err := m.apply(root, t.TempDir())
			require.NoError(t, err)
			command := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-overlay", overlay, "-run", "^TestEveryOrderOfEvents$", "./internal/decision")
			command.Dir = root
			out, err := command.CombinedOutput()
			require.Error(t, err, "the exploration did not find it:\n%s\n%s", m.Rule, m.Then)
			require.Contains(t, string(out), "--- FAIL: TestEveryOrderOfEvents", "no test failed: the mutant does not compile")
		})
	}
}

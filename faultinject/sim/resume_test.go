package sim

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The cases must not be so wild that nothing is ever resumed, nor so calm that nothing is refused.
func TestResumingCasesResume(t *testing.T) {
	const cases = 60
	resumed, refused := 0, 0
	for seed := range uint64(cases) {
		v := Run(t, DrawResuming(seed+1), false)
		require.Empty(t, v.Violations)
		resumed, refused = resumed+v.Resumed, refused+v.Refused
	}
	t.Logf("%d leases were resumed, and %d attempts refused", resumed, refused)
	require.Greater(t, min(resumed, refused), cases/2, "%d resumed, %d refused", resumed, refused)
}

package fleet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node/memory"
)

// RecoveryTime is how long the recovery of a node lasts, with the default limits.
const RecoveryTime = quorumlock.DefaultTTL + time.Second

// losses are the ways in which a node loses its memory.
var losses = []struct {
	name string
	lose func(*memory.Node)
}{
	{"a restart without persistence", (*memory.Node).Crash},
	{"a flush", (*memory.Node).Flush},
}

// ForEachLoss runs a test once for each way in which a node loses its memory. In the last one the node comes back with
// the data from before the test, marker included.
func ForEachLoss(t *testing.T, n int, test func(t *testing.T, f *Fleet, lose func(i int)), changes ...func(*quorumlock.Config)) {
	t.Helper()
	for _, loss := range losses {
		t.Run(loss.name, func(t *testing.T) {
			InVirtualTime(t, n, func(t *testing.T, f *Fleet) {
				test(t, f, func(i int) { loss.lose(f.Nodes[i]) })
			})
		})
	}
	t.Run("a restart with old data", func(t *testing.T) {
		InVirtualTime(t, n, func(t *testing.T, f *Fleet) {
			var cfg quorumlock.Config
			for _, change := range changes {
				change(&cfg)
			}
			f.SetUp(cfg)
			for _, nd := range f.Nodes {
				nd.Save()
			}
			test(t, f, func(i int) { f.Nodes[i].Crash() })
		})
	})
}

// LossOf returns the LostError that is wrapped in an error.
func LossOf(t *testing.T, err error) *quorumlock.LostError {
	t.Helper()
	var lost *quorumlock.LostError
	require.ErrorAs(t, err, &lost)
	return lost
}

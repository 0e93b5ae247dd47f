package servertest

import (
	"context"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/stretchr/testify/require"
)

// BenchmarkFaults measures the times to start a server, and to break and repair it.
func BenchmarkFaults(b *testing.B) {
	for kind, start := range kinds {
		b.Run(kind, func(b *testing.B) { benchmark(b, start) })
	}
}

func benchmark(b *testing.B, start func(tb testing.TB, n int) *faultinject.Group) {
	b.Run("start and close", func(b *testing.B) {
		for b.Loop() {
			require.NoError(b, start(b, 1).Close())
		}
	})
	s := start(b, 1).Servers()[0]
	step := func(offset time.Duration) func(context.Context) error {
		return func(ctx context.Context) error { return s.StepClock(ctx, offset) }
	}
	for _, pair := range []struct {
		name          string
		inflict, mend func(context.Context) error
	}{
		{"kill and start", s.Kill, s.Start},
		{"stop and start", s.Stop, s.Start},
		{"pause and resume", s.Pause, s.Resume},
		{"cut off and heal", s.CutOff, s.Heal},
		{"step the clock and back", step(time.Hour), step(0)},
	} {
		b.Run(pair.name, func(b *testing.B) {
			for b.Loop() {
				require.NoError(b, pair.inflict(b.Context()))
				require.NoError(b, pair.mend(b.Context()))
			}
		})
	}
}

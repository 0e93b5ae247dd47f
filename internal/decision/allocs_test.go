package decision_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/quorum"
)

var sink time.Duration

func TestNothingAllocates(t *testing.T) {
	instants := []time.Duration{5, 9, 7, 0, 3}
	for name, f := range map[string]func(){
		"tally": func() {
			tally := decision.NewTally(5, quorum.Majority().Need(5))
			for i := range 5 {
				tally.Record(i, decision.Granted)
				sink += time.Duration(tally.Result()) + time.Duration(tally.Vote(i))
			}
			if tally.Blocked() {
				sink++
			}
		},
		"rule":     func() { _ = quorum.AtLeast(4).Validate(5) },
		"validity": func() { sink = decision.ValidUntil(instants, 3) + decision.Expiry(sink, time.Second) },
		"backing":  func() { sink = time.Duration(decision.Backing(instants, 4)) },
		"renewal":  func() { sink = decision.NextRenewal(sink, time.Second, 3, 0.5) },
		"waiting": func() {
			sink = decision.Backoff(3, time.Millisecond, time.Second, 0.5) + decision.FreeAfter(instants, 1, 3)
		},
	} {
		require.Zero(t, testing.AllocsPerRun(100, f), name)
	}
}

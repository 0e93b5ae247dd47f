package election_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/election"
)

// TestValueLastsAsLongAsTheTerm: an election may have a longer MaxHold than its client.
func TestValueLastsAsLongAsTheTerm(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		w.cfg.MaxHold = 10 * time.Second
		e := w.candidate("a", announced, func(cfg *election.Config) { cfg.Lock.MaxHold = time.Hour })
		o := watch(t, w.candidate("observer", announced))
		term := start(t, e).leads()
		require.NoError(t, e.Proclaim(term.ctx, "at work"))
		sees(t, o, soon, leaderIs(term.Term, "at work"))
		time.Sleep(time.Minute)
		leader, err := e.Leader(t.Context())
		require.NoError(t, err)
		require.True(t, leaderIs(term.Term, "at work")(seen{leader: leader}))
		require.Empty(t, o, "the observer sees no gap")
	})
}

// TestLostValueComesBack: the lock of a value may be lost while the leader keeps its term.
func TestLostValueComesBack(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		e, other := w.candidate("a", announced), w.client()
		run := start(t, e)
		term := run.leads()
		lose := func() {
			t.Helper()
			for _, name := range []string{"office/value0", "office/value1"} {
				_, err := other.RedLock(name).ForceRelease(t.Context())
				require.NoError(t, err)
			}
		}
		value := func() string {
			t.Helper()
			leader, err := e.Leader(t.Context())
			require.NoError(t, err)
			require.Equal(t, term.Owner, leader.Owner)
			return leader.Value
		}
		require.NoError(t, e.Proclaim(term.ctx, "first"))
		for range 3 {
			lose()
			assert.Empty(t, value())
			time.Sleep(quorumlock.DefaultTTL)
			require.Equal(t, "first", value())
		}
		lose()
		require.NoError(t, e.Proclaim(term.ctx, "second"))
		time.Sleep(quorumlock.DefaultTTL)
		require.Equal(t, "second", value(), "a former value does not come back")
		lose()
		require.ErrorIs(t, run.stop(), context.Canceled, "Run does not wait for a value that is lost at its end")
	})
}

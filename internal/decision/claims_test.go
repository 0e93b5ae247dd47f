package decision_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/quorumlock/quorumlock/internal/decision"
)

// The rule of re-assertion: a confirmation of a recovering node counts only while this owner's
// claim there is active.
func TestRecoveringNodeConfirmsOnlyReassertions(t *testing.T) {
	const ttl = 10 * time.Second
	life := ttl - decision.Drift(ttl)
	for _, tc := range []struct {
		name       string
		before     time.Duration // when an earlier command was sent that was confirmed; 0 for none
		sent, now  time.Duration
		recovering bool
		counts     bool
		expiry     time.Duration
	}{
		{name: "a normal node grants", sent: time.Second, now: 2 * time.Second, counts: true, expiry: time.Second + life},
		{name: "a recovering node heals what it never had", sent: time.Second, now: 2 * time.Second, recovering: true},
		{name: "a recovering node keeps an active claim", before: time.Second, sent: 5 * time.Second, now: 6 * time.Second, recovering: true, counts: true, expiry: 5*time.Second + life},
		{name: "the claim ends just then", before: time.Second, sent: 5 * time.Second, now: time.Second + life, recovering: true, expiry: time.Second + life},
		{name: "the claim is active for another nanosecond", before: time.Second, sent: 5 * time.Second, now: time.Second + life - 1, recovering: true, counts: true, expiry: 5*time.Second + life},
		{name: "a late answer to an early command shortens nothing", before: 5 * time.Second, sent: time.Second, now: 6 * time.Second, counts: true, expiry: 5*time.Second + life},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := decision.NewClaims(3)
			if tc.before > 0 {
				require.True(t, c.Confirm(1, tc.before, ttl, tc.before, false))
			}
			require.Equal(t, tc.counts, c.Confirm(1, tc.sent, ttl, tc.now, tc.recovering))
			require.Equal(t, tc.expiry, c.Expiry(1))
			c.Drop(1)
			require.Zero(t, c.Expiry(1))
			require.False(t, c.Confirm(1, tc.sent, ttl, tc.now, true), "a dropped claim cannot be re-asserted")
		})
	}
}

// Claims behave as a plain slice with the functions of this package, on few nodes and on many.
func TestClaimsAgainstASlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "nodes")
		c, twin := decision.NewClaims(n), make([]time.Duration, n)
		now := time.Hour
		for range rapid.IntRange(0, 50).Draw(t, "steps") {
			i := rapid.IntRange(0, n-1).Draw(t, "node")
			now += time.Duration(rapid.IntRange(0, 1000).Draw(t, "passes")) * time.Millisecond
			if rapid.IntRange(0, 5).Draw(t, "what") == 0 {
				c.Drop(i)
				twin[i] = 0
				continue
			}
			sent := now - time.Duration(rapid.IntRange(0, 3000).Draw(t, "late"))*time.Millisecond
			const ttl = 2 * time.Second
			recovering := rapid.Bool().Draw(t, "recovering")
			counts := !recovering || twin[i] > now
			require.Equal(t, counts, c.Confirm(i, sent, ttl, now, recovering))
			if counts {
				twin[i] = max(twin[i], decision.Expiry(sent, ttl))
			}
		}
		require.Equal(t, n, c.Nodes())
		lapse := time.Duration(1<<63 - 1)
		for i, e := range twin {
			require.Equal(t, e, c.Expiry(i))
			if e > now {
				lapse = min(lapse, e)
			}
		}
		require.Equal(t, lapse, c.NextLapse(now))
		require.Equal(t, decision.Backing(twin, now), c.Backing(now))
		for need := range n + 2 {
			require.Equal(t, decision.ValidUntil(twin, need), c.ValidUntil(need))
		}
	})
}

package decision_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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

// Claims on few nodes need no memory of their own.
func TestClaimsOnFewAndOnManyNodes(t *testing.T) {
	ends := func(sent int) time.Duration { return decision.Expiry(time.Duration(sent)*time.Second, time.Minute) }
	for _, n := range []int{1, 4, 5, 6, 9} {
		c := decision.NewClaims(n)
		require.Equal(t, n, c.Nodes())
		require.Equal(t, decision.Never, c.NextLapse(0))
		for i := range n {
			sent := (i+n/2)%n + 1
			require.True(t, c.Confirm(i, time.Duration(sent)*time.Second, time.Minute, 0, false))
			require.Equal(t, ends(sent), c.Expiry(i))
		}
		require.Equal(t, ends(1), c.NextLapse(0))
		for sent := 1; sent <= n; sent++ {
			require.Equal(t, ends(sent), c.ValidUntil(n-sent+1))
			require.Equal(t, n-sent, c.Backing(ends(sent)))
		}
		require.Equal(t, decision.Never, c.NextLapse(ends(n)))
		require.Zero(t, c.ValidUntil(n+1))
		require.Zero(t, c.Backing(decision.Never))
		c.Drop(n - 1)
		require.Equal(t, n-1, c.Backing(-1), "a claim that there is not")
	}
}

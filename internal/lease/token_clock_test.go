package lease

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// clockOfTokens returns the token clock of a client with the default limits, and its wall clock.
func clockOfTokens() (*TokenClock, *testkit.Clock) {
	c := testkit.NewClock(time.UnixMicro(1_700_000_000_000_000))
	t := newTokenClock(c, wire.Limits{MaxTTL: 10 * time.Second, MaxClockSkew: time.Second}, time.Second)
	return &t, c
}

// at is the token of a time this far from now.
func at(c *testkit.Clock, ahead time.Duration) uint64 { return uint64(c.Wall().Add(ahead).UnixMicro()) }

// A token that a quorum told under one name moves the proposals for all names. The lead is the part that
// no block of tokens explains. It is gone after four times as long.
func TestTokenClockFollowsOthers(t *testing.T) {
	tokens, c := clockOfTokens()
	tokens.Follow(at(c, 410*time.Millisecond))
	require.Equal(t, at(c, 400*time.Millisecond), tokens.Propose([]string{"any"}, 0))
	require.Equal(t, at(c, 0), tokens.ProposeByClock([]string{"any"}, 0))
	require.EqualValues(t, at(c, 410*time.Millisecond), tokens.BlockEnd())
	c.Advance(800 * time.Millisecond)
	require.Equal(t, at(c, 200*time.Millisecond), tokens.Propose([]string{"any"}, 0))
	require.Equal(t, at(c, time.Second)+1, tokens.Propose([]string{"any"}, at(c, time.Second)))
	tokens.Follow(at(c, 110*time.Millisecond))
	require.Equal(t, at(c, 200*time.Millisecond), tokens.Propose([]string{"any"}, 0), "a smaller lead takes nothing away")
	c.Advance(799 * time.Millisecond)
	require.Equal(t, at(c, 250*time.Microsecond), tokens.Propose([]string{"any"}, 0))
	c.Advance(time.Millisecond)
	require.Equal(t, at(c, 0), tokens.Propose([]string{"any"}, 0))
	require.EqualValues(t, at(c, 10*time.Millisecond), tokens.BlockEnd())
}

// A lead does not come from the end of a block, from a token that no sound node takes, or from the past.
// It leaves room below MaxClockSkew, and ends when a node refuses a token.
func TestTokenClockFollowsWithinBounds(t *testing.T) {
	tokens, c := clockOfTokens()
	for _, ahead := range []time.Duration{-time.Hour, -1, 0, time.Microsecond, 10 * time.Millisecond, 11 * time.Second, time.Hour} {
		tokens.Follow(at(c, ahead))
		require.Equal(t, at(c, 0), tokens.Propose([]string{"any"}, 0), "%v", ahead)
	}
	tokens.Follow(0)
	tokens.Follow(1<<64 - 1)
	require.Equal(t, at(c, 0), tokens.Propose([]string{"any"}, 0))

	tokens.Follow(at(c, 5*time.Second))
	require.Equal(t, at(c, 865*time.Millisecond), tokens.Propose([]string{"any"}, 0))
	require.LessOrEqual(t, uint64(tokens.BlockEnd())+uint64(tokens.margin(0, time.Hour).Microseconds()), at(c, time.Second))
	tokens.Unfollow()
	require.Equal(t, at(c, 0), tokens.Propose([]string{"any"}, 0))
}

// Clients that follow each other do not drift away from their clocks: a lead that no clock causes vanishes.
func TestTokenClocksDoNotDriveEachOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, c := clockOfTokens()
		b := newTokenClock(c, wire.Limits{MaxTTL: 10 * time.Second, MaxClockSkew: time.Second}, time.Second)
		tokens := []*TokenClock{a, &b}
		a.Follow(at(c, time.Duration(rapid.IntRange(0, 900).Draw(t, "ms"))*time.Millisecond))
		var place uint64
		for i := range 4000 {
			c.Advance(time.Millisecond)
			x := tokens[i%2]
			name := []string{fmt.Sprint(i)} // new names of one place
			token := x.Propose(name, 0)
			if token <= place {
				x.Follow(place)
				token = x.Propose(name, place)
			}
			place = max(token, uint64(x.BlockEnd()))
		}
		require.LessOrEqual(t, place, at(c, 11*time.Millisecond))
	})
}

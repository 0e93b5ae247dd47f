package lease

import (
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// TokenClock proposes fencing tokens. A proposal is the time in microseconds, unless the client has
// seen larger tokens. A larger one comes from a client whose clock is ahead, or from the same
// microsecond.
//
// Nodes keep one token for all names that share a place. So a client whose clock is behind may be
// outbid under any name. A token that a quorum of nodes told under one name therefore moves this clock
// ahead for all names, by its lead. The lead shrinks with time, as the other clock may be set right.
type TokenClock struct {
	clock clock.Clock
	// maxAhead bounds how far ahead of this clock a plausible token is. A larger token comes from a
	// broken node, and a higher proposal would not help.
	maxAhead time.Duration
	// maxLead bounds the lead. blockAhead is how far the end of a block of tokens may be ahead of
	// this clock: it is no sign that the clock of another client is ahead.
	maxLead, blockAhead time.Duration
	// freshness is how long a proposal counts as the current time.
	freshness time.Duration

	mu sync.Mutex
	// seenAhead has, by name, the largest token seen. An entry is useful only until the clock has
	// passed it. Most clients never have one.
	seenAhead map[string]uint64
	// sweepAt is the number of names at which useless entries are swept.
	sweepAt int
	// lead is how far the tokens of other clients were ahead of this clock at leadAt, by the clock
	// that counts suspends. Most clients have none.
	lead, leadAt time.Duration
}

const (
	// minSweep is the least number of names for which a sweep is worth its cost.
	minSweep = 64
	// leadDecay is by which part of the elapsed time a lead shrinks. A client whose clock stays
	// behind learns its lead anew at its next second token round.
	leadDecay = 4
)

// maxBlockAhead bounds how far a reserved token block may run ahead of the time that the client proposes,
// which is its clock plus its lead. The proposal of the next contender, a later time, must be larger.
const maxBlockAhead = 10 * time.Millisecond

// newTokenClock returns the token clock of a client with these limits, whose nodes answer within the timeout.
func newTokenClock(c clock.Clock, l wire.Limits, timeout time.Duration) TokenClock {
	ahead := min(maxBlockAhead, l.MaxClockSkew/4)
	return TokenClock{
		clock:      c,
		maxAhead:   l.Recovery(),
		blockAhead: ahead,
		// Nodes refuse a token, and the end of a block, more than MaxClockSkew ahead of their clocks.
		maxLead:   l.MaxClockSkew - l.MaxClockSkew/8 - ahead,
		freshness: max(l.MaxClockSkew, 2*timeout),
	}
}

// Now returns the time in microseconds, by the wall clock.
func (t *TokenClock) Now() int64 { return t.clock.Wall().UnixMicro() }

// Propose returns a token for these names that is larger than seen. It is not below the tokens that
// other clients propose at this time, if this client has learned of them.
func (t *TokenClock) Propose(names []string, seen uint64) uint64 {
	now := t.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	return decision.NextToken(now+t.leadLocked().Microseconds(), t.largestLocked(names, seen, now))
}

// ProposeByClock is Propose without the lead, for latches: a late operation on a latch has no effect on
// a later generation only if its token is not ahead of the clock.
func (t *TokenClock) ProposeByClock(names []string, seen uint64) uint64 {
	now := t.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	return decision.NextToken(now, t.largestLocked(names, seen, now))
}

// largestLocked returns the largest plausible token of these names, or seen if that is larger.
// Requires t.mu.
func (t *TokenClock) largestLocked(names []string, seen uint64, now int64) uint64 {
	if len(t.seenAhead) > 0 {
		for _, name := range names {
			if token := t.seenAhead[name]; t.Plausible(token, now) {
				seen = max(seen, token)
			}
		}
	}
	return seen
}

// leadLocked returns the lead now. Requires t.mu.
func (t *TokenClock) leadLocked() time.Duration {
	if t.lead == 0 {
		return 0
	}
	left := t.lead - (t.clock.Now()-t.leadAt)/leadDecay
	if left <= 0 {
		t.lead = 0
	}
	return max(left, 0)
}

// Follow records a token that a quorum of nodes requires the client to exceed, whatever its name is.
// A single node, whose clock may be wrong, must not be followed.
func (t *TokenClock) Follow(token uint64) {
	now := t.Now()
	if token <= uint64(max(now, 0)) || !t.Plausible(token, now) {
		return
	}
	lead := time.Duration(token-uint64(max(now, 0)))*time.Microsecond - t.blockAhead
	t.mu.Lock()
	defer t.mu.Unlock()
	if lead = min(lead, t.maxLead); lead > t.leadLocked() {
		t.lead, t.leadAt = lead, t.clock.Now()
	}
}

// Unfollow forgets the lead, as a node refused a token as too far from its clock.
func (t *TokenClock) Unfollow() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lead = 0
}

// margin returns how far a proposal should be ahead of a token that nodes told, if other names raise
// the place all the time. round is how long the last fan-out took, and attempt how long all of them
// took.
//
// The tokens of others grow as fast as time passes. So a proposal that is ahead by a round is, when it
// arrives, as far ahead of the node's clock as the other token was. The rest outbids proposals that
// arrive at about the same time. Others follow it, so it is less than leads shrink in an attempt.
func (t *TokenClock) margin(round, attempt time.Duration) time.Duration {
	return min(max(round, 0), t.maxLead/2) + min(max(attempt, 0)/(2*leadDecay), t.maxLead/16)
}

// BlockEnd returns the largest token that a block may have as its end now, in microseconds.
func (t *TokenClock) BlockEnd() int64 {
	end := t.Now() + t.blockAhead.Microseconds()
	t.mu.Lock()
	defer t.mu.Unlock()
	return end + t.leadLocked().Microseconds()
}

// IsCurrent reports whether a token is the time, or was within freshness. If a node rejects another
// token, this clock may still be right.
func (t *TokenClock) IsCurrent(token uint64) bool {
	now := uint64(max(t.Now(), 0))
	return token <= now && now-token <= uint64(t.freshness.Microseconds())
}

// Observe records a token of these names.
func (t *TokenClock) Observe(token uint64, names ...string) {
	now := max(t.Now(), 0)
	if token < uint64(now) || !t.Plausible(token, now) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.seenAhead) >= max(t.sweepAt, minSweep) {
		t.sweep(now)
	}
	if t.seenAhead == nil {
		t.seenAhead = make(map[string]uint64)
	}
	for _, name := range names {
		t.seenAhead[name] = max(t.seenAhead[name], token)
	}
}

// Plausible reports whether a node can have accepted a token. The answer may change: this clock may
// be set back.
func (t *TokenClock) Plausible(token uint64, now int64) bool {
	return token < uint64(max(now, 0)+t.maxAhead.Microseconds())
}

// sweep deletes entries that the clock has passed. It runs when the number of names has doubled, so
// the cost per name is small. Requires t.mu.
func (t *TokenClock) sweep(now int64) {
	for name, token := range t.seenAhead {
		if token < uint64(now) {
			delete(t.seenAhead, name)
		}
	}
	t.sweepAt = 2 * len(t.seenAhead)
}

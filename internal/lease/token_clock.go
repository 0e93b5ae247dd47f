package lease

import (
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/quorum"
)

// TokenClock proposes fencing tokens. A proposal is the time in microseconds, unless the client has
// seen a larger token of the name. A larger one comes from a client whose clock is ahead, or from
// the same microsecond.
type TokenClock struct {
	clock clock.Clock
	// maxAhead bounds how far ahead of this clock a plausible token is. A larger token comes from a
	// broken node, and a higher proposal would not help.
	maxAhead time.Duration
	// freshness is how long a proposal counts as the current time.
	freshness time.Duration

	mu sync.Mutex
	// seenAhead has, by name, the largest token seen. An entry is useful only until the clock has
	// passed it. Most clients never have one.
	seenAhead map[string]uint64
	// sweepAt is the number of names at which useless entries are swept.
	sweepAt int
}

// minSweep is the least number of names for which a sweep is worth its cost.
const minSweep = 64

// Now returns the time in microseconds, by the wall clock.
func (t *TokenClock) Now() int64 { return t.clock.Wall().UnixMicro() }

// Propose returns a token for these names that is larger than seen.
func (t *TokenClock) Propose(names []string, seen uint64) uint64 {
	now := t.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.seenAhead) > 0 {
		for _, name := range names {
			if token := t.seenAhead[name]; t.Plausible(token, now) {
				seen = max(seen, token)
			}
		}
	}
	return quorum.NextToken(now, seen)
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

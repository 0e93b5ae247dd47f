package quorumlock

import (
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/quorum"
)

// tokenClock proposes fencing tokens. A proposal is the time, unless a larger token of the
// name has been seen: of a client whose clock is ahead, or of this microsecond.
type tokenClock struct {
	clock clock.Clock
	// maxAhead is how far ahead of this clock a token can be that a node took: one that is
	// further comes from a node that is broken, and to outbid it would help nobody.
	maxAhead time.Duration
	// freshness is how long after it was made a proposal counts as the time.
	freshness time.Duration

	mu sync.Mutex
	// seenAhead has, by name, the largest token seen, as long as the clock has not passed
	// it: after that it is of no use. Most clients never see one.
	seenAhead map[string]uint64
	// sweepAt is how many names there may be before those of no use are thrown out.
	sweepAt int
}

// minSweep is from how many names on it is worth looking for those of no use.
const minSweep = 64

func (t *tokenClock) now() int64 { return t.clock.Wall().UnixMicro() }

// propose makes a token for these names that is larger than seen.
func (t *tokenClock) propose(names []string, seen uint64) uint64 {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.seenAhead) > 0 {
		for _, name := range names {
			if token := t.seenAhead[name]; t.plausible(token, now) {
				seen = max(seen, token)
			}
		}
	}
	return quorum.NextToken(now, seen)
}

// isCurrent reports whether a token is the time, or was a moment ago. If a node refuses one
// that is not, this clock may be right all the same.
func (t *tokenClock) isCurrent(token uint64) bool {
	now := uint64(max(t.now(), 0))
	return token <= now && now-token <= uint64(t.freshness.Microseconds())
}

// observe notes a token of a name.
func (t *tokenClock) observe(token uint64, names ...string) {
	now := max(t.now(), 0)
	if token < uint64(now) || !t.plausible(token, now) {
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

// plausible reports whether a node can have taken a token. It need not be for ever: this
// clock may be set back.
func (t *tokenClock) plausible(token uint64, now int64) bool {
	return token < uint64(max(now, 0)+t.maxAhead.Microseconds())
}

// sweep throws out what the clock has passed. As it is done when the number of names has
// doubled, it costs each of them little.
func (t *tokenClock) sweep(now int64) {
	for name, token := range t.seenAhead {
		if token < uint64(now) {
			delete(t.seenAhead, name)
		}
	}
	t.sweepAt = 2 * len(t.seenAhead)
}

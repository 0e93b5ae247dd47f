package quorumlock

import (
	"context"
	"time"
)

// lease is the time during which one holder has a hold. Its leases are nested in each
// other. Most holds have one tenure; where they are handed over, one begins as the one
// before ends.
type lease struct {
	grant *grant
	// lock is what its holder asked for: the names are those of the hold.
	lock      *Lock
	token     uint64
	grantedAt time.Duration

	// What follows is guarded by the mutex of the hold.

	// ctx ends with it; nil until somebody asks for it: most leases are released before.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// handles counts its leases, leaked is set when the last of them was collected without
	// a Release, and over is why it has ended; until is the end that was known by then.
	handles         int32
	leaked          bool
	endCause        error
	endedValidUntil time.Duration

	// jointLeases are the joint leases that it is part of, nil if there is none.
	jointLeases *jointLeases
}

// start begins one with a single lease. The mutex of the hold is held.
func (t *lease) start(h *grant, l *Lock, token uint64, now time.Duration) {
	t.grant, t.lock, t.token, t.grantedAt, t.handles = h, l, token, now, 1
	h.lease = t
}

// context is one that ends with it.
func (t *lease) context() context.Context {
	t.grant.mu.Lock()
	defer t.grant.mu.Unlock()
	if t.ctx == nil {
		t.ctx, t.cancel = context.WithCancelCause(context.Background())
	}
	if over := t.overAt(t.grant.client.clock.Now()); over != nil {
		t.cancel(over)
	}
	return t.ctx
}

// end ends it, for a reason. The mutex of the hold is held.
func (t *lease) end(cause error) {
	t.endCause, t.endedValidUntil = cause, min(t.grant.validUntil, t.holdLimit())
	if t.cancel != nil {
		t.cancel(cause)
	}
	t.jointLeases.markEnded(cause)
}

// releaseHandle counts down the leases, and reports whether none is left.
func (t *lease) releaseHandle() bool {
	t.grant.mu.Lock()
	defer t.grant.mu.Unlock()
	t.handles--
	return t.handles == 0
}

// retainHandle counts one more lease, unless it is over.
func (t *lease) retainHandle() bool {
	t.grant.mu.Lock()
	defer t.grant.mu.Unlock()
	if t.overAt(t.grant.client.clock.Now()) != nil || t.handles == 0 {
		return false
	}
	t.handles++
	return true
}

// err says why it is over, also where its time is up and the scheduler has not come round
// to it yet.
func (t *lease) err() error { return t.errAt(t.grant.client.clock.Now()) }

// errAt is err for somebody who has just looked at the clock.
func (t *lease) errAt(now time.Duration) error {
	t.grant.mu.Lock()
	defer t.grant.mu.Unlock()
	return t.overAt(now)
}

// overAt is errAt with the mutex of the hold held.
func (t *lease) overAt(now time.Duration) error {
	switch {
	case t.endCause != nil:
		return t.endCause
	case t.reachedLimit(now):
		return ErrHoldLimit
	case now >= t.grant.validUntil:
		return t.grant.expiredError("its time ran out")
	default:
		return nil
	}
}

// expiry is its end by local time, as far as it is known now, or was when it ended: what the
// next who has the hold adds to it is not its own.
func (t *lease) expiry() time.Duration {
	t.grant.mu.Lock()
	defer t.grant.mu.Unlock()
	if t.endCause != nil {
		return t.endedValidUntil
	}
	return min(t.grant.validUntil, t.holdLimit())
}

// reachedLimit reports whether it has reached its hold limit, and was valid until then. The mutex
// of the hold is held.
func (t *lease) reachedLimit(now time.Duration) bool {
	limit := t.holdLimit()
	return now >= limit && limit <= t.grant.validUntil
}

// holdLimit is when its hold limit is reached.
func (t *lease) holdLimit() time.Duration {
	if t.lock.maxHold == 0 {
		return never
	}
	return addTime(t.grantedAt, t.lock.maxHold)
}

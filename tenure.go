package quorumlock

import (
	"context"
	"time"
)

// tenure is the time during which one holder has a hold. Its leases are nested in each
// other. Most holds have one tenure; where they are handed over, one begins as the one
// before ends.
type tenure struct {
	hold *hold
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
	handles int32
	leaked  bool
	over    error
	until   time.Duration

	// joints are the joint leases that it is part of, nil if there is none.
	joints *joints
}

// begin begins one with a single lease. The mutex of the hold is held.
func (t *tenure) begin(h *hold, l *Lock, token uint64, now time.Duration) {
	t.hold, t.lock, t.token, t.grantedAt, t.handles = h, l, token, now, 1
	h.tenure = t
}

// context is one that ends with it.
func (t *tenure) context() context.Context {
	t.hold.mu.Lock()
	defer t.hold.mu.Unlock()
	if t.ctx == nil {
		t.ctx, t.cancel = context.WithCancelCause(context.Background())
	}
	if over := t.overAt(t.hold.client.clock.Now()); over != nil {
		t.cancel(over)
	}
	return t.ctx
}

// end ends it, for a reason. The mutex of the hold is held.
func (t *tenure) end(cause error) {
	t.over, t.until = cause, min(t.hold.validUntil, t.limit())
	if t.cancel != nil {
		t.cancel(cause)
	}
	t.joints.end(cause)
}

// dropHandle counts down the leases, and reports whether none is left.
func (t *tenure) dropHandle() bool {
	t.hold.mu.Lock()
	defer t.hold.mu.Unlock()
	t.handles--
	return t.handles == 0
}

// addHandle counts one more lease, unless it is over.
func (t *tenure) addHandle() bool {
	t.hold.mu.Lock()
	defer t.hold.mu.Unlock()
	if t.overAt(t.hold.client.clock.Now()) != nil || t.handles == 0 {
		return false
	}
	t.handles++
	return true
}

// err says why it is over, also where its time is up and the scheduler has not come round
// to it yet.
func (t *tenure) err() error { return t.errAt(t.hold.client.clock.Now()) }

// errAt is err for somebody who has just looked at the clock.
func (t *tenure) errAt(now time.Duration) error {
	t.hold.mu.Lock()
	defer t.hold.mu.Unlock()
	return t.overAt(now)
}

// overAt is errAt with the mutex of the hold held.
func (t *tenure) overAt(now time.Duration) error {
	switch {
	case t.over != nil:
		return t.over
	case t.reachedLimit(now):
		return ErrHoldLimit
	case now >= t.hold.validUntil:
		return t.hold.lost("its time ran out")
	default:
		return nil
	}
}

// lasts is its end by local time, as far as it is known now, or was when it ended: what the
// next who has the hold adds to it is not its own.
func (t *tenure) lasts() time.Duration {
	t.hold.mu.Lock()
	defer t.hold.mu.Unlock()
	if t.over != nil {
		return t.until
	}
	return min(t.hold.validUntil, t.limit())
}

// reachedLimit reports whether it has reached its hold limit, and was valid until then. The mutex
// of the hold is held.
func (t *tenure) reachedLimit(now time.Duration) bool {
	limit := t.limit()
	return now >= limit && limit <= t.hold.validUntil
}

// limit is when its hold limit is reached.
func (t *tenure) limit() time.Duration {
	if t.lock.maxHold == 0 {
		return never
	}
	return after(t.grantedAt, t.lock.maxHold)
}

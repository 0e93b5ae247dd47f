package quorumlock

import (
	"context"
	"slices"
)

// leaseContext is a context that knows which lease it belongs to. Go has no identity
// of threads, so this is how ownership travels: whoever has the context acts for the
// holder. It ends as the embedded context does, and has the values of another
// besides its own, if there is another.
type leaseContext struct {
	context.Context
	values context.Context
	lease  *Lease
}

// heldKey asks a context for the lease on a name of a client.
type heldKey struct {
	client *Client
	name   string
}

// tokenKey asks a context for the token of a name of a client, whether the lease is still
// valid or not: a resource can tell.
type tokenKey heldKey

// Token is the fencing token of the lease on this lock that ctx carries: the context that Do
// gives its function, or one with a [Lease.Context] in it. It is ok also when the lease has
// ended since, and not if ctx never held all of the lock in one lease.
func (l *Lock) Token(ctx context.Context) (token uint64, ok bool) {
	if ctx == nil || len(l.names) == 0 {
		return 0, false
	}
	var owner *hold
	for i, name := range l.names {
		h, held := ctx.Value(tokenKey{l.client, name}).(*hold)
		if !held || i > 0 && h != owner {
			return 0, false
		}
		owner = h
	}
	return owner.token, true
}

// Value answers for the names that the lease holds. Else it looks in the context that
// it ends with first: that is where package context finds the cancellation, and so
// makes children without a goroutine.
func (c leaseContext) Value(key any) any {
	if k, ok := key.(heldKey); ok && c.lease.hold.covers(k) {
		return c.lease.hold
	}
	if k, ok := key.(tokenKey); ok && c.lease.hold.names(heldKey(k)) {
		return c.lease.hold
	}
	if v := c.Context.Value(key); v != nil {
		return v
	}
	if c.values == nil {
		return nil
	}
	return c.values.Value(key)
}

// covers reports whether the hold is on that name, and still valid.
func (h *hold) covers(k heldKey) bool { return h.names(k) && h.err() == nil }

// names reports whether the hold is, or was, on that name.
func (h *hold) names(k heldKey) bool {
	return h.client == k.client && slices.Contains(h.lock.names, k.name)
}

// nested is a lease on what the context holds already; nil if it holds nothing of the
// lock. It needs all the names in one lease, under a rule at least as strict: anything
// else would have the caller wait for itself.
func (l *Lock) nested(ctx context.Context) (*Lease, error) {
	var owner *hold
	for i, name := range l.names {
		h, _ := ctx.Value(heldKey{l.client, name}).(*hold)
		if i > 0 && h != owner {
			return nil, ErrOverlap
		}
		owner = h
	}
	switch {
	case owner == nil:
		return nil, nil //nolint:nilnil // no lease and no reason against one
	case owner.lock.need < l.need:
		return nil, ErrOverlap
	case !owner.addHandle():
		return nil, nil //nolint:nilnil // it ended this instant
	}
	return newLease(ctx, owner), nil
}

// addHandle counts one more lease that shares the hold, unless it is over.
func (h *hold) addHandle() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase != held || h.client.clock.Now() >= h.validUntil || h.handles == 0 {
		return false
	}
	h.handles++
	return true
}

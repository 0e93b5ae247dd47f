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

// anyKey asks a context whether it carries any lease. Most do not, and to find that out costs
// nothing.
type anyKey struct{}

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
	var owner *lease
	for i, name := range l.names {
		t, held := ctx.Value(tokenKey{l.client, name}).(*lease)
		if !held || i > 0 && t != owner {
			return 0, false
		}
		owner = t
	}
	return owner.token, true
}

// Value answers for the names that the lease holds. Else it looks in the context that
// it ends with first: that is where package context finds the cancellation, and so
// makes children without a goroutine.
func (c leaseContext) Value(key any) any {
	if v := c.lease.contextValue(key); v != nil {
		return v
	}
	if v := c.Context.Value(key); v != nil {
		return v
	}
	if c.values == nil {
		return nil
	}
	return c.values.Value(key)
}

// contextValue is what a lease itself has to say to a context that is asked.
func (l *Lease) contextValue(key any) any {
	t := l.lease
	switch k := key.(type) {
	case anyKey:
		return l
	case *permitQuery:
		k.count(t) // and on to those that it is within
	case heldKey:
		if t.isValidFor(k) {
			return t
		}
	case tokenKey:
		if t.isFor(heldKey(k)) {
			return t
		}
	}
	return nil
}

// isValidFor reports whether it is a tenure of that name, and still valid.
func (t *lease) isValidFor(k heldKey) bool { return t.isFor(k) && t.err() == nil }

// isFor reports whether it is, or was, a tenure of that name.
func (t *lease) isFor(k heldKey) bool {
	return t.grant.client == k.client && slices.Contains(t.lock.names, k.name)
}

// nestedLease is a lease on what the context holds already; nil if it holds nothing of the
// lock. It needs all the names in one lease, under a rule at least as strict: anything
// else would have the caller wait for itself.
func (l *Lock) nestedLease(ctx context.Context) (*Lease, error) {
	if l.slots != nil {
		if l.wouldSelfDeadlock(ctx) {
			return nil, ErrOverlap
		}
		return nil, nil //nolint:nilnil // each acquisition takes permits of its own
	}
	if ctx.Value(anyKey{}) == nil {
		return nil, nil //nolint:nilnil // see below
	}
	var owner *lease
	for i, name := range l.names {
		t, _ := ctx.Value(heldKey{l.client, name}).(*lease)
		if i > 0 && t != owner {
			return nil, ErrOverlap
		}
		owner = t
	}
	switch {
	case owner == nil:
		return nil, nil //nolint:nilnil // no lease and no reason against one
	case owner.lock.need < l.need:
		return nil, ErrOverlap
	case !l.shared && owner.reads():
		return nil, ErrUpgrade
	case !owner.retainHandle():
		return nil, nil //nolint:nilnil // it ended this instant
	}
	return newLease(ctx, owner), nil
}

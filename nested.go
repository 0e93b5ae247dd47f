package quorumlock

import (
	"context"
	"slices"

	"github.com/quorumlock/quorumlock/internal/lease"
)

// leaseContext is a context that carries a lease or a joint lease. Go has no thread identity, so
// ownership travels in the context: code with the context acts for the holder. It ends as the
// embedded context does, and has the values of another context besides its own, unless values is nil.
type leaseContext struct {
	context.Context
	values context.Context
	lease  heldLease
}

// anyKey asks a context whether it carries any lease. Most carry none, so this one query saves one
// query per name.
type anyKey struct{}

// heldKey asks a context for the lease on a name of a client.
type heldKey struct {
	client *Client
	name   string
}

// tokenKey asks a context for the token of a name of a client. The lease may be over: a resource
// rejects a stale token.
type tokenKey heldKey

// Token returns the fencing token of the lease on this lock that ctx carries. That is the context
// that Do passes to its function, or one derived from a [Lease.Context]. The result ok is true
// even if the lease has ended since. It is false if ctx never held all names of the lock in one
// lease.
func (l *Lock) Token(ctx context.Context) (token uint64, ok bool) {
	if ctx == nil || len(l.spec.Names) == 0 {
		return 0, false
	}
	var owner *lease.Lease
	for i, name := range l.spec.Names {
		t, held := ctx.Value(tokenKey{l.client, name}).(*lease.Lease)
		if !held || i > 0 && t != owner {
			return 0, false
		}
		owner = t
	}
	return owner.Token(), true
}

// Value asks the lease first, then the embedded context, then values. Package context finds the
// cancellation in the embedded context, and so makes children without a goroutine.
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

// contextValue implements heldLease.
func (l *Lease) contextValue(key any) any {
	t := l.lease
	switch k := key.(type) {
	case anyKey:
		return l
	case *permitQuery:
		k.count(t) // the query goes on to the outer leases
	case heldKey:
		if k.has(t) && t.Err() == nil {
			return t
		}
	case tokenKey:
		if heldKey(k).has(t) {
			return t
		}
	}
	return nil
}

// has reports whether a lease has that name, even if the lease is over.
func (k heldKey) has(l *lease.Lease) bool {
	return l.Engine() == k.client.engine && slices.Contains(l.Spec().Names, k.name)
}

// nestedLease returns a nested lease if the context holds the lock already, or nil if it holds none
// of its names. One lease must have all the names, under a rule at least as strict. Otherwise
// nestedLease fails: the caller would wait for itself.
func (l *Lock) nestedLease(ctx context.Context) (*Lease, error) {
	if l.spec.Slots != nil {
		if l.wouldSelfDeadlock(ctx) {
			return nil, ErrOverlap
		}
		return nil, nil //nolint:nilnil // each acquisition takes permits of its own
	}
	if ctx.Value(anyKey{}) == nil {
		return nil, nil //nolint:nilnil // no lease, and no reason against one
	}
	var owner *lease.Lease
	for i, name := range l.spec.Names {
		t, _ := ctx.Value(heldKey{l.client, name}).(*lease.Lease)
		if i > 0 && t != owner {
			return nil, ErrOverlap
		}
		owner = t
	}
	switch {
	case owner == nil:
		return nil, nil //nolint:nilnil // no lease, and no reason against one
	case owner.Spec().Need < l.spec.Need:
		return nil, ErrOverlap
	}
	switch ok, isReader := owner.AddHandle(l.spec.Reads); {
	case isReader:
		return nil, errUpgrade
	case !ok:
		return nil, nil //nolint:nilnil // it ended this instant
	}
	nested := newLease(ctx, owner)
	nested.nested = true
	return nested, nil
}

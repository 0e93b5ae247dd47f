package chaos

import (
	"context"
	"fmt"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/faultinject/history"
)

// had is what an acquisition has given a worker: a lease, or several that are held together.
// Whatever is recorded of it is recorded of each of its parts.
type had struct {
	parts   []*history.Holding
	err     func() error
	release func(context.Context) error
	// badges are what it shows to the resource.
	badges []badge
	// downgrade has a writer become a reader; nil for all others.
	downgrade func(context.Context) error
	// keepLost has the worker not give back what it has lost.
	keepLost bool
}

// badge is the token of a thing, and what it is shown for.
type badge struct {
	verb, name string
	token      uint64
}

// leased is a lease of one thing.
func leased(held *history.Holding, lease *quorumlock.Lease, badges ...badge) *had {
	return &had{parts: []*history.Holding{held}, err: lease.Err, release: lease.Release, badges: badges}
}

// slotBadges are those of permits. Each permit is a thing of its own.
func slotBadges(semaphore string, slots []int, token uint64) []badge {
	all := make([]badge, len(slots))
	for i, slot := range slots {
		all[i] = badge{write, fmt.Sprintf("%s#%d", semaphore, slot), token}
	}
	return all
}

// each has a call recorded as something that befell every part.
func (h *had) each(record func(part *history.Holding, call func() error) error, call func() error) error {
	for _, part := range h.parts {
		inner := call
		call = func() error { return record(part, inner) }
	}
	return call()
}

// act looks whether it is valid.
func (h *had) act() error { return h.each((*history.Holding).Act, h.err) }

// give gives it back.
func (h *had) give(ctx context.Context) {
	_ = h.each((*history.Holding).Release, func() error { return h.release(ctx) })
}

// lost notes that it has ended by itself.
func (h *had) lost(cause error) {
	for _, part := range h.parts {
		part.Lost(cause)
	}
}

// read has a writer become a reader, who shows its badges as one.
func (h *had) read(ctx context.Context) error {
	err := h.each((*history.Holding).Downgrade, func() error { return h.downgrade(ctx) })
	for i := range h.badges {
		h.badges[i].verb = read
	}
	return err
}

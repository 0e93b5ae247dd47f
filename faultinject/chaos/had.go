package chaos

import (
	"context"
	"fmt"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/faultinject/history"
)

// had is the result of an acquisition: a lease, or several joint ones. Each recorded event is recorded for each part.
type had struct {
	parts   []*history.Holding
	err     func() error
	release func(context.Context) error
	// badges are the tokens that the worker shows to the resource.
	badges []badge
	// downgrade turns a writer into a reader; nil for all others.
	downgrade func(context.Context) error
	// keepLost keeps the worker from releasing a lost lease.
	keepLost bool
}

// badge is a token of an object, and the purpose for which it is shown.
type badge struct {
	verb, name string
	token      uint64
}

// leased is a lease of one thing.
func leased(held *history.Holding, lease *quorumlock.Lease, badges ...badge) *had {
	return &had{parts: []*history.Holding{held}, err: lease.Err, release: lease.Release, badges: badges}
}

// slotBadges are the badges of permits. Each permit is an object of its own.
func slotBadges(semaphore string, slots []int, token uint64) []badge {
	all := make([]badge, len(slots))
	for i, slot := range slots {
		all[i] = badge{write, fmt.Sprintf("%s#%d", semaphore, slot), token}
	}
	return all
}

// each records a call for every part.
func (h *had) each(record func(part *history.Holding, call func() error) error, call func() error) error {
	for _, part := range h.parts {
		inner := call
		call = func() error { return record(part, inner) }
	}
	return call()
}

// act checks and records whether the lease is valid.
func (h *had) act() error { return h.each((*history.Holding).Act, h.err) }

// give releases the lease.
func (h *had) give(ctx context.Context) {
	_ = h.each((*history.Holding).Release, func() error { return h.release(ctx) })
}

// lost records that the lease has ended by itself.
func (h *had) lost(cause error) {
	for _, part := range h.parts {
		part.Lost(cause)
	}
}

// read turns a writer into a reader, which shows its badges as one.
func (h *had) read(ctx context.Context) error {
	err := h.each((*history.Holding).Downgrade, func() error { return h.downgrade(ctx) })
	for i := range h.badges {
		h.badges[i].verb = read
	}
	return err
}

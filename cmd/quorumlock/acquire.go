package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/cmd/internal/child"
	"github.com/quorumlock/quorumlock/cmd/internal/exit"
	"github.com/quorumlock/quorumlock/cmd/internal/text"
	"github.com/quorumlock/quorumlock/node"
)

type acquired struct {
	lease *lease
	err   error
}

// waitNotice is how long a failed attempt goes unmentioned. Most shorter waits need no message, and neither do
// failures that end the waiting at once.
const waitNotice = 100 * time.Millisecond

// acquire waits for the lock until --wait is over, a signal arrives, or it finds that it waits for itself.
func (h *holder) acquire(ctx context.Context) (*lease, error) {
	ctx, cancel := h.waitContext(ctx)
	defer cancel()
	outcome := make(chan acquired, 1)
	go func() { outcome <- h.take(ctx) }()
	notice := child.NewAlarm()
	defer notice.Stop()
	var ended os.Signal
	var why, itself error
	noticed := make(map[bool]bool) // by whether it is a matter for advice
	for {
		select {
		case attempt := <-h.rounds.failed:
			why = attempt.Err
			if advised := text.Advice(why) != ""; !noticed[advised] {
				noticed[advised] = true
				notice.Set(waitNotice)
			}
			if itself == nil {
				itself = h.waitsForItself(ctx, attempt.Err)
			}
			if itself != nil {
				cancel()
			}
		case <-notice.Rings:
			h.sayWaiting(why)
		case sig := <-h.signals:
			if slices.Contains(exit.Ending, sig) { // others are for the command
				ended = sig
				cancel()
			}
		case got := <-outcome:
			if got.err != nil && ended == nil && itself != nil {
				return nil, itself
			}
			return h.settle(ctx, got, ended)
		}
	}
}

func (h *holder) take(ctx context.Context) acquired {
	take := h.locks.Acquire
	if h.triesOnce() {
		take = h.locks.TryAcquire
	}
	joint, err := take(ctx)
	if err != nil {
		return acquired{err: err}
	}
	return acquired{lease: &lease{joint.Leases()[0], joint}}
}

// waitContext bounds the wait. A single attempt is bounded by the nodes' timeouts.
func (h *holder) waitContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if h.flags.waits && !h.triesOnce() {
		return context.WithTimeout(ctx, h.flags.wait)
	}
	return context.WithCancel(ctx)
}

// triesOnce reports whether the command gives up after one attempt.
func (h *holder) triesOnce() bool { return h.flags.waits && h.flags.wait == 0 }

// settle interprets the outcome. A lease that arrives together with a signal is released.
func (h *holder) settle(ctx context.Context, got acquired, ended os.Signal) (*lease, error) {
	switch {
	case ended != nil:
		if got.lease != nil {
			got.lease.WaiveMinHold() // no command has run
			h.release(ctx, got.lease)
		}
		return nil, exit.Errorf(exit.OfSignal(ended), "%v while waiting for the lock", ended)
	case got.err == nil:
		return got.lease, nil
	case errors.Is(got.err, context.DeadlineExceeded):
		return nil, h.timeUp(got.err)
	default:
		return nil, got.err
	}
}

// timeUp returns the last attempt's error, without the deadline error beside it, at the end of --wait.
func (h *holder) timeUp(err error) error {
	var held *quorumlock.HeldError
	if errors.As(err, &held) {
		return fmt.Errorf("no lock after --wait %v: %w", h.flags.wait, held)
	}
	var few *quorumlock.NoQuorumError
	if errors.As(err, &few) {
		return fmt.Errorf("no lock after --wait %v: %w", h.flags.wait, few)
	}
	err = fmt.Errorf("too few nodes answered within --wait %v", h.flags.wait)
	return &exit.Error{Code: exit.NoQuorum, Err: err}
}

// sayWaiting tells the user why the command waits. With --verbose, the log does.
func (h *holder) sayWaiting(why error) {
	if !h.verbose {
		h.say("waiting: %s", text.Reason(why))
		h.advise(why)
	}
}

// waitsForItself returns the error for a lock whose holder is a quorumlock that this one runs under. That one waits
// for this one's end. The owner id identifies it reliably, whatever names the nodes have. A single attempt waits for
// nothing.
func (h *holder) waitsForItself(ctx context.Context, err error) error {
	var held *quorumlock.HeldError
	if !errors.As(err, &held) || h.triesOnce() || len(outerOwners()) == 0 {
		return nil
	}
	var owner string
	switch {
	case h.flags.of > 1:
		owner = h.outerPermits(ctx)
	case held.Owner == node.Readers:
		owner = h.outerReader(ctx, held.Name)
	case isOuter(held.Owner):
		owner = held.Owner
	}
	if owner == "" {
		return nil
	}
	return exit.Errorf(exit.Failure,
		"%q is held by %s, the quorumlock command that started this one: each would wait for the other", held.Name, quorumlock.DescribeOwner(owner))
}

// isOuter reports whether this process runs under the lease of an owner.
func isOuter(owner string) bool {
	return slices.Contains(outerOwners(), quorumlock.ParseOwner(owner).ID)
}

// outerReader returns an outer quorumlock among the readers of a name, or "". A writer waits for it. So does a reader
// behind a waiting writer. An outer quorumlock holds its locks for as long as this one runs, so one answer will do.
func (h *holder) outerReader(ctx context.Context, name string) string {
	if h.inspected[name] {
		return ""
	}
	status, err := h.client.RedLock(name).Inspect(ctx)
	if err != nil {
		return ""
	}
	h.inspected[name] = true
	for _, owner := range status.Owners() {
		if isOuter(owner) {
			return owner
		}
	}
	return ""
}

// outerPermits returns an outer quorumlock that holds permits, if all others together are too few for this one; "" if
// they may do.
func (h *holder) outerPermits(ctx context.Context) string {
	name := h.flags.keys[0]
	if h.inspected[name] {
		return ""
	}
	status, err := h.client.Semaphore(name, h.flags.of).Inspect(ctx)
	if err != nil {
		return ""
	}
	h.inspected[name] = true
	owner, others := otherPermits(status)
	if h.flags.permits <= others {
		return ""
	}
	return owner
}

// otherPermits returns an outer quorumlock that holds permits, and how many permits the outer ones leave to others. A
// holder may have a slot from before the number of permits was reduced. Such a slot takes none of the present permits.
func otherPermits(status *quorumlock.SemaphoreStatus) (outer string, others int) {
	others = status.Permits
	for _, holder := range status.Holders() {
		if !isOuter(holder.Owner) {
			continue
		}
		outer = holder.Owner
		for _, slot := range holder.Slots {
			if slot < status.Permits {
				others--
			}
		}
	}
	return outer, others
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/quorumlock/quorumlock"
)

// acquired is the outcome of waiting for the lock.
type acquired struct {
	lease *quorumlock.Lease
	err   error
}

// acquire waits for the lock until --wait is over or a signal comes.
func (h *holder) acquire(ctx context.Context) (*quorumlock.Lease, error) {
	ctx, cancel := h.waitContext(ctx)
	defer cancel()
	outcome := make(chan acquired, 1)
	go func() {
		lease, err := h.try(ctx)
		outcome <- acquired{lease, err}
	}()
	var ended os.Signal
	for {
		select {
		case sig := <-h.signals.received:
			if endsWaiting(sig) {
				ended = sig
				cancel()
			}
		case got := <-outcome:
			return h.settle(ctx, got, ended)
		}
	}
}

// waitContext bounds the waiting. A single try is bounded by the nodes' timeouts.
func (h *holder) waitContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if h.flags.waits && h.flags.wait > 0 {
		return context.WithTimeout(ctx, h.flags.wait)
	}
	return context.WithCancel(ctx)
}

func (h *holder) try(ctx context.Context) (*quorumlock.Lease, error) {
	if h.flags.waits && h.flags.wait == 0 {
		return h.lock.TryAcquire(ctx)
	}
	return h.lock.Acquire(ctx)
}

// settle decides what the outcome means. A lease that comes together with a signal is
// given back.
func (h *holder) settle(ctx context.Context, got acquired, ended os.Signal) (*quorumlock.Lease, error) {
	switch {
	case ended != nil:
		if got.lease != nil {
			h.release(ctx, got.lease)
		}
		return nil, &exitError{code: signalCode(ended), err: fmt.Errorf("%v while waiting for the lock", ended)}
	case got.err == nil:
		return got.lease, nil
	case errors.Is(got.err, context.DeadlineExceeded):
		return nil, h.timeUp()
	default:
		return nil, got.err
	}
}

// timeUp is the error at the end of --wait: what the last attempt that was finished
// came to, since the one that the deadline cut short says nothing.
func (h *holder) timeUp() error {
	last := h.rounds.lastAttempt()
	if last == nil {
		err := fmt.Errorf("too few nodes answered within --wait %v", h.flags.wait)
		return &exitError{code: exitNoQuorum, err: err}
	}
	return fmt.Errorf("no lock after --wait %v: %w", h.flags.wait, last)
}

// rounds remembers what the last rounds of acquisition and of renewal came to.
type rounds struct {
	log *slog.Logger

	mu sync.Mutex
	// attempt is why the last attempt failed, renewal the last round of renewal; nil
	// if that one succeeded.
	attempt, renewal error
	// told is what was logged of the attempts last: many fail for the same reason.
	told string
}

func (r *rounds) hooks() quorumlock.Hooks {
	return quorumlock.Hooks{
		Acquired: func(e quorumlock.AcquiredEvent) {
			r.log.Info("lock acquired", "keys", e.Names, "owner", e.Owner, "attempts", e.Attempts, "waited", e.Waited)
		},
		AttemptFailed: r.attemptFailed,
		Renewed: func(e quorumlock.RenewedEvent) {
			r.renewed(nil)
			r.log.Debug("lease renewed", "remaining", e.Remaining)
		},
		RenewalFailed: func(e quorumlock.RenewalFailedEvent) {
			r.renewed(e.Err)
			r.log.Warn("renewal failed, trying again", "remaining", e.Remaining, "err", plain(e.Err))
		},
		Ended: func(e quorumlock.EndedEvent) {
			r.log.Info("lease ended", "held", e.Held, "cause", plain(e.Err))
		},
	}
}

func (r *rounds) attemptFailed(e quorumlock.AttemptFailedEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if errors.Is(e.Err, quorumlock.ErrHeld) || errors.Is(e.Err, quorumlock.ErrNoQuorum) {
		r.attempt = e.Err
	}
	if why := reason(e.Err); why != r.told {
		r.told = why
		r.log.Info("no lock yet", "attempt", e.Attempt, "because", plain(e.Err))
	}
}

// reason tells the kinds of failure apart, without the numbers that change each time.
func reason(err error) string {
	if held, ok := errors.AsType[*quorumlock.HeldError](err); ok {
		return "held by " + held.Owner
	}
	return "no quorum"
}

func (r *rounds) renewed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.renewal = err
}

func (r *rounds) lastAttempt() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.attempt
}

func (r *rounds) lastRenewal() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.renewal
}

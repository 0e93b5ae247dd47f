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
)

type acquired struct {
	lease *lease
	err   error
}

// waitNotice is how long a failed attempt goes unmentioned. Most shorter waits need no message, and neither do
// failures that end the waiting at once.
const waitNotice = 100 * time.Millisecond

// acquire waits for the lock until --wait is over, or a signal arrives.
func (h *holder) acquire(ctx context.Context) (*lease, error) {
	ctx, cancel := h.waitContext(ctx)
	defer cancel()
	outcome := make(chan acquired, 1)
	go func() { outcome <- h.take(ctx) }()
	notice := child.NewAlarm()
	defer notice.Stop()
	var ended os.Signal
	var why error
	noticed := make(map[bool]bool) // by whether it is a matter for advice
	for {
		select {
		case attempt := <-h.rounds.failed:
			why = attempt.Err
			if advised := text.Advice(why) != ""; !noticed[advised] {
				noticed[advised] = true
				notice.Set(waitNotice)
			}
		case <-notice.Rings:
			h.sayWaiting(why)
		case sig := <-h.signals:
			if slices.Contains(exit.Ending, sig) { // others are for the command
				ended = sig
				cancel()
			}
		case got := <-outcome:
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

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

// supervise waits for the command's end and passes signals on to it. It stops the command when the lease can no
// longer be relied on.
func (h *holder) supervise(ctx context.Context, lease lease, command *command) error {
	expiry, limit := newAlarm(), newAlarm()
	defer expiry.stop()
	defer limit.stop()
	expiry.set(h.untilNotice(lease))
	if h.flags.maxHold > 0 {
		limit.set(h.flags.maxHold)
	}
	for {
		select {
		case err := <-command.done:
			return h.finished(lease, command.status(err))
		case sig := <-h.signals.received:
			command.pass(sig)
		case <-lease.Context().Done():
			return h.stop(lease, command, plain(lease.Err()))
		case <-expiry.rings:
			left := h.untilNotice(lease)
			if left <= 0 {
				return h.stop(lease, command, h.aboutToBeLost(lease))
			}
			expiry.set(left)
		case <-limit.rings:
			return h.stop(lease, command, fmt.Sprintf("--max-hold %v is over", h.flags.maxHold))
		case <-ctx.Done():
			_ = h.stop(lease, command, plain(context.Cause(ctx)))
			return &exitError{code: exitFailure} // the reason has been said
		}
	}
}

// untilNotice is the time, without another renewal, until the command must be told to end: SIGKILL must come before
// the lease ends.
func (h *holder) untilNotice(lease lease) time.Duration {
	return lease.Remaining() - h.flags.killAfter
}

// aboutToBeLost says why a lease is going to end. It has not ended yet.
func (h *holder) aboutToBeLost(lease lease) string {
	why := "no renewal was confirmed in time"
	if err := h.rounds.lastRenewal(); err != nil {
		why = reason(err)
		h.explained = true
	}
	left := lease.Remaining().Round(time.Millisecond)
	return fmt.Sprintf("the lease of %s cannot be kept, and ends in %v: %s", quotedKeys(lease.Names()), left, why)
}

// finished returns the result of a command that ended by itself. If the lease had ended before, another client may
// have held the lock meanwhile, whatever the status.
func (h *holder) finished(lease lease, status error) error {
	err := lease.Err()
	if err == nil {
		return status
	}
	return &exitError{code: exitLost, err: fmt.Errorf("the command ended when its lease was over already: %w", err)}
}

// stop prints why, ends the command, and returns once it is dead.
func (h *holder) stop(lease lease, command *command, because string) error {
	// The last confirmed validity holds even if the lease ended early.
	grace := max(0, min(h.flags.killAfter, time.Until(lease.ValidUntil())))
	h.say("%s", because)
	h.say("stopping the command: SIGTERM now, SIGKILL in %v", grace.Round(time.Millisecond))
	h.say("the command has ended: %s", describe(command.stop(grace)))
	return &exitError{code: exitLost}
}

// describe says in words how a command ended.
func describe(result error) string {
	if result == nil {
		return "exit status 0"
	}
	return result.Error()
}

// alarm is a timer that counts suspends of the machine, as a lease does.
type alarm struct {
	rings chan struct{}
	timer clock.Timer
}

// newAlarm makes an alarm that is not set.
func newAlarm() *alarm { return &alarm{rings: make(chan struct{}, 1)} }

// set makes the alarm ring after d; at once if d is not positive.
func (a *alarm) set(d time.Duration) {
	if a.timer != nil {
		a.timer.Reset(d)
		return
	}
	a.timer = clock.System().AfterFunc(d, func() {
		select {
		case a.rings <- struct{}{}:
		default: // it rings already
		}
	})
}

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

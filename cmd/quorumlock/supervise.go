package main

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/cmd/internal/child"
	"github.com/quorumlock/quorumlock/cmd/internal/exit"
	"github.com/quorumlock/quorumlock/cmd/internal/text"
)

// supervise waits for the command's end and passes signals on to it. It stops the command when the lease can no
// longer be relied on.
func (h *holder) supervise(ctx context.Context, lease *lease, command *child.Command) error {
	expiry, limit := child.NewAlarm(), child.NewAlarm()
	defer expiry.Stop()
	defer limit.Stop()
	expiry.Set(h.untilNotice(lease))
	if h.flags.maxHold > 0 {
		limit.Set(h.flags.maxHold)
	}
	for {
		select {
		case err := <-command.Done:
			return h.finished(lease, child.Status(err))
		case sig := <-h.signals:
			command.Pass(sig)
		case <-lease.Context().Done():
			return h.stop(lease, command, text.Plain(lease.Err()))
		case <-expiry.Rings:
			left := h.untilNotice(lease)
			switch err := lease.Err(); {
			case err != nil: // this process may have slept, and then the error says so
				return h.stop(lease, command, text.Plain(err))
			case left <= 0:
				return h.stop(lease, command, h.aboutToBeLost(lease))
			}
			expiry.Set(left)
		case <-limit.Rings:
			return h.stop(lease, command, fmt.Sprintf("--max-hold %v is over", h.flags.maxHold))
		case <-ctx.Done():
			_ = h.stop(lease, command, text.Plain(context.Cause(ctx)))
			return exit.Silent(exit.Failure) // the reason has been said
		}
	}
}

// untilNotice is the time, without another renewal, until the command must be told to end: SIGKILL must come before
// the lease ends.
func (h *holder) untilNotice(lease *lease) time.Duration {
	return lease.Remaining() - h.flags.killAfter
}

// aboutToBeLost says why a lease is going to end. It has not ended yet.
func (h *holder) aboutToBeLost(lease *lease) string {
	why := "no renewal was confirmed in time"
	if err := h.rounds.renewal.Load(); err != nil {
		why = text.Reason(*err)
		h.explained = true
	}
	left := lease.Remaining().Round(time.Millisecond)
	return fmt.Sprintf("the lease of %s cannot be kept, and ends in %v: %s", text.Keys(lease.Names()), left, why)
}

// finished returns the result of a command that ended by itself. If the lease had ended before, another client may
// have held the lock in between, even if the command succeeded.
func (h *holder) finished(lease *lease, status error) error {
	err := lease.Err()
	if err == nil {
		return status
	}
	return exit.Errorf(exit.Lost, "the command ended after its lease: %w", err)
}

// stop prints why, ends the command, and returns once it is dead.
func (h *holder) stop(lease *lease, command *child.Command, because string) error {
	// The last confirmed validity holds even if the lease ended early.
	grace := max(0, min(h.flags.killAfter, time.Until(lease.ValidUntil())))
	h.say("%s", because)
	h.say("stopping the command: SIGTERM now, SIGKILL in %v", grace.Round(time.Millisecond))
	how := "exit status 0"
	if err := command.Stop(grace); err != nil {
		how = err.Error()
	}
	h.say("the command has ended: %s", how)
	return exit.Silent(exit.Lost)
}

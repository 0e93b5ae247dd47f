package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/clock"
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
	beats := time.NewTicker(beat)
	defer beats.Stop()
	for {
		select {
		case <-beats.C:
			h.pulse.beat()
		case err := <-command.Done:
			return h.finished(lease, child.Status(err))
		case sig := <-h.signals:
			command.Pass(sig)
		case <-lease.Context().Done():
			return h.stop(lease, command, text.Plain(withoutPause(lease.Err())), h.pulse.pause(h.ttl()))
		case <-expiry.Rings:
			left := h.untilNotice(lease)
			if left <= 0 {
				return h.stop(lease, command, h.aboutToBeLost(lease), h.pulse.pause(h.ttl()))
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
	h.sayAll(h.pulse.pause(h.ttl()))
	return exit.Errorf(exit.Lost, "the command ended after its lease: %w", withoutPause(err))
}

// withoutPause leaves out of an error that this process did not run: the pulse says so, and knows it better.
func withoutPause(err error) error {
	var lost *quorumlock.LostError
	if !errors.As(err, &lost) {
		return err
	}
	short := *lost
	short.Paused = 0
	return &short
}

const (
	// beat is the interval at which the process notes that it runs.
	beat = 100 * time.Millisecond
	// pauseNotice is the least pause that is told. Shorter ones are common on a busy machine, and end no lease.
	pauseNotice = 500 * time.Millisecond
)

// pulse notices that this process did not run. The time of a suspend of the machine counts.
type pulse struct {
	last time.Duration
	// gap is the last pause, and ended the time of its end.
	gap, ended time.Duration
}

func (p *pulse) start() { p.last = clock.System().Now() }

func (p *pulse) beat() {
	now := clock.System().Now()
	if now-p.last >= pauseNotice {
		p.gap, p.ended = now-p.last, now
	}
	p.last = now
}

// pause describes a pause that ended within the last TTL, and so may explain the end of a lease; "" if there was none.
func (p *pulse) pause(ttl time.Duration) string {
	p.beat() // one may have ended just now
	if p.gap == 0 || p.last-p.ended > ttl {
		return ""
	}
	return fmt.Sprintf("this process did not run for %.1f s: it was stopped or starved, or the machine was asleep", p.gap.Seconds())
}

func (h *holder) ttl() time.Duration { return h.flags.effectiveTTL(h.nodes.maxTTL) }

func (h *holder) sayAll(sentences ...string) {
	for _, sentence := range sentences {
		if sentence != "" {
			h.say("%s", sentence)
		}
	}
}

// stop prints why, ends the command, and returns once it is dead.
func (h *holder) stop(lease *lease, command *child.Command, because ...string) error {
	// The last confirmed validity holds even if the lease ended early.
	grace := max(0, min(h.flags.killAfter, time.Until(lease.ValidUntil())))
	h.sayAll(because...)
	h.say("stopping the command: SIGTERM now, SIGKILL in %v", grace.Round(time.Millisecond))
	h.say("the command has ended: %s", describe(command.Stop(grace)))
	return exit.Silent(exit.Lost)
}

// describe says in words how a command ended.
func describe(result error) string {
	if result == nil {
		return "exit status 0"
	}
	return result.Error()
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/clock"
)

// supervise waits for the command's end and passes signals on to it. It stops the command when the lease can no
// longer be relied on.
func (h *holder) supervise(ctx context.Context, lease *lease, command *command) error {
	expiry, limit := newAlarm(), newAlarm()
	defer expiry.stop()
	defer limit.stop()
	expiry.set(h.untilNotice(lease))
	if h.flags.maxHold > 0 {
		limit.set(h.flags.maxHold)
	}
	beats := time.NewTicker(beat)
	defer beats.Stop()
	for {
		select {
		case <-beats.C:
			h.pulse.beat()
		case err := <-command.done:
			return h.finished(lease, command.status(err))
		case sig := <-h.signals:
			command.pass(sig)
		case <-lease.Context().Done():
			return h.stop(lease, command, plain(withoutPause(lease.Err())), h.pulse.pause(h.ttl()))
		case <-expiry.rings:
			left := h.untilNotice(lease)
			if left <= 0 {
				return h.stop(lease, command, h.aboutToBeLost(lease), h.pulse.pause(h.ttl()))
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
func (h *holder) untilNotice(lease *lease) time.Duration {
	return lease.Remaining() - h.flags.killAfter
}

// aboutToBeLost says why a lease is going to end. It has not ended yet.
func (h *holder) aboutToBeLost(lease *lease) string {
	why := "no renewal was confirmed in time"
	if err := h.rounds.renewal.Load(); err != nil {
		why = reason(*err)
		h.explained = true
	}
	left := lease.Remaining().Round(time.Millisecond)
	return fmt.Sprintf("the lease of %s cannot be kept, and ends in %v: %s", quotedKeys(lease.Names()), left, why)
}

// finished returns the result of a command that ended by itself. If the lease had ended before, another client may
// have held the lock in between, even if the command succeeded.
func (h *holder) finished(lease *lease, status error) error {
	err := lease.Err()
	if err == nil {
		return status
	}
	h.sayAll(h.pulse.pause(h.ttl()))
	return &exitError{code: exitLost, err: fmt.Errorf("the command ended after its lease: %w", withoutPause(err))}
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

func (h *holder) sayAll(texts ...string) {
	for _, text := range texts {
		if text != "" {
			h.say("%s", text)
		}
	}
}

// stop prints why, ends the command, and returns once it is dead.
func (h *holder) stop(lease *lease, command *command, because ...string) error {
	// The last confirmed validity holds even if the lease ended early.
	grace := max(0, min(h.flags.killAfter, time.Until(lease.ValidUntil())))
	h.sayAll(because...)
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

// catchSignals begins to receive signals. A signal that the parent process ignored, as under nohup, stays ignored,
// for the command too.
func catchSignals() chan os.Signal {
	received := make(chan os.Signal, 16)
	wanted := slices.DeleteFunc(slices.Clone(caught), signal.Ignored)
	if len(wanted) > 0 { // none would mean all
		signal.Notify(received, wanted...)
	}
	return received
}

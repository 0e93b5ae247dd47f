package quorumlock

import (
	"context"
	"errors"
	"log/slog"
)

// LogHooks returns hooks that log every event except single votes.
//
//   - Level Warn is for events that need attention: a fan-out without a quorum, of an acquisition,
//     a renewal, or on a latch; a lease that some nodes no longer back; a latch that is set to
//     another number.
//   - Level Debug is for all other events. They include locks that others hold, and everything for
//     which the Logger of the [Config] gets a line anyway: leases that are lost, leak, or reach their
//     MaxHold, nodes that fail, answer again, or recover. So one logger can serve both.
//
// The keys are, where an event has them: names, owner, token, reads, attempt, attempts, waited,
// took, handed_over, held, remaining, have, want, need, node, since, until, had_marker, op, name,
// id, rounds, err. The line for a call without a lease is logged with the context of the call, in
// which handlers find its trace.
func LogHooks(logger *slog.Logger) Hooks {
	l := logHooks{logger}
	return Hooks{
		Acquired:       l.acquired,
		Acquisition:    l.acquisition,
		AttemptFailed:  l.attemptFailed,
		Renewed:        l.renewed,
		RenewalFailed:  l.renewalFailed,
		BackingChanged: l.backingChanged,
		Ended:          l.ended,
		LossFound:      l.lossFound,
		Latch:          l.latch,
		NodeDown: func(node string, err error) {
			l.log(slog.LevelDebug, "node failed", slog.String("node", node), slog.Any("err", err))
		},
		NodeUp:         func(node string) { l.log(slog.LevelDebug, "node is in use again", slog.String("node", node)) },
		NodeRecovering: l.nodeRecovering,
	}
}

// logHooks writes events to a logger.
type logHooks struct{ logger *slog.Logger }

func (l logHooks) log(level slog.Level, msg string, attrs ...slog.Attr) {
	l.logger.LogAttrs(context.Background(), level, "quorumlock: "+msg, attrs...)
}

// levelOf returns the level of an event. A lock that others hold is no failure.
func levelOf(failure bool) slog.Level {
	if failure {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

func (l logHooks) acquired(e AcquiredEvent) {
	l.log(slog.LevelDebug, "lease granted", slog.Any("names", e.Names), slog.String("owner", e.Owner),
		slog.Uint64("token", e.Token), slog.Int("attempts", e.Attempts), slog.Duration("waited", e.Waited),
		slog.Bool("reads", e.Reads), slog.Bool("handed_over", e.HandedOver))
}

func (l logHooks) acquisition(e AcquisitionEvent) {
	if e.Err == nil {
		return // Acquired has reported it
	}
	l.logger.LogAttrs(e.Context, slog.LevelDebug, "quorumlock: no lease", slog.Any("names", e.Names),
		slog.Int("attempts", e.Attempts), slog.Duration("took", e.Took), slog.Bool("reads", e.Reads), slog.Any("err", e.Err))
}

func (l logHooks) attemptFailed(e AttemptFailedEvent) {
	l.log(levelOf(errors.Is(e.Err, ErrNoQuorum)), "attempt failed",
		slog.Any("names", e.Names), slog.Int("attempt", e.Attempt), slog.Any("err", e.Err))
}

func (l logHooks) renewed(e RenewedEvent) {
	l.log(slog.LevelDebug, "lease renewed",
		slog.Any("names", e.Names), slog.String("owner", e.Owner), slog.Duration("remaining", e.Remaining))
}

func (l logHooks) renewalFailed(e RenewalFailedEvent) {
	l.log(slog.LevelWarn, "renewal failed", slog.Any("names", e.Names), slog.String("owner", e.Owner),
		slog.Duration("remaining", e.Remaining), slog.Any("err", e.Err))
}

func (l logHooks) backingChanged(e BackingEvent) {
	l.log(levelOf(e.Have < e.Want), "backing changed", slog.Any("names", e.Names), slog.String("owner", e.Owner),
		slog.Int("have", e.Have), slog.Int("want", e.Want), slog.Int("need", e.Need))
}

func (l logHooks) ended(e EndedEvent) {
	l.log(slog.LevelDebug, "lease ended", slog.Any("names", e.Names), slog.String("owner", e.Owner),
		slog.Uint64("token", e.Token), slog.Duration("held", e.Held), slog.Bool("handed_over", e.HandedOver), slog.Any("err", e.Err))
}

func (l logHooks) lossFound(e LossFoundEvent) {
	l.log(slog.LevelDebug, "lease lost before its release", slog.Any("names", e.Names), slog.String("owner", e.Owner),
		slog.Uint64("token", e.Token), slog.Any("err", e.Err))
}

func (l logHooks) latch(e LatchEvent) {
	l.log(levelOf(errors.Is(e.Err, ErrNoQuorum) || errors.Is(e.Err, ErrLatchSet)), "latch", slog.String("op", string(e.Op)), slog.String("name", e.Name),
		slog.String("id", e.ID), slog.Int("rounds", e.Rounds), slog.Duration("took", e.Took), slog.Any("err", e.Err))
}

func (l logHooks) nodeRecovering(e NodeRecoveringEvent) {
	l.log(slog.LevelDebug, "node recovers", slog.String("node", e.Node), slog.Time("since", e.Since),
		slog.Time("until", e.Until), slog.Bool("had_marker", e.HadMarker))
}

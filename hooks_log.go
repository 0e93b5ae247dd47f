package quorumlock

import (
	"context"
	"errors"
	"log/slog"
)

// LogHooks are hooks that write a line for every event but single votes.
//
//   - At level Warn is what somebody should look at: a round without a quorum, of acquisition,
//     renewal, or on a latch; a lease that not all nodes back any more; a latch that is set to
//     something else.
//   - At level Debug is the rest: what is as it should be, locks that others hold, and all that
//     the Logger of the [Config] gets a warning of anyway (leases that are lost or leak, nodes that
//     fail, answer again, and recover), so that one logger can be used for both.
//
// The keys are, as far as an event has them: names, owner, token, reads, attempt, attempts, waited,
// took, handed_over, held, remaining, have, want, need, node, since, until, restarted, op, name, id,
// rounds, err. The line about a call that got no lease is written with the context of the call,
// in which handlers find its trace.
func LogHooks(logger *slog.Logger) Hooks {
	l := hookLog{logger}
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
			l.tell(slog.LevelDebug, "node failed", slog.String("node", node), slog.Any("err", err))
		},
		NodeUp:         func(node string) { l.tell(slog.LevelDebug, "node answers again", slog.String("node", node)) },
		NodeRecovering: l.nodeRecovering,
	}
}

// hookLog writes events to a logger.
type hookLog struct{ logger *slog.Logger }

func (l hookLog) tell(level slog.Level, msg string, attrs ...slog.Attr) {
	l.logger.LogAttrs(context.Background(), level, "quorumlock: "+msg, attrs...)
}

// serious is the level of a failure: to find a lock held is none.
func serious(failure bool) slog.Level {
	if failure {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

func (l hookLog) acquired(e AcquiredEvent) {
	l.tell(slog.LevelDebug, "lease granted", slog.Any("names", e.Names), slog.String("owner", e.Owner),
		slog.Uint64("token", e.Token), slog.Int("attempts", e.Attempts), slog.Duration("waited", e.Waited),
		slog.Bool("reads", e.Reads), slog.Bool("handed_over", e.HandedOver))
}

func (l hookLog) acquisition(e AcquisitionEvent) {
	if e.Err == nil {
		return // Acquired has told it
	}
	l.logger.LogAttrs(e.Context, slog.LevelDebug, "quorumlock: no lease", slog.Any("names", e.Names),
		slog.Int("attempts", e.Attempts), slog.Duration("took", e.Took), slog.Bool("reads", e.Reads), slog.Any("err", e.Err))
}

func (l hookLog) attemptFailed(e AttemptFailedEvent) {
	l.tell(serious(errors.Is(e.Err, ErrNoQuorum)), "attempt failed",
		slog.Any("names", e.Names), slog.Int("attempt", e.Attempt), slog.Any("err", e.Err))
}

func (l hookLog) renewed(e RenewedEvent) {
	l.tell(slog.LevelDebug, "lease renewed",
		slog.Any("names", e.Names), slog.String("owner", e.Owner), slog.Duration("remaining", e.Remaining))
}

func (l hookLog) renewalFailed(e RenewalFailedEvent) {
	l.tell(slog.LevelWarn, "renewal failed", slog.Any("names", e.Names), slog.String("owner", e.Owner),
		slog.Duration("remaining", e.Remaining), slog.Any("err", e.Err))
}

func (l hookLog) backingChanged(e BackingEvent) {
	l.tell(serious(e.Have < e.Want), "backing changed", slog.Any("names", e.Names), slog.String("owner", e.Owner),
		slog.Int("have", e.Have), slog.Int("want", e.Want), slog.Int("need", e.Need))
}

func (l hookLog) ended(e EndedEvent) {
	l.tell(slog.LevelDebug, "lease ended", slog.Any("names", e.Names), slog.String("owner", e.Owner),
		slog.Uint64("token", e.Token), slog.Duration("held", e.Held), slog.Bool("handed_over", e.HandedOver), slog.Any("err", e.Err))
}

func (l hookLog) lossFound(e LossFoundEvent) {
	l.tell(slog.LevelDebug, "lease lost before its release", slog.Any("names", e.Names), slog.String("owner", e.Owner),
		slog.Uint64("token", e.Token), slog.Any("err", e.Err))
}

func (l hookLog) latch(e LatchEvent) {
	l.tell(serious(errors.Is(e.Err, ErrNoQuorum) || errors.Is(e.Err, ErrLatchSet)), "latch", slog.String("op", e.Op), slog.String("name", e.Name),
		slog.String("id", e.ID), slog.Int("rounds", e.Rounds), slog.Duration("took", e.Took), slog.Any("err", e.Err))
}

func (l hookLog) nodeRecovering(e NodeRecoveringEvent) {
	l.tell(slog.LevelDebug, "node recovers", slog.String("node", e.Node), slog.Time("since", e.Since),
		slog.Time("until", e.Until), slog.Bool("restarted", e.Restarted))
}

package node

import (
	"errors"
	"math"
	"time"
)

// The ways in which a node says that it does not serve a client, or not now. Their errors
// are completed with the node's name by whoever answers.

// recoveringRefusal is the answer of a node that gives no new rights for so long.
func recoveringRefusal(left, length time.Duration, restarted bool) Reply {
	return Reply{
		Err:        &RecoveryError{Left: left, Length: max(length, left), Restarted: restarted},
		Recovering: left,
		Restarted:  restarted,
	}
}

// settingsRefusal is the answer of a node that was set up for other limits, or with a TTL over
// them.
func settingsRefusal(op Op, limits Limits) Reply {
	err := &SettingsError{Node: limits, Client: op.Limits}
	if limits == op.Limits {
		err.TTL = op.TTL
	}
	return Reply{Err: err}
}

// clockRefusal is the answer of a node whose clock, in microseconds, is too far from a token,
// or from the end of its block.
func clockRefusal(now int64, op Op) Reply {
	err := &ClockError{Ahead: micro(instant(op.end()) - now), Limit: op.Limits.MaxClockSkew}
	if token := instant(op.Token); token < now && err.Ahead <= err.Limit {
		err.Ahead, err.Limit = micro(token-now), op.Limits.MaxTTL
	}
	return Reply{Err: err}
}

// instant is the time of a token, in microseconds since the Unix epoch, or the last one.
func instant(token uint64) int64 { return int64(min(token, math.MaxInt64)) }

// micro turns microseconds into a duration, or the longest one.
func micro(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Microsecond)
	return time.Duration(min(max(n, -most), most)) * time.Microsecond
}

// isImplausible reports whether a node whose clock stands at now, in microseconds, may
// not take the tokens from the first to the end of a block. What it takes is younger than
// MaxTTL, and no further ahead than MaxClockSkew: so after a recovery, or the end of a
// fence, it takes only tokens that are larger than all those it ever took.
func isImplausible(first, end uint64, now int64, l Limits) bool {
	return instant(end) > now+l.MaxClockSkew.Microseconds() || instant(first) <= now-l.MaxTTL.Microseconds()
}

// reasonOfRefusal is the reason that goes with one of these errors; nil for others.
func reasonOfRefusal(err error) error {
	var recovery *RecoveryError
	var settings *SettingsError
	var clock *ClockError
	switch {
	case errors.As(err, &recovery):
		return ErrRecovering
	case errors.As(err, &settings):
		return ErrSettings
	case errors.As(err, &clock):
		return ErrClock
	default:
		return nil
	}
}

// mayFence reports whether a renewal raises the fence along with the lock: as long as an
// acquisition could still take a smaller token, if the token is one that could be taken.
func mayFence(token uint64, now int64, l Limits) bool {
	t := instant(token)
	return t <= now+l.MaxClockSkew.Microseconds() && t > now-l.Recovery().Microseconds()
}

package node

import (
	"errors"
	"math"
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// The replies of a node that does not serve a client, or not now. The caller adds the node's name to their
// errors.

// recoveringRefusal is the reply of a node that gives no new rights for left.
func recoveringRefusal(left, length time.Duration, hadMarker bool) wire.Reply {
	return wire.Reply{
		Err:        &RecoveryError{Left: left, Length: max(length, left), HadMarker: hadMarker},
		Recovering: left,
		HadMarker:  hadMarker,
	}
}

// settingsRefusal is the reply of a node that was set up for other limits, or whose limit the TTL exceeds.
func settingsRefusal(op wire.Op, limits wire.Limits) wire.Reply {
	err := &SettingsError{Node: Limits(limits), Client: Limits(op.Limits)}
	if limits == op.Limits {
		err.TTL = op.TTL
	}
	return wire.Reply{Err: err}
}

// clockRefusal is the reply of a node whose clock, in microseconds, is too far from a token, or from the end
// of its block.
func clockRefusal(now int64, op wire.Op) wire.Reply {
	err := &ClockError{Ahead: micro(instant(op.End()) - now), Limit: op.Limits.MaxClockSkew}
	if token := instant(op.Token); token < now && err.Ahead <= err.Limit {
		err.Ahead, err.Limit = micro(token-now), op.Limits.MaxTTL
	}
	return wire.Reply{Err: err}
}

// instant returns the time of a token in microseconds since the Unix epoch, at most the last one.
func instant(token uint64) int64 { return int64(min(token, math.MaxInt64)) }

// micro turns microseconds into a duration, at most the longest one.
func micro(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Microsecond)
	return time.Duration(min(max(n, -most), most)) * time.Microsecond
}

// reasonOfRefusal returns the reason for one of these errors; nil for others.
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

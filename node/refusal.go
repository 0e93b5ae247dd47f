package node

import (
	"errors"
	"fmt"
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

// clockRefusal is the reply of a node whose clock, in microseconds, is too far from a token, from the end of its block, or from
// the tokens in the state of a latch.
func clockRefusal(now int64, op wire.Op) wire.Reply {
	last := op.End()
	if op.Latch != nil {
		last = max(last, op.Latch.Generation, op.Latch.Since)
	}
	err := &ClockError{Ahead: micro(instant(last) - now), Limit: op.Limits.MaxClockSkew}
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

// recoveryCause says in words why a recovery began.
func recoveryCause(hadMarker bool) string {
	if hadMarker {
		return "the replication id of the server changed (by a restart, a failover, or its first replica)"
	}
	return "the node had no marker: it is new, or has lost its memory (for new servers only: quorumlock init opens them at once)"
}

// RecoveryError is the cause behind [ErrRecovering].
type RecoveryError struct {
	// Left is the remaining recovery, Length its whole length.
	Left, Length time.Duration
	// HadMarker is as in [wire.Marker].
	HadMarker bool
}

// Error says how long the recovery has lasted, how long it will last, and why.
func (e *RecoveryError) Error() string {
	return fmt.Sprintf("began %v ago, ends in %v: holders keep their locks, and no new lock is granted; %s",
		e.Length-e.Left, e.Left, recoveryCause(e.HadMarker))
}

// SettingsError is the cause behind [ErrSettings].
type SettingsError struct {
	// Own and Other are the limits of this program, and of another one that uses the same names on these nodes.
	Own, Other Limits
	// Holder is the Config.Holder of the other program: the last one that has used these limits.
	Holder string
	// Left is how long the limits of the other program count as in use, unless a program still uses them.
	Left time.Duration
	// Protocol and OtherProtocol are the versions of the protocol that both speak, if these do not work side by side; else 0.
	Protocol, OtherProtocol int
	// TTL is the operation's TTL if it exceeds MaxTTL; else 0.
	TTL time.Duration
}

// Error says what the caller can do.
func (e *SettingsError) Error() string {
	if e.TTL > 0 {
		return fmt.Sprintf("TTL %v exceeds MaxTTL %v", e.TTL, e.Own.MaxTTL)
	}
	left := e.Left.Truncate(time.Second) + time.Second
	if e.Protocol != e.OtherProtocol {
		return fmt.Sprintf("this program speaks protocol %d, and %s speaks protocol %d: versions as far apart must not use the same names. "+
			"Stop all programs of one of these versions, and wait %v (docs/upgrading.md)", e.Protocol, e.Holder, e.OtherProtocol, left)
	}
	least := max(e.Own.MaxTTL, e.Other.MaxTTL) + max(e.Own.MaxClockSkew, e.Other.MaxClockSkew)
	return fmt.Sprintf("this program has %v, and %s has %v: a node that lost its memory could give a lock again before it has ended, because both need a Recovery of %v. "+
		"Configure both alike; to change limits, first give all programs that Recovery (docs/on-call.md), or stop all programs with the other limits and wait %v",
		e.Own, e.Holder, e.Other, least, left)
}

// ClockError is the cause behind [ErrClock].
type ClockError struct {
	// Ahead is how far the proposed token, the end of its block, or a token in the state of a latch was ahead of the node's
	// clock; negative if the token was behind.
	Ahead time.Duration
	// Limit is the largest allowed difference.
	Limit time.Duration
}

// Error says by how much the clocks differ, and which may be wrong.
func (e *ClockError) Error() string {
	if e.Ahead < 0 {
		return fmt.Sprintf("the token is %v behind the node's clock, and must be less than %v (MaxTTL): the clock of this process or of the node is wrong", round(-e.Ahead), e.Limit)
	}
	return fmt.Sprintf("the token is %v ahead of the node's clock, and may be at most %v (MaxClockSkew): the clock of this process, of a client before it, or of the node is wrong", round(e.Ahead), e.Limit)
}

// round makes the difference of two clocks readable.
func round(d time.Duration) time.Duration {
	if d >= time.Second {
		return d.Round(time.Millisecond)
	}
	return d
}

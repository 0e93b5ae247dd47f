package node

import (
	"fmt"
	"time"
)

// recoveryCause says in words why a recovery began.
func recoveryCause(hadMarker bool) string {
	if hadMarker {
		return "the replication id of the server changed (by a restart, a failover, or its first replica), or its limits changed"
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
	// Node and Client are the limits of the node and of the client.
	Node, Client Limits
	// TTL is the operation's TTL if it exceeds the limit; else 0.
	TTL time.Duration
}

// Error says what the caller can do.
func (e *SettingsError) Error() string {
	if e.TTL > 0 {
		return fmt.Sprintf("TTL %v exceeds MaxTTL %v", e.TTL, e.Client.MaxTTL)
	}
	return fmt.Sprintf("the node is set up for clients with MaxTTL %v and MaxClockSkew %v, but this client has %v and %v: configure this program like the others (to change the limits of all, stop all of them first: see docs/on-call.md)",
		e.Node.MaxTTL, e.Node.MaxClockSkew, e.Client.MaxTTL, e.Client.MaxClockSkew)
}

// ClockError is the cause behind [ErrClock].
type ClockError struct {
	// Ahead is how far the proposed token, or the end of its block, was ahead of the node's clock; negative
	// if the token was behind.
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

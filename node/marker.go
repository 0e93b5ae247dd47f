package node

import (
	"fmt"
	"time"
)

// Limits are what all clients of a node have to agree on, as each relies on it of the
// others. They stand in the node's marker, and clients with others are refused.
type Limits struct {
	// MaxTTL is the longest TTL of any lock.
	MaxTTL time.Duration
	// MaxClockSkew is how far the clock of a client may be ahead of the node's.
	MaxClockSkew time.Duration
}

// Recovery is how long a node that has lost its memory gives no new rights: until what
// it may have granted has run out, and every token that it may have seen is in the past
// for any client.
func (l Limits) Recovery() time.Duration { return l.MaxTTL + l.MaxClockSkew }

// Marker is what a node notes of itself, so that the loss of its memory is noticed.
type Marker struct {
	// Identity is that of the server when the marker was written. A server with
	// another one has restarted or failed over since.
	Identity string
	// Until is the end of the recovery, in microseconds of the node's clock, and so
	// different for each; 0 if the node was opened by an administrator.
	Until int64
	// Limits are what clients of the node have to have.
	Limits Limits
	// Left is what was left of the recovery when the node answered, 0 if it gives new
	// rights.
	Left time.Duration
	// Restarted is set if the recovery began because the server had restarted or
	// failed over with a marker, because a first replica attached to it, or because its
	// limits were changed: so it has been in use. Else there was no marker.
	Restarted bool
}

// recoveryCause says in words why a recovery began.
func recoveryCause(restarted bool) string {
	if restarted {
		return "its replication id changed, by a restart, a failover, or a first replica that attached, or its limits did"
	}
	return "it had no marker: it is new, or has lost its memory"
}

// RecoveryError is the cause behind [ErrRecovering].
type RecoveryError struct {
	// Left is what is left of the recovery, Length how long it is as a whole.
	Left, Length time.Duration
	// Restarted is as in [Marker].
	Restarted bool
}

// Error says since when, until when, and why.
func (e *RecoveryError) Error() string {
	return fmt.Sprintf("for %v already, and for another %v, holders keep their locks, and nobody else gets one; %s",
		e.Length-e.Left, e.Left, recoveryCause(e.Restarted))
}

// SettingsError is the cause behind [ErrSettings].
type SettingsError struct {
	// Node and Client are the limits of the two.
	Node, Client Limits
	// TTL is that of the operation, where that is the problem; else 0.
	TTL time.Duration
}

// Error says what to do about it.
func (e *SettingsError) Error() string {
	if e.TTL > 0 {
		return fmt.Sprintf("TTL %v is over the MaxTTL %v", e.TTL, e.Client.MaxTTL)
	}
	return fmt.Sprintf("the node is set up for clients with MaxTTL %v and MaxClockSkew %v, and this one has %v and %v: configure this program like the others (to change the limits of all, stop all of them first: see docs/failures.md)",
		e.Node.MaxTTL, e.Node.MaxClockSkew, e.Client.MaxTTL, e.Client.MaxClockSkew)
}

// ClockError is the cause behind [ErrClock].
type ClockError struct {
	// Ahead is how far the token that was proposed, or the end of the block that was to be
	// reserved, was ahead of the node's clock; negative if the token was behind.
	Ahead time.Duration
	// Limit is how far it may be.
	Limit time.Duration
}

// Error says by how much, and whose clock may be wrong.
func (e *ClockError) Error() string {
	if e.Ahead < 0 {
		return fmt.Sprintf("the token is %v behind the node's clock, and has to be less than %v (MaxTTL): the clock of this process or of the node is wrong", round(-e.Ahead), e.Limit)
	}
	return fmt.Sprintf("the token is %v ahead of the node's clock, and may be %v (MaxClockSkew) at most: the clock of this process, of a client before it, or of the node is wrong", round(e.Ahead), e.Limit)
}

// round makes the difference of two clocks readable.
func round(d time.Duration) time.Duration {
	if d >= time.Second {
		return d.Round(time.Millisecond)
	}
	return d
}

package wire

import (
	"fmt"
	"time"
)

// Limits are values on which clients rely each for the others: see [Limits.Allow].
type Limits struct {
	// MaxTTL is the longest TTL of any lock.
	MaxTTL time.Duration
	// MaxClockSkew is how far the clock of a client may be ahead of the node's.
	MaxClockSkew time.Duration
	// Longer is a recovery for the limits of other clients, if these are larger; otherwise 0.
	Longer time.Duration
}

// Recovery returns how long a node that has lost its memory gives no new rights to the client. After that time, every
// lock that it may have granted has expired. Every token that it may have accepted is in the past for all clients.
func (l Limits) Recovery() time.Duration { return max(l.MaxTTL+l.MaxClockSkew, l.Longer) }

// String names the limits as a configuration does.
func (l Limits) String() string {
	return fmt.Sprintf("MaxTTL %v, MaxClockSkew %v and Recovery %v", l.MaxTTL, l.MaxClockSkew, l.Recovery())
}

// LongestTTL is a bound of the MaxTTL of all clients.
func (l Limits) LongestTTL() time.Duration { return l.Recovery() - l.MaxClockSkew }

// Allow reports whether clients with these limits may use the same names. The recovery of each must be long enough for the
// locks and the tokens of the other, because a node that has lost its memory cannot know the limits of those that it served.
func (l Limits) Allow(other Limits) bool {
	return min(l.Recovery(), other.Recovery()) >= max(l.MaxTTL, other.MaxTTL)+max(l.MaxClockSkew, other.MaxClockSkew)
}

// Marker is a note on the node about itself, by which a loss of its memory is noticed.
type Marker struct {
	// Identity is the server's identity when the marker was written. If it differs now, the server has
	// restarted or failed over.
	Identity string
	// Since is when the node noticed that it had lost its memory, in microseconds of its clock, and so unique to each loss.
	// It is 0 if an administrator opened the node.
	Since int64
	// Left is the remaining recovery for the client that asks; 0 if the node gives it new rights.
	Left time.Duration
	// HadMarker is set if the node had a marker when its recovery began: the server came back with its disk, a
	// replica took over, or a first replica attached. Otherwise the node is new, came
	// back empty, or was flushed.
	HadMarker bool
}

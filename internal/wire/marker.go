package wire

import (
	"time"
)

// Limits are values on which all clients of a node must agree, since each relies on the others. The node's
// marker has them, and the node refuses clients with other limits.
type Limits struct {
	// MaxTTL is the longest TTL of any lock.
	MaxTTL time.Duration
	// MaxClockSkew is how far the clock of a client may be ahead of the node's.
	MaxClockSkew time.Duration
}

// Recovery returns how long a node that has lost its memory gives no new rights. After that time, every lock
// that it may have granted has expired. Every token that it may have accepted is in the past for all
// clients.
func (l Limits) Recovery() time.Duration { return l.MaxTTL + l.MaxClockSkew }

// Marker is a note on the node about itself, by which a loss of its memory is noticed.
type Marker struct {
	// Identity is the server's identity when the marker was written. If it differs now, the server has
	// restarted or failed over.
	Identity string
	// Until is the end of the recovery, in microseconds of the node's clock, and so unique to each recovery.
	// It is 0 if an administrator opened the node.
	Until int64
	// Limits are the limits that the node's clients must have.
	Limits Limits
	// Left is the remaining recovery when the node answered; 0 if it gives new rights.
	Left time.Duration
	// HadMarker is set if the node had a marker when its recovery began: the server came back with its disk, a
	// replica took over, a first replica attached, or the limits were changed. Otherwise the node is new, came
	// back empty, or was flushed.
	HadMarker bool
}

package wire

import (
	"strconv"
	"strings"
	"time"
)

// Waiter waits for locks. It has an entry in the queue of each of their names. A message to the inbox of its
// client wakes it; see [Endpoint.Listen].
//
// A denied [Acquire] makes the entries, or extends them, and so does [Refresh]. They stay when an Acquire of the waiter is granted:
// if other nodes deny it, the waiter gives the names back and keeps its place. Entries are removed by the
// [Release] of the grant, by [Leave], when Keep has passed, and when a message finds no subscriber of the
// inbox. An operation that frees a name wakes its first waiter ([Woken]) and sends [Standby] to the second.
//
// A fair Acquire takes a free name only if no waiter before it has a privilege. The first waiter has one
// until 50 ms after it was woken or took the name, or for longer if its id says so; see [WaiterID]. It has
// one again after it came and found another owner. After that the next waiter has it. A waiter for several
// names may be denied because of one of them. It gets no new privilege on the free names, so that they do
// not stay unused. A waiter that is denied because of a privilege may come again after [Holder.TTL].
type Waiter struct {
	// ID identifies the waiter: the id of the client, which has no colon, then a colon and any text; see
	// [WaiterID]. It is empty for no waiter.
	ID string
	// Ticket is when the waiter first asked, in microseconds since the Unix epoch by the clock of its client,
	// below 2^53. Waiters are served in the order of tickets, and of ids if tickets are equal.
	Ticket int64
	// Keep is how long the entries live after each attempt, in whole milliseconds, at least 1. It is 0 for
	// Leave, and for the Release after which the waiter no longer waits.
	Keep time.Duration
}

// WaiterID makes the id of a waiter. The argument id is the id of the client, a colon, and a text that is
// unique in the client. A free lock is left to a woken waiter for the duration patience: whole
// milliseconds, from 50 to 500. A waiter far from the nodes needs more.
func WaiterID(id string, patience time.Duration) string {
	if patience <= basePrivilege {
		return id
	}
	return id + "@" + strconv.FormatInt(min(patience, maxPrivilege).Milliseconds(), 10)
}

// ReaderID is the [WaiterID] of a reader, for operations with [Op.Reads]. Readers do not wait for each other.
func ReaderID(id string, patience time.Duration) string {
	if id = WaiterID(id, patience); patience <= basePrivilege {
		id += "@"
	}
	return id + ReaderMark
}

// ReaderMark ends the id of a reader, behind a number or nothing.
const ReaderMark = "r"

// WaiterKey returns the id from which [WaiterID] or [ReaderID] made this one, or the id itself.
func WaiterKey(id string) string {
	if at := strings.LastIndexByte(id, '@'); at >= 0 {
		return id[:at]
	}
	return id
}

// The bounds of how long a free lock is left to a woken waiter.
const (
	basePrivilege = 50 * time.Millisecond
	maxPrivilege  = 500 * time.Millisecond
)

// Waiting is one waiter of a [Refresh], with what it waits for.
type Waiting struct {
	// Waiter has no Keep: the TTL of the operation is how long its entries live.
	Waiter Waiter
	// Names are the locks. For slots of a pool it is the name of the pool.
	Names []string
	// Reads is set for a reader.
	Reads bool
	// Pool is set if the waiter waits for slots.
	Pool Pool
}

// Standing is how a waiter stands on a node.
type Standing struct {
	// Known is false if the node could not say, for example because of a key of another type.
	Known bool
	// Holder is what an attempt would be denied for, without a Token. It is zero if no other owner and no
	// earlier waiter is in the way. For slots of a pool its name is the name of the pool.
	Holder Holder
	// Rank is how many waiters stand before this one.
	Rank int
}

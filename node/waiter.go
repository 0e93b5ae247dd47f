package node

import (
	"strconv"
	"strings"
	"time"
)

// Waiter is one who waits for locks. It has an entry in the queue of each of their names,
// and is woken by a message to the inbox of its client; see [Listener].
//
// A denied [Acquire] makes the entries, or has those that there are live longer. They stay
// when an Acquire of the waiter is granted, as it may be given back because other nodes
// denied: it has kept its place then. They are removed by the [Release] of what was granted,
// by [Leave], when Keep has passed, and when a message to the inbox finds nobody who listens.
// Whatever frees a name wakes its first waiter ([Woken]), and tells the second to stand by
// ([Standby]).
//
// A fair Acquire takes a free name only if nobody waits before it who has a privilege: the
// first has one until 50 ms after it was woken or took the name, and again once it has come and
// somebody else had the name. Then the next in line has it. Who comes for several names gets no new privilege on
// those that it could have had but for the others: they do not lie idle meanwhile. Who is
// denied because of a privilege may come again when [Holder.TTL] has passed.
type Waiter struct {
	// ID tells waiters apart: the id of the client, which holds no colon, a colon, and
	// anything; see [WaiterID]. It is empty for nobody.
	ID string
	// Ticket is when it first asked, in microseconds since the Unix epoch by the clock
	// of its client, below 2^53. Turns are in the order of tickets, and of ids where those
	// are the same.
	Ticket int64
	// Keep is how long its entries live from each attempt on, in whole milliseconds, at
	// least one; 0 for Leave, and for the Release after which it waits no longer.
	Keep time.Duration
}

// client is the part of the id whose inbox serves the waiter.
func (w Waiter) client() string {
	client, _, _ := strings.Cut(w.ID, ":")
	return client
}

// WaiterID makes the id of a waiter, of what tells it from others, its client and a colon in
// front, and of how long a free lock is left to it once it was woken, in whole milliseconds.
// That is 50 ms at least, and 500 ms at most: it is for those who are far from the nodes.
func WaiterID(id string, patience time.Duration) string {
	if patience <= basePrivilege {
		return id
	}
	return id + "@" + strconv.FormatInt(min(patience, maxPrivilege).Milliseconds(), 10)
}

// ReaderID is the [WaiterID] of one who waits in order to read, as [Op.Reads] says of its
// operations. Those who read do not wait for each other.
func ReaderID(id string, patience time.Duration) string {
	if id = WaiterID(id, patience); patience <= basePrivilege {
		id += "@"
	}
	return id + readerMark
}

// readerMark ends the id of one who waits in order to read, behind a number or nothing.
const readerMark = "r"

// reads reports whether the waiter of this id does so in order to read.
func reads(id string) bool {
	id, marked := strings.CutSuffix(id, readerMark)
	at := strings.LastIndexByte(id, '@')
	return marked && at >= 0 && strings.Trim(id[at+1:], "0123456789") == ""
}

// WaiterKey is what a [WaiterID] or a [ReaderID] was made of, and any other id itself.
func WaiterKey(id string) string {
	if at := strings.LastIndexByte(id, '@'); at >= 0 {
		return id[:at]
	}
	return id
}

// The bounds of how long a free lock is left to a waiter that was woken.
const (
	basePrivilege = 50 * time.Millisecond
	maxPrivilege  = 500 * time.Millisecond
)

// wakePrivilege is how long it is left to the waiter of this id.
func wakePrivilege(id string) time.Duration {
	if reads(id) {
		id = strings.TrimSuffix(id, readerMark)
	}
	at := strings.LastIndexByte(id, '@')
	digits := id[at+1:]
	if at < 0 || digits == "" || strings.Trim(digits, "0123456789") != "" {
		return basePrivilege
	}
	ms, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return maxPrivilege // it is larger than any
	}
	return min(max(time.Duration(ms)*time.Millisecond, basePrivilege), maxPrivilege)
}

// maxScanned bounds how far down a queue one operation looks for a waiter that is not frozen.
const maxScanned = 100

// maxDeadWaiters bounds how many dead waiters one operation deals with for each name.
const maxDeadWaiters = 1000

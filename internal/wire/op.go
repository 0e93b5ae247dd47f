// Package wire has the operations of a node and its answers: operations go in, replies come out, in order. It also has
// the names of keys, the messages to waiters, and the interfaces by which the engine sees a node.
//
// Package node carries the operations out on a server, with one Lua script for each kind. Package node/memory runs the
// same scripts within the process. Both pass the conformance suite in internal/nodetest.
package wire

import (
	"math"
	"slices"
	"strings"
	"time"
)

// Kind says what an [Op] asks of a node. A new kind has a script (scripts.go), arguments (command.go), a
// reply (decode.go), and promises in package nodetest.
type Kind uint8

// The kinds of operation. Each is idempotent: a repeated or duplicated operation changes nothing that the
// first one did not change.
const (
	// Acquire takes every name for the owner, or none. A name that the owner already holds stays its own.
	Acquire Kind = iota + 1
	// Renew extends every name to another TTL, and puts back names that are absent. If another owner holds
	// one of the names, or this owner was forced off one, nothing is changed.
	Renew
	// Release removes the names that the owner holds, and no others. Then it wakes the first waiter of each
	// name that is free, whether it was held or not.
	Release
	// Inspect reads who holds the names, and changes nothing.
	Inspect
	// ForceRelease removes the names from any holder, or with [Op.Owner] from that one, also if it is one of several
	// readers. It leaves a tombstone for each owner found or listed,
	// so that the owner's next renewal cannot put the names back, and sends [Forced] to the owner's client. It wakes
	// waiters as Release does.
	ForceRelease
	// Mark reads the node's marker. If the node has none, or one of an earlier life, it gets a new one, and
	// its recovery begins. The first acquisition would do the same.
	Mark
	// Open ends the recovery of a node that still has the marker which a Mark returned. It is for
	// administrators who know that the node has never granted anything.
	Open
	// Leave removes a waiter from the queues of the names. Then it wakes the first waiter of each free name,
	// as Release does: the waiter that leaves may have been woken.
	Leave
	// Resize sets how many slots a pool has, for all callers: the Size of Op.Pool. Its Version must be later
	// than any that the node knows. Owners keep the slots that they hold beyond the new size. With Version 0
	// the operation is always denied, and so only asks.
	Resize
	// Latch reads a latch. It may also set the latch, count it down, and give back state that the node has
	// lost: see [LatchOp]. Its one name is the name of the latch. Locks have other keys, so the name may also be
	// a lock.
	Latch
	// Unlatch deletes a latch and makes its token the next generation, unless the node has seen a token at
	// least as large. A node that does not know the latch records the deletion too.
	Unlatch
	// Shorten is a release with a rest: the names that the owner holds, as a writer or a reader, live for the TTL of the
	// operation at most. It makes no life longer. The owner must have ended: it relies on the names no more.
	Shorten
	// Once reads whether the work of its one name is done in this window, and with [Op.Owner] records that it is, for the
	// TTL of the operation. A record never gets shorter. Locks have other keys, so the name may also be a lock.
	Once
	// Refresh says how each waiter in Op.Waiting stands, and extends its entries for the TTL of the operation, or
	// makes them. For that it does what an Acquire of the waiter in FIFO order does before it takes the names, so it may
	// wake waiters. It takes nothing. Names are the names of all of them.
	Refresh
	// Enlist notes that a client uses a list of nodes, unless one is in use that the client has not compared with its own: see
	// [ListOp]. It has no names.
	Enlist
)

// words are the names of the operations, as errors and logs show them. Connecting and probing have none.
var words = [...]string{
	Acquire: "acquire", Renew: "renew", Release: "release", Inspect: "inspect", ForceRelease: "force-release", Mark: "mark",
	Open: "open", Leave: "leave", Resize: "resize", Latch: "latch", Unlatch: "delete latch", Shorten: "shorten", Once: "once",
	Refresh: "refresh", Enlist: "enlist",
}

// String returns the name of the operation.
func (k Kind) String() string {
	if int(k) >= len(words) {
		return "unknown operation"
	}
	return words[k]
}

// Op is one operation on one node. It takes effect for all of its names at one instant of the node.
type Op struct {
	Kind Kind
	// Reads makes this the Acquire, Renew or Release of a reader; see [Readers].
	Reads bool
	// Fair makes an Acquire leave a free name to the waiters before its Waiter, or to all waiters if it has
	// none. Otherwise it takes a free name past the waiters. See [Waiter].
	Fair bool
	// Announce makes Release, Shorten and ForceRelease publish each name that they find on the channel of Redisson's clients.
	// That needs a right of its own; without it the release succeeds and no message is sent. See [Endpoint.Listen].
	Announce bool
	// Names are the locks: at least one, without duplicates. Mark and Open have none.
	Names []string
	// Owner identifies one attempt, and is never used for another: otherwise the late release of one attempt
	// could undo the next. Inspect leaves it empty. For ForceRelease it is the only owner that loses the names
	// and gets a tombstone, besides those in Buried; empty for all. For Once it is the text of the record;
	// empty to read it.
	Owner string
	// TTL is how long the node keeps the names without a renewal, in whole milliseconds. For ForceRelease it
	// is the least life of the tombstones: each lives as long as its lock would have.
	TTL time.Duration
	// Buried lists, for ForceRelease, further owners that get a tombstone, known from other nodes.
	Buried []string
	// Token is the fencing token that Acquire proposes and Renew repeats: microseconds since the Unix epoch
	// by the client's clock, or 1 + the largest token seen. Latch and
	// Unlatch have tokens of the same kind.
	Token uint64
	// Reserve is, for Acquire, how many tokens directly after Token are reserved for the owner too. The node
	// keeps Token+Reserve, the end of the block, as the fence, and refuses an end that is too far ahead of
	// its clock. A Renew repeats the end as its Token, since it must put back the fence of the whole block.
	Reserve uint64
	// Floor is, for the Acquire of a reader, a token to which the node raises a smaller fence; 0 is none.
	Floor uint64
	// Limits are the client's limits, for Acquire, Renew, Mark, Open, Latch and Unlatch. Inspect
	// computes from them how long a recovery that has not begun will take.
	Limits Limits
	// Marker is the marker that Mark returned, for Open; nil for the others.
	Marker *Marker
	// Waiter is the waiter that the operation concerns; the zero Waiter is none. An Acquire that is denied
	// puts it into the queues, and Leave removes it. For Release it is the waiter for which the names were
	// acquired. If its Keep is 0, it leaves the queues; otherwise it tries again, so it gets its entries and
	// is not woken. For the Renew of a reader it is the waiter for which the owner became a writer: it leaves
	// the queues of those names.
	Waiter Waiter
	// Pool is set if the names are slots of a pool; see [Pool]. Names are then all slots that the owner asks
	// for. For Leave and Resize, Names has the name of the pool itself.
	Pool Pool
	// Latch has the arguments of Latch and Unlatch; nil for the others.
	Latch *LatchOp
	// Waiting are the waiters of a Refresh; nil for the others.
	Waiting []Waiting
	// List has the arguments of Enlist; nil for the others.
	List *ListOp
}

// End returns the last token of the block, at most the largest possible token. For a reader it is the largest
// token that may become the fence.
func (o Op) End() uint64 {
	if o.Reads {
		return max(o.Token, o.Floor)
	}
	if end := o.Token + o.Reserve; end >= o.Token {
		return end
	}
	return math.MaxUint64
}

// Found returns the marker for which an Open is meant. No node has a zero marker.
func (o *Op) Found() Marker {
	if o.Marker == nil {
		return Marker{}
	}
	return *o.Marker
}

// Outcome is the result of an [Op] on a node.
type Outcome uint8

// The outcomes. An operation without a reply has the zero value.
const (
	// Unknown means that there is no usable reply: the operation may have happened. [Reply.Err] says why, and
	// [Reply.Unsent] whether the node can have seen it.
	Unknown Outcome = iota
	// Granted: the names belong to the owner for a TTL from now. For Open: the node gives new rights from now
	// on. For Resize: the size is set.
	Granted
	// Healed: as Granted, by a renewal that had to put at least one name back.
	Healed
	// Denied: nothing was changed, except that a Waiter has its entries. Another owner has one of the names
	// or, for a fair Acquire, an earlier waiter the right to it. For Renew, the owner may have been
	// forced off. For Open, the marker has changed. For Resize, the node knows a later size.
	Denied
	// Released: at least one name was removed; for Leave, one entry. For Shorten: the owner holds at least one.
	Released
	// Absent: there was nothing to remove.
	Absent
	// Inspected: [Reply.Holders] has the answer; for Mark it is [Reply.Marker], for Refresh [Reply.Standings], for Enlist
	// [Reply.List].
	Inspected
)

var outcomeNames = [...]string{
	Unknown: "unknown", Granted: "granted", Healed: "healed", Denied: "denied", Released: "released", Absent: "absent",
	Inspected: "inspected",
}

// String returns the name of the outcome.
func (o Outcome) String() string {
	if int(o) >= len(outcomeNames) {
		return "invalid outcome"
	}
	return outcomeNames[o]
}

// NoExpiry is the TTL of a [Holder] whose key never expires. This library never writes such a key.
const NoExpiry time.Duration = -1

// Holder is the owner of a name on one node, with its remaining TTL.
type Holder struct {
	Name string
	// Owner is the id of the holder, as in [Op.Owner]. It is empty in three denials: of a Renew
	// whose owner was forced off, of a fair acquisition of a free name that is left to another waiter, and of
	// free slots beyond the size of their pool.
	Owner string
	// TTL is how long the name stays held without a renewal, or [NoExpiry]. For a free name that is left to a
	// waiter, it is how long the name is left to it.
	TTL time.Duration
	// Token is, in a list of holders and in the denial of a renewal, the largest fencing token that the
	// holder may use. It is 0 for a holder that is no client of this library. For readers it is the fence of
	// the name in a list, and 0 in a denial. In the denial of an acquisition it is always the fence: the
	// largest token that the node knows of the name, or of a name that shares its place.
	Token uint64
	// Reads is set for a reader in a list of holders; a name may have several. In a denial one Holder stands
	// for all readers, with [Readers] as its Owner.
	Reads bool
}

// Reply is a node's answer to one [Op].
type Reply struct {
	Outcome Outcome
	// Unsent is true if the operation certainly never reached the node: then there is nothing to undo.
	Unsent bool
	// Repeated is true if the operation may have run twice within this call, and this is the answer to the
	// second run: the connection broke before the first answer came, or the server no longer owned the slot of a
	// cluster. An implementation that sends operations again on a new connection must set it.
	//
	// The second answer does not show the changes of the first run. Absent may mean that the first run
	// removed the names, so it does not prove that a lease was lost. Granted may mean that the first run put
	// the names back. A Token equal to the operation's token may be its own. A denied Open may have opened
	// the node. A Denied may follow a grant, so the caller undoes it as if it were one.
	Repeated bool
	// Partial is set if a Release or a Shorten of several names was Released, but the owner no longer had some of them.
	Partial bool
	// HadMarker says, if Recovering is set, that the node had a marker when the recovery began; see [Marker].
	HadMarker bool
	// Unmarked says, if Inspected, that the node's recovery has not begun: the first acquisition or renewal
	// begins it.
	Unmarked bool
	// Holder says, if Denied, which owner is in the way. Of several, it is the one with the longest TTL.
	Holder Holder
	// Holders lists, if Inspected, the holders of the names; for a forced release, the holders that it
	// removed, without their tokens; for Once, the record, if there is one, with its text as the Owner.
	Holders []Holder
	// Rank says, if an Acquire with a Waiter was denied, how many waiters stand before it in the queue of the
	// Holder's name.
	Rank int
	// Token is not 0 if an acquisition was granted without its token and its block, since the node knows a
	// token at least as large: then it is the largest such token. For a reader that was granted the names it
	// is the largest of their fences.
	Token uint64
	// Recovering is how long the node will still give no new rights, since it has lost its memory. During
	// that time an acquisition fails with node.ErrRecovering. Renewals are served; the caller decides whether
	// they count.
	Recovering time.Duration
	// Pool is the state of the pool, if an Acquire or a Resize of it was denied. For Resize it has no Free,
	// and is zero if no size was ever set.
	Pool PoolState
	// Marker is the answer to Mark, and to an Open that was denied; otherwise nil.
	Marker *Marker
	// Latch is the answer to Latch and Unlatch. Granted means that the whole operation was done, Denied that
	// none of it was.
	Latch *LatchState
	// Standings is the answer to Refresh: one for each waiter, in their order.
	Standings []Standing
	// List is the answer to Enlist.
	List *ListReply
	// Err says why the outcome is Unknown. It is always an *node.Error.
	Err error
}

// RefusesCommand reports whether a server's error refuses the command itself, as its user lacks the right to the command or
// to one of its keys: then nothing of the operation ran. A script that lacks a right may have written before; all servers
// name the script in the error.
func RefusesCommand(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	return strings.HasPrefix(text, "NOPERM ") && !strings.Contains(text, "script")
}

// Readers stands for the readers of a name where a single holder is told.
//
// Any number of owners may read a name at the same time, each with its own TTL, and no other owner can have
// it meanwhile. A writer is an owner that acquires it without [Op.Reads], as for any lock. The Acquire of a
// reader is denied while a writer holds the name. If it is fair, it is also denied while an earlier writer
// waits. So a stream of readers does not keep writers out. Nor do writers keep readers out: readers before a
// writer do not wait for it. Waiting readers have a [ReaderID].
//
// A reader's Renew keeps or heals its reading; a name that its owner holds as a writer becomes one that it
// reads. Its Release removes both.
//
// A reader takes no token: it acts under the fence, the largest token that the node knows. If the node has
// forgotten the fence, the Acquire sets one. It is at least as large as any fence that the node may have
// forgotten. It is smaller than any token that the node accepts from a writer whose clock is right.
const Readers = "quorumlock:readers"

// LongReply is the first word of a server's error in the place of a list of too many holders.
const LongReply = "LONG"

// WithoutReaders removes holders that stand for all readers of a name.
func WithoutReaders(holders []Holder) []Holder {
	return slices.DeleteFunc(holders, func(h Holder) bool { return h.Owner == Readers })
}

// Package node is one independent Redis deployment, as the coordinator sees it:
// operations go in, answers come out, in order.
//
// [Redis] speaks to a real server (standalone, or a master found through Sentinel)
// with one Lua script for each operation; [Memory] keeps the same promises within the
// process. Both pass the conformance suite in node/nodetest, which is also the place
// to start for an implementation of your own.
package node

import (
	"context"
	"math"
	"time"
)

// Kind says what an [Op] asks of a node.
type Kind uint8

// The kinds of operation. Each is idempotent and absolute: repeating one, or
// delivering it twice, changes nothing that the first did not change.
const (
	// Acquire takes every name for the owner, or none. A name that the owner holds
	// already stays its own.
	Acquire Kind = iota + 1
	// Renew makes every name live for another TTL, and puts back names that are
	// absent. Where one name belongs to somebody else, or the owner was forced off
	// it, nothing is changed.
	Renew
	// Release removes the names that the owner holds; the others are left alone. Then it
	// wakes the first waiter of each name that is free, whether it was held or not.
	Release
	// Inspect reads who holds the names, and changes nothing.
	Inspect
	// ForceRelease removes the names whoever holds them, and leaves a tombstone for
	// each owner found or listed, so that its next renewal cannot put them back. It wakes
	// waiters as Release does.
	ForceRelease
	// Mark reads the node's marker. A node that has none, or that of an earlier life,
	// gets one and so begins its recovery, as the first acquisition would have it.
	Mark
	// Open ends the recovery of a node whose marker is still what a Mark answered. It
	// is for administrators, who know that the node has never granted anything.
	Open
	// Leave takes a waiter out of the queues of the names, and then wakes the first of
	// each name that is free, as Release does: who was woken and does not want the lock
	// any more passes that on.
	Leave
	// Resize sets how many slots a pool has, from now on and for all callers: the Size of
	// Op.Pool, which is to be of a later Version than any that the node knows. It takes nothing
	// from those who hold slots beyond. With Version 0 it is always denied, and so only asks.
	Resize
	// Latch reads a latch, and may set it, count it down, and give back what the node has
	// lost: see [LatchOp]. Its one name is that of the latch; locks have other keys.
	Latch
	// Unlatch deletes a latch, and makes its token the generation of the next, unless the node
	// has seen one that is as large. A node without the latch notes that too.
	Unlatch
)

// String returns the name of the operation, as it stands in errors and logs.
func (k Kind) String() string {
	switch k {
	case Acquire:
		return "acquire"
	case Renew:
		return "renew"
	case Release:
		return "release"
	case Inspect:
		return "inspect"
	case ForceRelease:
		return "force-release"
	case Mark:
		return "mark"
	case Open:
		return "open"
	case Leave:
		return "leave"
	case Resize:
		return "resize"
	case Latch:
		return "latch"
	case Unlatch:
		return "delete latch"
	default:
		return "unknown operation"
	}
}

// Op is one operation on one node. It takes effect for all of its names at one
// instant of the node.
type Op struct {
	Kind Kind
	// Reads has Acquire, Renew and Release be those of a reader; see [Readers].
	Reads bool
	// Fair has an Acquire leave a free name to those who wait before its Waiter, or to all
	// who wait if it has none; else it takes a free name whoever waits. See [Waiter].
	Fair bool
	// Announce has Release and ForceRelease also tell Redisson's clients of each name that
	// they removed, on the channel on which those wait for it. That needs a right of its own;
	// without it nobody is told, and the release is one all the same. See [Follower].
	Announce bool
	// Names are the locks, at least one, without duplicates; none for Mark and Open.
	Names []string
	// Owner identifies one round of acquisition, and is never used in another
	// (else the late release of one round could undo the next). ForceRelease and Inspect leave it empty.
	Owner string
	// TTL is how long the node keeps the names without renewal, in whole
	// milliseconds; for ForceRelease, how long it keeps the tombstones at least: one
	// lasts as long as the lock that it is for would have.
	TTL time.Duration
	// Buried lists, for ForceRelease, owners to leave a tombstone for besides those
	// that are found: owners that other nodes know of.
	Buried []string
	// Token is the fencing token that Acquire proposes and Renew repeats: microseconds
	// since the Unix epoch by the client's clock, or one more than a larger one seen.
	Token uint64
	// Reserve is, for Acquire, how many tokens directly behind Token are reserved for the
	// owner too: the node keeps Token+Reserve, the end of the block, as the fence, and refuses
	// an end that is too far ahead as it does a token. A Renew, which has to put back the
	// whole of it, repeats the end as its Token.
	Reserve uint64
	// Floor is, for the Acquire of a reader, a token that the node keeps as the fence unless
	// it knows one as large; 0 is none.
	Floor uint64
	// Limits are those of the client, for Acquire, Renew, Mark and Open; for Inspect,
	// by which it says how long a recovery that has not begun will take.
	Limits Limits
	// Marker is what Mark answered, for Open; nil for the others.
	Marker *Marker
	// Waiter is, for Acquire, who waits for the names if it is denied, and for Leave who
	// does not any more. For Release it is on whose behalf they were acquired: if its Keep
	// is 0 it leaves the queues; else it tries again, so it has its entries, and is not the
	// one to be woken. For the Renew of a reader it is on whose behalf it was a writer, if it
	// was: it leaves the queues of what it still held as that. Zero is nobody.
	Waiter Waiter
	// Pool says that the names are slots of a pool; see there. Names is then all of those that are
	// asked for, for Leave and Resize the name of the pool itself.
	Pool Pool
	// Latch is what Latch and Unlatch ask; nil for the others.
	Latch *LatchOp
}

// end is the last token of the block, or the largest one that there is if it would be beyond;
// for a reader, the largest that the node may keep.
func (o Op) end() uint64 {
	if o.Reads {
		return max(o.Token, o.Floor)
	}
	if end := o.Token + o.Reserve; end >= o.Token {
		return end
	}
	return math.MaxUint64
}

// found is the marker for which an Open is meant; a zero one is no node's.
func (o *Op) found() Marker {
	if o.Marker == nil {
		return Marker{}
	}
	return *o.Marker
}

// Outcome is what a node did about an [Op].
type Outcome uint8

// The outcomes. The zero value is that of an operation without an answer.
const (
	// Unknown means no usable answer: it may have happened. [Reply.Err] says why,
	// and [Reply.Unsent] whether the node can have seen it at all.
	Unknown Outcome = iota
	// Granted: the names belong to the owner for a TTL from now. For Open: the node
	// gives new rights from now on; for Resize: this is the size.
	Granted
	// Healed: as Granted, by a renewal that had to put at least one name back.
	Healed
	// Denied: another owner has one of the names, or (fair acquire) the right to the
	// next turn, or (renew) the owner was forced off, or (open) the marker is another by
	// now, or (resize) a later size is known. Nothing was changed, but that a Waiter has its entries.
	Denied
	// Released: at least one name was removed; for Leave, one entry.
	Released
	// Absent: there was nothing to remove.
	Absent
	// Inspected: [Reply.Holders] has the answer; for Mark, [Reply.Marker].
	Inspected
)

// String returns the name of the outcome.
func (o Outcome) String() string {
	switch o {
	case Unknown:
		return "unknown"
	case Granted:
		return "granted"
	case Healed:
		return "healed"
	case Denied:
		return "denied"
	case Released:
		return "released"
	case Absent:
		return "absent"
	case Inspected:
		return "inspected"
	default:
		return "invalid outcome"
	}
}

// NoExpiry is the TTL of a [Holder] whose key never expires. This library never
// writes such a key.
const NoExpiry time.Duration = -1

// Holder is who has a name on one node, and for how long.
type Holder struct {
	Name string
	// Owner is the id of the holder, as in [Op.Owner]. It is empty in the denial of
	// a renewal whose owner was forced off, and in that of a fair acquisition of a name
	// that is free, but is left to another waiter.
	Owner string
	// TTL is what the node says is left before the name frees itself, or
	// [NoExpiry]; of a name that is left to a waiter, for how long it is.
	TTL time.Duration
	// Token is the largest fencing token of the name that the node knows of, or 0: of
	// this holder, or of a contender that came to nothing.
	Token uint64
	// Reads is set, where holders are listed, for a reader: others may read the name too. In a
	// denial, readers stand as one, whose Owner is [Readers].
	Reads bool
}

// Reply is a node's answer to one [Op].
type Reply struct {
	Outcome Outcome
	// Unsent is true if the operation certainly never reached the node: then there
	// is nothing to undo.
	Unsent bool
	// Repeated is true if the operation may have run twice within this call, and this is the answer
	// to the second run: the connection broke before the first answer came. An implementation that
	// sends operations again on a new connection has to set it. The second answer does not show the
	// changes of the first run. Absent may mean that the first run removed the names, so it is no
	// proof that a lease was lost. Granted may mean that the first run put the names back. A Token
	// that is as large as the token of the operation may be the operation's own. A denied Open may
	// have opened the node. A Denied may follow a grant, so the caller undoes it as one.
	Repeated bool
	// Partial is set, if a Release of several names was Released, when the owner no longer
	// had some of them.
	Partial bool
	// Restarted says, if Recovering, that it came back with a marker of an earlier
	// life, or that its limits were changed; else it had no marker.
	Restarted bool
	// Unmarked says, if Inspected, that the node has not begun to recover: it will, with
	// the first acquisition or renewal.
	Unmarked bool
	// Holder says, if Denied, who stands in the way: of several, the one whose TTL
	// is longest.
	Holder Holder
	// Holders says, if Inspected, who holds which names; for a forced release, who
	// held them until then.
	Holders []Holder
	// Rank says, if an Acquire with a Waiter was denied, how many wait before it for the
	// name of the Holder.
	Rank int
	// Token is not 0 if an acquisition was granted, but its token not taken, nor anything
	// reserved, since the node knows one that is as large or larger: the largest such. For a
	// reader that was granted the names it is the fence, of several the largest.
	Token uint64
	// Recovering is how long the node will still give no new rights, as it has lost
	// its memory. An acquisition fails with [ErrRecovering] meanwhile; renewals are
	// served, and it is up to the caller what they count for.
	Recovering time.Duration
	// Pool is, if an Acquire or a Resize of a pool was denied, what is in force there;
	// for Resize without Free, and zero if no size was ever set.
	Pool PoolState
	// Marker is the answer to Mark, and to an Open that was denied; nil for all else.
	Marker *Marker
	// Latch is the answer to Latch and Unlatch. Granted means that all was done that was
	// asked, Denied that nothing was.
	Latch *LatchState
	// Err says why the outcome is Unknown. It is always an [*Error].
	Err error
}

// Node is one independent Redis deployment.
//
// All methods are safe for concurrent use. A Node bounds each call by a timeout of its
// own, whatever the context allows, so that a hung server cannot hold a caller for
// ever.
type Node interface {
	// Name identifies the node to people and tells nodes apart: usually host:port.
	// It holds no secrets.
	Name() string
	// Identity tells servers apart, whatever they are called: two nodes with one
	// identity are one server. It is that of the server at the last connect, or
	// later, and empty before the first. It changes when the server restarts or fails over.
	Identity() string
	// Do runs the operations in order, in one exchange where it can, and stores the
	// answer to ops[i] in replies[i]; the slices have one length. Calls that do not
	// overlap take effect in the order of the calls, also across a reconnect:
	// nothing that was sent before can run behind something that is sent later.
	Do(ctx context.Context, ops []Op, replies []Reply)
	// Probe reports whether the node answers, at the least possible cost, and
	// connects to it where necessary.
	Probe(ctx context.Context) error
	// Close frees the connection. Calls under way and later ones fail with
	// ErrClosed or a broken connection. Closing twice is harmless.
	Close() error
}

// Connector is a [Node] that can say whether it is connected. A caller first has such a node connect,
// by Probe, because that may take longer than an operation. Otherwise Do connects.
type Connector interface {
	Node
	// Connected reports whether there is a usable connection, as far as the client knows without
	// sending anything. It does not block. A closed node counts as connected, so that Do answers
	// with ErrClosed.
	Connected() bool
}

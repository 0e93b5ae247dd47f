package wire

import "time"

// LatchOp has the arguments of a [Latch] or an [Unlatch] besides the name and the TTL.
//
// A node keeps three things of a latch: its generation, which is the token of the last deletion, or 0; the
// count to which it was set in that generation; and the ids that have counted down since.
type LatchOp struct {
	// Exact is set if the operation is for one Generation: then state of an earlier generation on the node is
	// void. Otherwise the operation is for the generation on the node. It is denied if that generation's
	// token is at least as large as the token of the operation, since the generation began later then.
	Exact      bool
	Generation uint64
	// Count, if not 0, is the count to set if the latch is not set. First says that no node knew it: then the
	// node must give new rights, and records the token as the beginning. Otherwise Since is the beginning,
	// and replaces a later one. Chosen says that enough nodes have this Count: then it replaces another
	// count.
	Count         int
	First, Chosen bool
	Since         uint64
	// Void deletes the state of an earlier generation from the node, even if nothing is set in its place.
	Void bool
	// IDs count down, each once. They are kept only if the latch is set, and to Count if that is not 0. A
	// latch that has as many ids as it was set to keeps no more.
	IDs []string
	// Whole, if not 0, says that IDs are all ids that enough other nodes knew. Those nodes were asked after
	// this node reported a marker that says it remembers everything since Whole.
	Whole int64
	// List asks for all ids.
	List bool
	// Inbox is the id of a client that waits, or empty. The client gets [Counted] when enough ids have
	// counted down on this node, and when the latch is deleted, if that happens within Keep. With a Keep of 0
	// the node forgets the inbox.
	Inbox string
	Keep  time.Duration
}

// LatchState is the state of a latch on a node after a [Latch] or an [Unlatch].
type LatchState struct {
	// Generation, Count and Since are as in [LatchOp].
	Generation uint64
	Count      int
	Since      uint64
	// Last is the largest token of any operation in this generation.
	Last uint64
	// Lost is when the node noticed its last loss of memory, from its marker, in microseconds; 0 if there was none.
	Lost int64
	// Whole is set if clients have given the latch back since the node lost its memory.
	Whole bool
	// Born is when the node learned that the latch is set, by its own clock, or 0. While Generation, Lost
	// and Born stay the same, the node has forgotten nothing.
	Born int64
	// Size is the number of ids on the node. IDs are the ids if they were asked for, in the order of their
	// bytes.
	Size int
	IDs  []string
}

// MaxLatchCount is the largest number to which a latch may be set. One reply lists all its ids, and a long
// operation blocks the server.
const MaxLatchCount = 1000

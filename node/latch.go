package node

import "time"

// LatchOp is what a [Latch] or an [Unlatch] asks besides the name and the TTL.
//
// A node keeps of a latch: its generation, which is the token of the last deletion, or 0; the
// count to which it was set in that generation; and the ids that have counted down since.
type LatchOp struct {
	// Exact is set if the operation is for one Generation: what the node has of an earlier one
	// is void then. Otherwise it is for that which the node has, unless that is of a
	// deletion with a token as large as that of the operation, and so began later.
	Exact      bool
	Generation uint64
	// Count, if not 0, is what the latch is set to where it is not set. First is set if it was
	// not known before: the node has to be one that gives rights, and the token is
	// noted as the beginning; else Since is, and that also replaces a later one. Chosen is set if enough nodes have this Count: then
	// it replaces another one.
	Count         int
	First, Chosen bool
	Since         uint64
	// Void has what the node has of an earlier generation deleted, even if nothing is set in its
	// place.
	Void bool
	// IDs count down, each once. They are kept only where the latch is set, to Count if that is
	// not 0.
	IDs []string
	// Whole, if not 0, says that IDs are all that enough other nodes knew after this node told
	// of its marker that it ends its recovery at that time.
	Whole int64
	// List has ids told, in the order in which the node was told of them: those from place From
	// on, at most [MaxListed] of them.
	List bool
	From int
	// Inbox is, for who waits, the id of the client. It gets [Counted] when as many have counted
	// down on this node as it takes, and when the latch is deleted, if that happens within
	// Keep. With a Keep of 0 it is forgotten.
	Inbox string
	Keep  time.Duration
}

// LatchState is what a node knows of a latch after a [Latch] or an [Unlatch].
type LatchState struct {
	// Generation, Count and Since are as in [LatchOp].
	Generation uint64
	Count      int
	Since      uint64
	// Last is the largest token that came with an operation in this generation.
	Last uint64
	// Until is the end of the node's recovery as it stands in its marker: when it lost its
	// memory, in microseconds, and how long a recovery lasts. 0 is never.
	Until int64
	// Whole is set if the latch was given back since to a node that had lost its memory.
	Whole bool
	// Born is when the node was told that the latch is set, by its own clock, or 0. As long as
	// Generation, Until and Born are the same, the node has forgotten nothing, and each id keeps its place.
	Born int64
	// Size is the number of ids on the node. IDs are the listed ones, in the order of their places.
	Size int
	IDs  []string
}

// MaxListed is how many ids of a latch one operation lists at most, and how many one should carry:
// each operation keeps the server from others.
const MaxListed = 1000

// countedText is what is sent to an inbox: as other messages are, but about all who wait for
// the name in that client.
const countedText = "counted"

package wire

import "slices"

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

// WithoutReaders removes holders that stand for all readers of a name.
func WithoutReaders(holders []Holder) []Holder {
	return slices.DeleteFunc(holders, func(h Holder) bool { return h.Owner == Readers })
}

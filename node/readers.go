package node

import "slices"

// Readers is who holds a name that is read, as far as anybody else can tell.
//
// Any number of owners may read a name at the same time, each for a TTL of its own, and nobody
// else can have it meanwhile: who acquires it without [Op.Reads], the writer, is an owner like
// that of any lock. An Acquire of a reader is denied by a writer that has the name, and, if it
// is fair, by one that waits for it and came before: so writers are not kept out by readers
// that come one after another, nor readers by writers, as those who came before a writer do
// not wait for it. Their waiters have a [ReaderID].
//
// A reader's Renew keeps and puts back what a reader has; what its owner has as a writer, it
// turns into that of a reader. Its Release removes both.
//
// A reader takes no token: it acts under the largest that the node knows of, the fence. Where
// the node knows none any more, the Acquire sets one that is as large as all that it may have
// forgotten, and smaller than any that it takes from a writer whose clock is right.
const Readers = "quorumlock:readers"

// minTTL is the fence that the Acquire of a reader sets where there is none, with its Token and
// the node's clock, in microseconds.
func minTTL(op Op, now int64) uint64 {
	common := op.Token
	if l := op.Limits; l.MaxTTL > l.MaxClockSkew {
		common -= min(common, uint64((l.MaxTTL - l.MaxClockSkew).Microseconds()))
	}
	return max(common, uint64(max(now-op.Limits.MaxTTL.Microseconds(), 0)))
}

// oneReader leaves out, in a list of holders, the readers that stand for all of a name.
func oneReader(holders []Holder) []Holder {
	return slices.DeleteFunc(holders, func(h Holder) bool { return h.Owner == Readers })
}

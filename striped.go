package quorumlock

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	"github.com/quorumlock/quorumlock/quorum"
)

// Striped maps any number of names onto a fixed number of locks, its stripes, so that the
// nodes and this client know of no more locks than that. Two names that fall on one stripe
// exclude each other although they need not: the more stripes, the more seldom. It is made by
// [Client.Striped]; it is immutable, and safe for concurrent use.
//
// Stripe i is the lock that RedLock("<prefix>:<i>") describes. The stripe of a name is the
// FNV-1a hash of its bytes, 64 bits wide, whose bits are then mixed as MurmurHash3 does in the
// end, modulo the number of stripes. That stays so in all versions of this library: every
// process finds the same stripe, of whatever version it is. All users of a prefix have to use
// the same number of stripes, else they do not exclude each other.
type Striped struct {
	client   *Client
	prefix   string
	stripes  int
	problems []string
}

// MaxStripes is the largest number of stripes.
const MaxStripes = 1 << 20

// Striped makes a set of so many stripes, from 1 to MaxStripes, whose locks have names that
// begin with a prefix. What is wrong with these is reported by every method of its locks, as
// an [*InvalidError].
func (c *Client) Striped(prefix string, stripes int) *Striped {
	s := &Striped{client: c, prefix: prefix, stripes: stripes}
	if stripes < 1 || stripes > MaxStripes {
		s.problems = append(s.problems, fmt.Sprintf("%d stripes are not between 1 and %d", stripes, MaxStripes))
		s.stripes = 1
	}
	if prefix == "" {
		s.problems = append(s.problems, "the prefix of the stripes is empty")
	}
	return s
}

// Stripe is the number of the stripe of a name, from 0.
func (s *Striped) Stripe(name string) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // it never fails
	return int(mixHash(h.Sum64()) % uint64(s.stripes))
}

// mixHash spreads what is in each bit over all of them. FNV-1a alone does not: its lowest bit is
// the sum of the lowest bits of all bytes, and would put all even numbers on one of two stripes.
func mixHash(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// Lock is the lock of the stripe of a name. A majority of the nodes has to grant it, unless
// [Lock.With] says otherwise. The name may have any length, but must not be empty.
//
// Names that are needed together are to be taken by [Striped.Locks]: who takes one behind
// the other may wait for itself, or two who do so in opposite orders for each other, however
// different all their names are. With the context of a lease of the same stripe the lock is
// held already, as with every lock; see [Lock.Acquire].
func (s *Striped) Lock(name string) *Lock { return s.Locks(name) }

// Locks is one lock on the stripes of several names, all or none, taken in one step: each
// stripe once, however many of the names fall on it. There must be at least one name, and no
// more than MaxNames stripes of them.
func (s *Striped) Locks(names ...string) *Lock {
	stripes := make([]int, 0, len(names))
	given := slices.Clone(s.problems)
	for _, name := range names {
		if name == "" {
			given = append(given, "a name is empty")
		}
		stripes = append(stripes, s.Stripe(name))
	}
	slices.Sort(stripes)
	var locks []string
	for _, i := range slices.Compact(stripes) {
		locks = append(locks, s.prefix+":"+strconv.Itoa(i))
	}
	l := newLock(s.client, locks, quorum.Majority())
	l.problems, l.ownProblems = append(given, l.problems...), int32(len(given)) //nolint:gosec // a few
	return l
}

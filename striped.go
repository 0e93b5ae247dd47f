package quorumlock

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	"github.com/quorumlock/quorumlock/quorum"
)

// Striped maps any number of names onto a fixed number of locks, its stripes. So nodes and clients
// handle only that many locks. Two names on one stripe exclude each other needlessly; with more
// stripes this is rarer. It is made by [Client.Striped]. It is immutable, and safe for concurrent
// use.
//
// Stripe i is the lock RedLock("<prefix>:<i>"). The stripe of a name is hash(name) mod stripes. The
// hash is the 64-bit FNV-1a of its bytes, finalized as in MurmurHash3. All versions of this library
// keep this mapping. All users of a prefix must use the same number of stripes, or they do not
// exclude each other.
type Striped struct {
	client   *Client
	prefix   string
	stripes  int
	problems []string
}

const maxStripes = 1 << 20

// Striped describes a set of stripes, from 1 to 1,048,576, whose locks have names that begin with
// prefix. Every method of its locks reports invalid arguments, as an [*InvalidError].
func (c *Client) Striped(prefix string, stripes int) *Striped {
	s := &Striped{client: c, prefix: prefix, stripes: stripes}
	if stripes < 1 || stripes > maxStripes {
		s.problems = append(s.problems, fmt.Sprintf("%d stripes requested, the range is 1 to %d", stripes, maxStripes))
		s.stripes = 1
	}
	if prefix == "" {
		s.problems = append(s.problems, "the prefix of the stripes is empty")
	}
	return s
}

// stripe returns the number of a name's stripe, from 0.
func (s *Striped) stripe(name string) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return int(mixHash(h.Sum64()) % uint64(max(s.stripes, 1)))
}

// mixHash spreads each bit over all bits. FNV-1a alone does not: its lowest bit is the sum of the
// lowest bits of all bytes. That would put all even numbers on one of two stripes.
func mixHash(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// Locks returns one lock on the stripes of several names, all or none, taken in one step. It needs a majority of the nodes,
// unless [Lock.With] says otherwise. Names on the same stripe count once. There must be at least one name, and at most
// MaxNames stripes. A name may have any length, but must not be empty.
//
// Take names that are needed together in one call. A caller that takes them one after another may wait for itself if they
// share a stripe. Two callers may deadlock, even with different names. If the context holds a lease of the same stripes, the
// call gets a nested lease; see [Lock.Acquire].
func (s *Striped) Locks(names ...string) *Lock {
	if s.client == nil {
		return &Lock{}
	}
	stripes := make([]int, 0, len(names))
	given := slices.Clone(s.problems)
	for _, name := range names {
		if name == "" {
			given = append(given, "a name is empty")
		}
		stripes = append(stripes, s.stripe(name))
	}
	slices.Sort(stripes)
	var locks []string
	for _, i := range slices.Compact(stripes) {
		locks = append(locks, s.prefix+":"+strconv.Itoa(i))
	}
	l := newLock(s.client, locks, quorum.Majority())
	l.addProblems(given...)
	return l
}

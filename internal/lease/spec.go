package lease

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/slots"
)

// Spec says what to acquire, and how. It is made once for each lock, and immutable.
type Spec struct {
	// Names are the names on the nodes, sorted. For a semaphore they are the slots of an attempt,
	// or the name of its pool.
	Names []string
	// Queue identifies the local queue: the name, or several names with their lengths, or the pool
	// of a semaphore. It is an array, so that Names of a lock with one name need no memory.
	Queue [1]string
	// Label is the readable part of owner ids, with a space before it, or empty.
	Label string
	// Need is the number of nodes of the rule.
	Need                  int
	TTL, MinHold, MaxHold time.Duration
	// MaxOutage bounds how long its waiters go on while too few nodes answer. 0 is no bound, and a negative one is none at
	// all: the first attempt that fails so is the last.
	MaxOutage time.Duration
	// Slots is the request for permits of a semaphore, or nil for a lock.
	Slots *slots.Request
	// Fixed turns renewal off.
	Fixed bool
	// Reads is set for readers, which share the lock.
	Reads bool
	// Spins is set for waiters that poll: nodes keep no queue for them.
	Spins bool
	// HandOver is set if a lease may be handed over to another waiter of the client.
	HandOver bool
	// Prefix is the length of the client's prefix, with which all Names of a lock begin.
	Prefix uint8
}

// DisplayName returns the name to show for a name of the lock, which is the name without the
// client's prefix. For a slot, it is the semaphore's.
func (s *Spec) DisplayName(name string) string {
	if s.Slots != nil {
		return s.Slots.Semaphore
	}
	return name[min(int(s.Prefix), len(name)):]
}

// returnSlots ends what an attempt began when it chose its slots.
func (s *Spec) returnSlots(released bool) {
	if s.Slots != nil {
		s.Slots.GiveUp(s.Names, released)
	}
}

// firstTTL is the TTL of an acquisition. With it the nodes keep the lock for the MinHold by themselves, whatever
// becomes of its holder.
func (s *Spec) firstTTL() time.Duration {
	if s.MinHold == 0 {
		return s.TTL
	}
	return max(s.TTL, decision.TTLFor(s.MinHold))
}

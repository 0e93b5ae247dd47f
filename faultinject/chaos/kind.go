package chaos

import (
	"slices"

	"github.com/quorumlock/quorumlock/faultinject/history"
)

// Kind is a kind of object that clients use.
type Kind string

// The kinds.
const (
	// Lock stands for locks of one or two names, on a majority or on all nodes.
	Lock Kind = "lock"
	// Semaphore stands for permits, one or several at once.
	Semaphore Kind = "semaphore"
	// RWLock is a lock of readers and writers. Some writers become readers.
	RWLock Kind = "rwlock"
	// Latch stands for latches, one after the other.
	Latch Kind = "latch"
	// Join stands for locks of several kinds that are acquired together or not at all. Other workers hold single
	// ones.
	Join Kind = "join"
)

// Kinds are all that there are.
func Kinds() []Kind { return []Kind{Lock, Semaphore, RWLock, Latch, Join} }

// The objects of each kind. Latches are not among them, because each is new.
var objects = map[Kind][]history.Object{
	Lock:      {{Of: history.Lock, Name: "alpha"}, {Of: history.Lock, Name: "beta"}},
	Semaphore: {{Of: history.Semaphore, Name: "gamma"}},
	RWLock:    {{Of: history.Lock, Name: "delta"}},
	Join:      {{Of: history.Lock, Name: "east"}, {Of: history.Semaphore, Name: "pool"}, {Of: history.Lock, Name: "west"}},
}

// Clients use further objects if they use every operation. forced is a lock that they also release by force: of its leases
// only the order of tokens is promised, because a forced release may arrive late. resized is a semaphore that gets other
// sizes, up to the one that clients are configured with. Nodes that lose their memory forget the size.
var (
	forced  = history.Object{Of: history.Lock, Name: "forced"}
	resized = history.Object{Of: history.Semaphore, Name: "sized"}
)

// Sizes of the semaphores.
const (
	gammaSize   = 2
	resizedSize = 3
	poolSize    = 2
)

func kindOf(t history.Object) Kind {
	for kind, all := range objects {
		if slices.Contains(all, t) {
			return kind
		}
	}
	switch t.Of {
	case history.Lock:
		return Lock
	case history.Semaphore:
		return Semaphore
	default:
		return Latch
	}
}

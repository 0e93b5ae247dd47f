package chaos

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/faultinject/history"
)

// Kind is a kind of thing that clients use.
type Kind string

// The kinds.
const (
	// Lock is locks of one name or two, of a majority or of all nodes.
	Lock Kind = "lock"
	// Semaphore is permits, one or several at once.
	Semaphore Kind = "semaphore"
	// RWLock is a lock of readers and writers, some of whom become readers.
	RWLock Kind = "rwlock"
	// Latch is latches, one after the other.
	Latch Kind = "latch"
	// Join is locks of several kinds that are held together or not at all, beside those who
	// hold one of them.
	Join Kind = "join"
)

// Kinds are all that there are.
func Kinds() []Kind { return []Kind{Lock, Semaphore, RWLock, Latch, Join} }

// ParseKinds reads the names of kinds, with commas between them.
func ParseKinds(text string) ([]Kind, error) {
	var kinds []Kind
	for word := range strings.SplitSeq(text, ",") {
		kind := Kind(strings.TrimSpace(word))
		if !slices.Contains(Kinds(), kind) {
			return nil, fmt.Errorf("chaos: no kind is called %q; there are %v", word, Kinds())
		}
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds, nil
}

// thing is something that clients fight over: what can be held, under one name.
type thing struct {
	of   history.Type
	name string
}

// The things of each kind. Latches are not among them: there are ever new ones.
var things = map[Kind][]thing{
	Lock:      {{history.Lock, "alpha"}, {history.Lock, "beta"}},
	Semaphore: {{history.Semaphore, "gamma"}},
	RWLock:    {{history.Lock, "delta"}},
	Join:      {{history.Lock, "east"}, {history.Semaphore, "pool"}, {history.Lock, "west"}},
}

// The semaphores have so many permits.
const (
	gammaSize = 2
	poolSize  = 2
)

// kindOf is the kind that a thing is of.
func kindOf(t thing) Kind {
	for kind, all := range things {
		if slices.Contains(all, t) {
			return kind
		}
	}
	return Latch
}

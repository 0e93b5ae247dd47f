package quorumlock

import (
	"errors"
	"fmt"
)

// What can go wrong with a latch, for errors.Is.
var (
	// ErrLatchNotSet: the latch is not set, or its TTL has passed without any use.
	ErrLatchNotSet = errors.New("quorumlock: latch not set")
	// ErrLatchDeleted: the latch was deleted while the call was waiting for it.
	ErrLatchDeleted = errors.New("quorumlock: latch deleted")
	// ErrLatchSet: the latch is set to another number. See [LatchSetError].
	ErrLatchSet = errors.New("latch set to another number")
)

// wrapError is an error with the name of the latch.
func (l *Latch) wrapError(err error) error { return fmt.Errorf("%w: %q", err, l.name[0]) }

// LatchSetError says what a latch is set to instead. It is an ErrLatchSet.
type LatchSetError struct {
	Name string
	// Count is what it is set to, or what some nodes say if not Chosen.
	Count int
	// Chosen is set if a majority of the nodes agrees on Count. Otherwise others set it at the
	// same time, or did not finish.
	Chosen bool
}

// Error says what the latch is set to.
func (e *LatchSetError) Error() string {
	if e.Chosen {
		return fmt.Sprintf("quorumlock: latch %q is set to %d", e.Name, e.Count)
	}
	return fmt.Sprintf("quorumlock: latch %q was set to different numbers at the same time, %d on some nodes, and no majority agrees on one", e.Name, e.Count)
}

// Is makes it an ErrLatchSet.
func (e *LatchSetError) Is(target error) bool { return target == ErrLatchSet }

// latchOpenError says how far a latch had come when somebody stopped waiting for it.
type latchOpenError struct {
	name        string
	left, count int
}

func (e *latchOpenError) Error() string {
	return fmt.Sprintf("quorumlock: latch %q: %d of %d have still to count down", e.name, e.left, e.count)
}

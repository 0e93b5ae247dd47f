package fence

import (
	"errors"
	"fmt"
)

var (
	// ErrStale means that a later holder has been here: nothing was written, and nothing
	// will be with this token. The lock has to be taken again, and what was read under
	// the old lease has to be read again.
	ErrStale = errors.New("fence: the token is stale: a later holder of the lock has been here")
	// ErrNoToken means that the token is 0, which no lease has: somebody forgot to pass it.
	ErrNoToken = errors.New("fence: the token is 0, which means that there is none: pass the Token of the lease")
)

// StaleError is an [ErrStale] that knows the two tokens.
type StaleError struct {
	// Token is the one that was refused.
	Token uint64
	// Seen is the largest that was seen before.
	Seen uint64
}

// Error names both tokens.
func (e *StaleError) Error() string {
	return fmt.Sprintf("fence: token %d is stale: a later holder of the lock has been here, with %d", e.Token, e.Seen)
}

// Is makes it an ErrStale.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

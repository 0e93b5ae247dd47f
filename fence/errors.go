package fence

import (
	"errors"
	"fmt"
)

var (
	// ErrStale means that a later holder has shown its token. Nothing was written, and every later write with this
	// token will fail, too. Acquire the lock again, and read again all data that was read under the old lease.
	// [Check] also returns it if the row does not exist; [Explain] tells which.
	ErrStale = errors.New("fence: stale token: the resource has seen a larger one")
	// ErrNoToken means that the token is 0, which no lease has: the caller did not pass it.
	ErrNoToken = errors.New("fence: no token: pass the Token of the lease, not 0")
)

// StaleError is an [ErrStale] with the two tokens.
type StaleError struct {
	// Token is the refused token.
	Token uint64
	// Seen is the largest token that was seen before.
	Seen uint64
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("fence: token %d is stale: the largest seen is %d", e.Token, e.Seen)
}

// Is reports whether target is ErrStale.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

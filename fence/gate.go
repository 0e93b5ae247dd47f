package fence

import (
	"errors"
	"fmt"
	"sync"
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

// Gate admits the holder of the largest token to a resource that only this process can reach. It also excludes
// concurrent accesses, as a mutex does. The zero value has seen no token, which is right for a resource that starts
// anew with the process. For a resource that outlives it, store the token along with the data, and use [NewGate].
//
// There is no Gate for a set of names: it would either grow forever, or forget. Keep one Gate with the data of each
// name.
//
// A Gate is safe for concurrent use, and must not be copied after first use.
type Gate struct {
	mu   sync.Mutex
	seen uint64
}

// NewGate makes a gate that has seen a token in an earlier life of the process, or none if seen is 0.
func NewGate(seen uint64) *Gate { return &Gate{seen: seen} }

// Do calls access if no larger token was seen, and returns its result. Otherwise it fails with a [*StaleError], or
// with [ErrNoToken] if the token is 0, without calling access.
//
// No other call enters the gate until access returns, even with a larger token: an admitted write must not continue
// while a later holder's begins. So access must end in bounded time, must leave nothing running, and must not use the
// gate itself.
//
// A read must pass the gate too if a write will depend on it; see the package documentation. The token counts as seen
// even if access fails or panics: its holder came later in any case.
func (g *Gate) Do(token uint64, access func() error) error {
	if token == 0 {
		return ErrNoToken
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if token < g.seen {
		return &StaleError{Token: token, Seen: g.seen}
	}
	g.seen = token
	return access()
}

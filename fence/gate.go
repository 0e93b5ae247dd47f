package fence

import "sync"

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

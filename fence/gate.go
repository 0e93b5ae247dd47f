package fence

import "sync"

// Gate admits the holder of the largest token to something that only this process can
// reach. Put one beside what it guards, as you would a mutex; it serves as one. The zero
// value has seen no token, which is right for what starts anew with the process. For
// what outlives it, store the token along with the data, and use [NewGate].
//
// There is none for a set of names: it would either grow for ever, or forget. Put
// a Gate into whatever you already have for each name.
//
// It is safe for concurrent use, and must not be copied after first use.
type Gate struct {
	mu   sync.Mutex
	seen uint64
}

// NewGate makes a gate that has seen a token in an earlier life of the process, or none
// if it is 0.
func NewGate(seen uint64) *Gate { return &Gate{seen: seen} }

// Do runs access if no larger token was seen, and returns what it returns. Otherwise it
// fails with a [*StaleError], or with [ErrNoToken] if the token is 0, without a call of
// access.
//
// Nothing else gets through the gate until access returns, be its token larger or not:
// a write that was admitted must not go on while a later holder's begins. So access has
// to end in bounded time, must leave nothing running, and must not use the gate itself.
//
// Reads have to pass too if a write will be based on them; see the package
// documentation. A token counts as seen also where access fails or panics: its holder
// came later all the same.
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

package fleet

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock"
)

// Referee checks all grants of one name: no two leases are valid at once, and tokens grow.
type Referee struct {
	T    *testing.T
	mu   sync.Mutex
	last *quorumlock.Lease
}

// Grant checks a lease that was just granted. It may run in any goroutine.
func (r *Referee) Grant(l *quorumlock.Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last != nil {
		assert.Error(r.T, r.last.Err(), "two leases are valid at once")               //nolint:testifylint // runs in any goroutine
		assert.Error(r.T, r.last.Context().Err(), "a context has outlived its lease") //nolint:testifylint // runs in any goroutine
		assert.Greater(r.T, l.Token(), r.last.Token())
	}
	r.last = l
}

// Token returns the token of the last grant.
func (r *Referee) Token() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		return 0
	}
	return r.last.Token()
}

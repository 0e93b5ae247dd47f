// Package witness has what sees whether promises about leases are kept, for tests.
package witness

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// Permits knows the leases of a semaphore that are valid by their own clocks, and fails the test
// when there are too many, when two have one slot, or when the tokens of a slot do not grow.
type Permits struct {
	t    testing.TB
	most int

	mu     sync.Mutex
	leases map[*quorumlock.Lease]bool
	// tokens has the largest token of each slot so far.
	tokens map[int]uint64
	grants int
}

// OfPermits is a witness of a semaphore with so many permits.
func OfPermits(t testing.TB, most int) *Permits {
	return &Permits{t: t, most: most, leases: map[*quorumlock.Lease]bool{}, tokens: map[int]uint64{}}
}

// Enter is called by a holder, once it has its lease.
func (p *Permits) Enter(lease *quorumlock.Lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if lease.Err() != nil {
		return
	}
	p.grants++
	p.leases[lease] = true
	permits, owners := 0, make(map[int]string)
	for other := range p.leases {
		if other.Err() != nil {
			continue
		}
		for _, slot := range other.Slots() {
			permits++
			require.Empty(p.t, owners[slot], "slot %d is held twice", slot)
			owners[slot] = other.Owner()
		}
	}
	require.LessOrEqual(p.t, permits, p.most, "more permits are held than there are")
	for _, slot := range lease.Slots() {
		require.Greater(p.t, lease.Token(), p.tokens[slot], "tokens of slot %d", slot)
		p.tokens[slot] = lease.Token()
	}
}

// Leave is called by a holder before it gives its lease back.
func (p *Permits) Leave(lease *quorumlock.Lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.leases, lease)
}

// Grants is how many leases there have been.
func (p *Permits) Grants() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.grants
}

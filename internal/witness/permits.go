// Package witness checks promises about leases in tests.
package witness

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// Permits tracks the leases of a semaphore that are valid by their own clocks. It fails the test if there are too
// many, if two have the same slot, or if the tokens of a slot do not grow.
type Permits struct {
	t    testing.TB
	most int

	mu     sync.Mutex
	leases map[*quorumlock.Lease]bool
	// tokens has the largest token of each slot so far.
	tokens map[int]uint64
	grants int
}

// OfPermits returns a witness of a semaphore with the given number of permits.
func OfPermits(t testing.TB, most int) *Permits {
	return &Permits{t: t, most: most, leases: map[*quorumlock.Lease]bool{}, tokens: map[int]uint64{}}
}

// Enter must be called by a holder after it acquired its lease.
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

// Leave must be called by a holder before it releases its lease.
func (p *Permits) Leave(lease *quorumlock.Lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.leases, lease)
}

// Grants returns the number of leases so far.
func (p *Permits) Grants() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.grants
}

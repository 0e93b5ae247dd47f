package workload

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"
)

// Drawer draws uses from a random source. The same source gives the same uses.
type Drawer struct{ *rand.Rand }

// NewDrawer returns a drawer for a seed. Streams of one seed are independent of each other.
func NewDrawer(seed, stream uint64) Drawer { return Drawer{rand.New(rand.NewPCG(seed, stream))} }

// UpTo returns a random duration, to the nanosecond, so that no two events coincide exactly.
func (d Drawer) UpTo(most time.Duration) time.Duration {
	return time.Duration(d.Int64N(int64(most) + 1))
}

// Between returns a random duration between two others.
func (d Drawer) Between(least, most time.Duration) time.Duration { return least + d.UpTo(most-least) }

// One reports true once in n times.
func (d Drawer) One(n int) bool { return d.IntN(n) == 0 }

// Pick returns one of several values.
func Pick[T any](d Drawer, of ...T) T { return of[d.IntN(len(of))] }

// Habits are the frequencies of uses.
type Habits struct {
	// Names are the names of locks, each as often as it is listed. Holds are the bounds of holds.
	Names [][]string
	Holds []time.Duration
	// Patience is how long a use waits at most. One use in Careless is careless, one in Fixed is fixed.
	Patience        time.Duration
	Careless, Fixed int
	// Short are the TTLs that some uses have instead of the client's.
	Short []time.Duration
}

// Lock draws the use of a lock.
func (d Drawer) Lock(h Habits) Use {
	u := Use{
		Names:    Pick(d, h.Names...),
		Fixed:    d.One(h.Fixed),
		Patience: d.UpTo(h.Patience),
		Hold:     d.UpTo(Pick(d, h.Holds...)),
		Careless: d.One(h.Careless),
		Extend:   d.One(8),
		TTL:      Pick(d, h.Short...),
	}
	u.All = len(u.Names) > 1 || d.One(12)
	return u
}

// Share makes a use of a lock a reader's. The number of readers is out of four uses. Some writers become readers later.
func (d Drawer) Share(u *Use, readers int) {
	u.Reads = d.IntN(4) < readers
	u.Downgrade = !u.Reads && d.One(3)
}

// Options draws how the lock is described, for how long nodes keep it after its lease, how the lease ends, and for how long
// to go on while too few nodes answer. longest is the client's MaxTTL.
func (d Drawer) Options(u *Use, longest time.Duration) {
	u.ByRule, u.Purpose = d.One(4), Pick(d, "", "", "reads", "writes")
	if u.ByRule && len(u.Names) > 1 {
		u.All = d.One(2)
	}
	if u.Fixed && d.One(2) {
		u.Lengthen = d.Between(longest/2, longest)
	}
	u.Ending = Pick(d, Release, Release, Release, Release, Waive, Detach, DetachAndRelease, DetachAndRelease)
	if d.One(4) {
		u.MaxOutage = d.UpTo(longest) - longest/8
	}
	if d.One(3) {
		most := longest // may be longer than the TTL, unless that is all
		if u.Fixed {
			most = cmp.Or(u.TTL, longest)
		}
		u.MinHold = d.UpTo(most * 9 / 10)
	}
}

// Permits makes a use one of a semaphore, for some or all of its permits.
func (d Drawer) Permits(u *Use, size int) {
	u.Permits, u.Size = 1+d.IntN(size), size
	u.All, u.Reads, u.Downgrade = false, false, false
}

// Sleep waits, and reports whether ctx has not ended.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

package quorumlock

import (
	"context"
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/slots"
	"github.com/quorumlock/quorumlock/internal/wait"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// MaxPermits is the largest number of permits of a semaphore, 1024. One Acquire takes at most MaxNames of
// them.
const MaxPermits = slots.MaxPermits

// Semaphore describes a semaphore with a number of permits. Any client may hold some of them, and
// at most that many are held at once. It is made by [Client.Semaphore]. It is immutable, and safe
// for concurrent use.
//
// Each permit is a numbered slot, and each slot is a lock that needs a majority of the nodes. So
// the holder of permits has a [Lease] with all its properties: it renews itself, ends in time, is
// lost with its nodes, and survives the loss of a minority.
type Semaphore struct {
	client *Client
	name   string
	// lock has the settings that all acquisitions share, for a single permit.
	lock *Lock
}

// Semaphore describes a semaphore with the given number of permits, from 1 to MaxPermits. Each
// permit needs a majority of the nodes. The rules for names are as for [Client.RedLock]. A
// semaphore and a lock of the same name are independent.
//
// All programs should give the same number. If they differ, at most the largest number of permits
// is held. To change the number while programs run, use [Semaphore.SetPermits]: it then counts for
// all programs, whatever number they give.
func (c *Client) Semaphore(name string, permits int) *Semaphore {
	p := c.slotPools.Of(c.cfg.Prefix + name)
	// It is a lock of that name, and only the names on the nodes differ.
	l := newLock(c, []string{name}, quorum.Majority())
	l.spec.Queue[0] = p.Name()
	l.spec.Names = l.spec.Queue[:]
	l.spec.HandOver = false
	l.spec.Slots = &slots.Request{Pool: p, Semaphore: name, Want: 1, Permits: permits}
	if permits < 1 || permits > MaxPermits {
		l.addProblems(fmt.Sprintf("a semaphore has from 1 to %d permits, not %d", MaxPermits, permits))
	}
	return &Semaphore{client: c, name: name, lock: l}
}

// With returns the same semaphore with these options besides its earlier ones, as [Lock.With] does. NoHandover has
// no effect, as permits are never handed over within a client. Every method reports invalid options, as an [*InvalidError].
func (s *Semaphore) With(o LockOptions) *Semaphore {
	return &Semaphore{client: s.client, name: s.name, lock: orZero(s.lock).With(o)}
}

// Name returns the name of the semaphore.
func (s *Semaphore) Name() string { return s.name }

// lockFor returns the lock that acquires n permits.
func (s *Semaphore) lockFor(n int) *Lock {
	l := *orZero(s.lock)
	if l.client == nil {
		return &l
	}
	l.spec.Names = l.spec.Queue[:]
	request := *l.spec.Slots
	request.Want = n
	l.spec.Slots = &request
	if n < 1 || n > MaxNames {
		l.addProblems(fmt.Sprintf("from 1 to %d permits can be acquired at once, not %d", MaxNames, n))
	}
	return &l
}

func tooManyPermits(n, size int) string {
	return fmt.Sprintf("%d permits requested, the semaphore has %d", n, size)
}

// Acquire takes n permits at once, all or none, and waits for them as long as ctx allows. The
// result is one lease, whose release gives all of them back.
//
// Acquire is FIFO: across clients in the order in which they came, and within a client in the order
// of calls, as exactly as clocks agree. A waiter for several permits is not overtaken by waiters
// for fewer: these wait until it has its permits. Waiters need not poll: a release wakes as many
// waiters as its permits can serve.
//
// If permits are free, Acquire takes one round trip when this client knows which slots are free.
// Otherwise the nodes tell it, and it takes two. See docs/semaphore.md.
//
// Every call takes permits of its own. Leases of a semaphore are never nested. The error is
// ErrOverlap if the context holds too many permits, so that the call would wait for itself. The
// rest is as for [Lock.Acquire]: ctx bounds only the acquisition, and the errors are the same. In
// addition, asking for more permits than the semaphore has is an [*InvalidError]. If n is larger than
// the number of permits that this client knows, Acquire first asks the nodes for the present number,
// and fails with a [*NoQuorumError] at once if too few answer. If the semaphore is full, the
// [*HeldError] names one of the holders.
func (s *Semaphore) Acquire(ctx context.Context, n int) (*Lease, error) {
	return s.acquire(ctx, n, (*wait.Queues).Acquire)
}

// TryAcquire takes n permits if it can at once, without waiting for other holders. It fails as
// [Lock.TryAcquire] does: with a [*HeldError] if too few permits are free or they are reserved for
// earlier waiters, and with a [*NoQuorumError] if too few nodes answer.
func (s *Semaphore) TryAcquire(ctx context.Context, n int) (*Lease, error) {
	return s.acquire(ctx, n, (*wait.Queues).TryAcquire)
}

// Do runs fn while it holds n permits. It relates to Acquire as [Lock.Do] does to [Lock.Acquire].
func (s *Semaphore) Do(ctx context.Context, n int, fn func(ctx context.Context) error) error {
	if fn == nil {
		return invalid("the function is nil")
	}
	l, err := s.acquirable(ctx, n)
	if err != nil {
		return err
	}
	return l.Do(ctx, fn)
}

func (s *Semaphore) acquire(ctx context.Context, n int, do way) (*Lease, error) {
	l, err := s.acquirable(ctx, n)
	if err != nil {
		return nil, err
	}
	return l.acquire(ctx, do)
}

// warnOfSize logs that another program has set the number of permits to another one than this program
// was configured with.
func (c *Client) warnOfSize(r *slots.Request) {
	if size, ok := r.OtherSize(); ok {
		c.warn("quorumlock: a semaphore was set to another number of permits than this program was configured with",
			"semaphore", r.Semaphore, "set", size, "configured", r.Permits)
	}
}

// acquirable returns the lock that acquires n permits. If ctx would then hold more permits than
// there seem to be, it first asks the nodes: the number may have been set since.
func (s *Semaphore) acquirable(ctx context.Context, n int) (*Lock, error) {
	l := s.lockFor(n)
	if err := l.validate(ctx); err != nil {
		return nil, err
	}
	if size, _ := l.spec.Slots.Size(); l.permitsHeldBy(ctx)+n > size {
		if _, err := s.Permits(ctx); err != nil {
			return nil, err
		}
	}
	if size, _ := l.spec.Slots.Size(); n > size {
		return nil, invalid(tooManyPermits(n, size))
	}
	return l, nil
}

// Slots returns the slot numbers and the token of the permits that ctx carries; see [Lease.Slots]
// and [Lease.Token]. ctx is the context that Do passes to its function, or one that holds a
// [Lease.Context]. Of several leases it is the last acquired. ok is true even if that lease has
// ended since.
func (s *Semaphore) Slots(ctx context.Context) (slots []int, token uint64, ok bool) {
	if ctx == nil || s.client == nil {
		return nil, 0, false
	}
	q := &permitQuery{engine: s.lock.client.engine, pool: s.lock.spec.Slots.Pool.Name()}
	ctx.Value(q)
	if q.innermost == nil {
		return nil, 0, false
	}
	return slotNumbers(q.innermost.Spec()), q.innermost.Token(), true
}

// Slots returns the numbers of the lease's permits, from 0 to the number of permits - 1, in
// ascending order; nil for the lease of a lock. While the lease is valid, no other owner has one of
// them. So they can stand for one of several resources: a port, a shard.
func (l *Lease) Slots() []int {
	if l.lease == nil {
		return nil
	}
	return slotNumbers(l.lease.Spec())
}

// slotNumbers implements Lease.Slots.
func slotNumbers(s *lease.Spec) []int {
	if s.Slots == nil {
		return nil
	}
	numbers := make([]int, len(s.Names))
	for i, name := range s.Names {
		numbers[i] = node.SlotOf(s.Slots.Pool.Name(), name)
	}
	slices.Sort(numbers)
	return numbers
}

// permitQuery asks a context how many permits of a pool it holds: each of its leases adds its own.
type permitQuery struct {
	engine  *lease.Engine
	pool    string
	permits int
	// innermost is the lease that was acquired last, even if it has ended.
	innermost *lease.Lease
}

// count adds the permits of a lease.
func (q *permitQuery) count(t *lease.Lease) {
	s := t.Spec().Slots
	if s == nil || t.Engine() != q.engine || s.Pool.Name() != q.pool {
		return
	}
	if q.innermost == nil {
		q.innermost = t
	}
	if t.Err() == nil {
		q.permits += s.Want
	}
}

// wouldSelfDeadlock reports whether the context holds too many permits, so that the rest would
// not suffice, even if no other owner had any.
func (l *Lock) wouldSelfDeadlock(ctx context.Context) bool {
	size, _ := l.spec.Slots.Size()
	has := l.permitsHeldBy(ctx)
	return has > 0 && has+l.spec.Slots.Want > size
}

// permitsHeldBy returns how many permits a context holds.
func (l *Lock) permitsHeldBy(ctx context.Context) int {
	if ctx.Value(anyKey{}) == nil {
		return 0
	}
	q := &permitQuery{engine: l.client.engine, pool: l.spec.Slots.Pool.Name()}
	ctx.Value(q)
	return q.permits
}

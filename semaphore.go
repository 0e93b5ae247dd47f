package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/internal/slots"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// MaxPermits is the most permits that a semaphore can have. A single Acquire takes MaxNames of
// them at most.
const MaxPermits = 1024

// Semaphore describes a semaphore: so many permits, of which anybody can hold some, and all
// together never more than there are. It is made by [Client.Semaphore]; it is immutable, and
// safe for concurrent use.
//
// Each permit is a slot with a number, and each slot a lock that a majority of the nodes has to
// grant. So whoever holds permits has a [Lease], with all that belongs to it: it renews
// itself, ends in time, is lost when its nodes are, and survives the loss of a minority.
type Semaphore struct {
	client *Client
	name   string
	// lock is what is common to all of its acquisitions, for a single permit.
	lock *Lock
}

// Semaphore is a semaphore of so many permits, from 1 to MaxPermits. A majority of the nodes
// has to grant each, as with [Client.RedLock], and what that says of names holds here too.
// A semaphore and a lock of one name have nothing to do with each other.
//
// The number is what this program believes. All programs should say the same; if they
// differ, no more permits are held than the largest of the numbers. To change it while
// programs run, see [Semaphore.SetPermits], which from then on counts for all of them, whatever
// they say.
func (c *Client) Semaphore(name string, permits int) *Semaphore {
	return newSemaphore(c, name, permits, LockOptions{})
}

// With is the same semaphore with these options, and no others: what an earlier With had set is
// forgotten. WaitFair is no different from WaitQueued here, and NoHandover has no effect, as
// permits are never handed over within a client. Options that make no sense are reported
// by every method, as an [*InvalidError].
func (s *Semaphore) With(o LockOptions) *Semaphore {
	return newSemaphore(s.client, s.name, s.lock.slots.Permits, o)
}

func newSemaphore(c *Client, name string, permits int, o LockOptions) *Semaphore {
	p := c.pools.Of(name)
	// What With makes of a lock of that name is right here, but for the names on the nodes.
	l := newLock(c, []string{name}, quorum.Majority())
	if o != (LockOptions{}) {
		l = l.With(o)
	}
	l.id[0] = p.Name()
	l.names = l.id[:]
	l.handover = false
	l.slots = &slots.Request{Pool: p, Semaphore: name, Want: 1, Permits: permits}
	if permits < 1 || permits > MaxPermits {
		l.problems = append(l.problems, fmt.Sprintf("a semaphore has from 1 to %d permits, not %d", MaxPermits, permits))
	}
	return &Semaphore{client: c, name: name, lock: l}
}

// Name is the name of the semaphore.
func (s *Semaphore) Name() string { return s.name }

// of is what acquires n permits.
func (s *Semaphore) of(n int) *Lock {
	l := *s.lock
	l.names = l.id[:]
	request := *l.slots
	request.Want = n
	l.slots = &request
	if n < 1 || n > MaxNames {
		problem := fmt.Sprintf("from 1 to %d permits can be acquired at once, not %d", MaxNames, n)
		l.problems = append(slices.Clone(l.problems), problem)
	}
	return &l
}

func tooMany(n, size int) string {
	return fmt.Sprintf("%d permits are more than the %d that there are", n, size)
}

// Acquire takes n permits at once, all or none, and waits for them as long as ctx allows. The
// result is one lease, which gives all of them back together.
//
// Turns are in the order in which clients came, and within a client in the order of calls, as
// far as clocks agree. Who waits for several permits is not overtaken by those who want fewer: they
// wait until it has got its own. Nobody polls: who gives permits back wakes as many as they
// are enough for.
//
// While permits are free it takes one round trip if this client names free slots. It does as
// long as it knows which are; else the nodes tell it, and the second does. See
// docs/semaphore.md.
//
// Every call takes permits of its own: leases of a semaphore are not nested, whatever the
// context. A context that holds so many permits that it would have to wait for itself gets
// ErrOverlap. The rest is as for [Lock.Acquire]: ctx bounds the acquisition only, and the
// errors are the same, with the [*InvalidError] for more permits than there are besides. That
// of a full semaphore is a [*HeldError], which names one of those who hold permits.
func (s *Semaphore) Acquire(ctx context.Context, n int) (*Lease, error) {
	return s.acquire(ctx, n, (*Lock).waitFor)
}

// TryAcquire takes n permits if that is possible now, without waiting for anybody. It
// fails as [Lock.TryAcquire] does: with a [*HeldError] if too few are free, or are left to
// somebody who waits and came before; and with a [*NoQuorumError] if too few nodes answer.
func (s *Semaphore) TryAcquire(ctx context.Context, n int) (*Lease, error) {
	return s.acquire(ctx, n, (*Lock).tryOnce)
}

// Do runs fn while it holds n permits. It is to Acquire as [Lock.Do] is to Lock.Acquire.
func (s *Semaphore) Do(ctx context.Context, n int, fn func(ctx context.Context) error) error {
	l, err := s.enough(ctx, n)
	if err != nil {
		return err
	}
	return l.Do(ctx, fn)
}

func (s *Semaphore) acquire(ctx context.Context, n int, way func(*Lock, context.Context) (*tenure, error)) (*Lease, error) {
	l, err := s.enough(ctx, n)
	if err != nil {
		return nil, err
	}
	return l.acquire(ctx, way)
}

// enough is what acquires n permits. If there seem to be fewer than ctx would then hold, it asks
// the nodes, as the number may have been set since.
func (s *Semaphore) enough(ctx context.Context, n int) (*Lock, error) {
	l := s.of(n)
	if err := l.check(ctx); err != nil {
		return nil, err
	}
	if size, _ := l.slots.Size(); l.heldIn(ctx)+n > size {
		if _, err := s.Permits(ctx); err != nil {
			return nil, err
		}
	}
	if size, _ := l.slots.Size(); n > size {
		return nil, &InvalidError{Problems: []string{tooMany(n, size)}}
	}
	return l, nil
}

// maxTries bounds how often a TryAcquire asks for slots that nodes have just said are free.
const maxTries = 5

// tryAgain reports whether an attempt that failed had named slots that are taken, while enough
// others are free.
func (l *Lock) tryAgain(tries int, err error) bool {
	var held *HeldError
	if l.slots == nil || tries >= maxTries || !errors.As(err, &held) {
		return false
	}
	left := held.Owner == "" && held.TTL > 0 // to somebody who came before
	return !left && l.slots.Promising(l.need)
}

// named is the lock on the names that an attempt asks for: those of a semaphore are chosen
// anew each time, by what nodes have told its waiter, if there is one.
func (l *Lock) named(w *waiter) (*Lock, error) {
	if l.slots == nil {
		return l, nil
	}
	var hints []quorum.Slots
	if w != nil && w.entry != nil {
		hints = w.entry.takeHints()
	}
	names, size, ok := l.slots.Choose(l.need, hints)
	if !ok {
		return nil, &InvalidError{Problems: []string{tooMany(l.slots.Want, size)}}
	}
	m := *l
	m.names = names
	return &m, nil
}

// unname ends what named began: an attempt, or the lease that came of it.
func (l *Lock) unname(released bool) {
	if l.slots != nil {
		l.slots.GiveUp(l.names, released)
	}
}

// shown is what people are told for a name of the lock.
func (l *Lock) shown(name string) string {
	if l.slots != nil {
		return l.slots.Semaphore
	}
	return name
}

// Slots are the numbers of the permits that ctx carries, as [Lease.Slots] and [Lease.Token] tell
// them of a lease: ctx is the context that Do gives its function, or one with a [Lease.Context] in
// it. Of several leases it is the last that was acquired. It is ok also when that has ended since.
func (s *Semaphore) Slots(ctx context.Context) (slots []int, token uint64, ok bool) {
	if ctx == nil {
		return nil, 0, false
	}
	q := &holding{pool: s.lock.slots.Pool}
	ctx.Value(q)
	if q.innermost == nil {
		return nil, 0, false
	}
	return q.innermost.slots(), q.innermost.token, true
}

// Slots are the numbers of the permits that the lease is for, from 0 to one less than there are,
// in ascending order; nil for the lease of a lock. While the lease is valid nobody else has one of
// them, so they can stand for something that there is as many of: a port, a shard.
func (l *Lease) Slots() []int { return l.tenure.slots() }

// slots are those that it has.
func (t *tenure) slots() []int {
	s := t.lock.slots
	if s == nil {
		return nil
	}
	numbers := make([]int, len(t.lock.names))
	for i, name := range t.lock.names {
		numbers[i] = node.SlotOf(s.Pool.Name(), name)
	}
	slices.Sort(numbers)
	return numbers
}

// holding asks a context how many permits of a pool it holds: each of its leases adds its own.
type holding struct {
	pool    *slots.Pool
	permits int
	// innermost is the lease that was acquired last, whether it is still valid or not.
	innermost *tenure
}

// add adds those of a lease.
func (q *holding) add(t *tenure) {
	s := t.lock.slots
	if s == nil || s.Pool != q.pool {
		return
	}
	if q.innermost == nil {
		q.innermost = t
	}
	if t.err() == nil {
		q.permits += s.Want
	}
}

// waitsForItself reports whether a context holds so many permits that there would be too few
// even if nobody else had any.
func (l *Lock) waitsForItself(ctx context.Context) bool {
	size, _ := l.slots.Size()
	has := l.heldIn(ctx)
	return has > 0 && has+l.slots.Want > size
}

// heldIn is how many permits a context holds.
func (l *Lock) heldIn(ctx context.Context) int {
	if ctx.Value(anyKey{}) == nil {
		return 0
	}
	q := &holding{pool: l.slots.Pool}
	ctx.Value(q)
	return q.permits
}

// Package workload draws the uses that clients make of locks, semaphores and latches, makes them, and records them in
// a history. The simulation and chaos share it.
package workload

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/faultinject/history"
	"github.com/quorumlock/quorumlock/quorum"
)

// Use is one use of an object by a client.
type Use struct {
	// Names are the names of one lock, or the name of a semaphore. All is set if every node must agree. ByRule is set if
	// an option says so, and not the kind of lock.
	Names       []string
	All, ByRule bool
	// Permits is the number of permits that it acquires from a semaphore of the given Size; 0 for a lock.
	Permits, Size int
	// Reads is set if it is a reader of the lock, Downgrade if it becomes one after half of Hold.
	Reads, Downgrade bool
	// Form is the form in which it holds it.
	Form Form
	// TTL is the TTL of the lock; 0 for the client's. Fixed excludes it from renewal.
	TTL   time.Duration
	Fixed bool
	// MinHold is its MinHold. A careless use ends before, if its Hold does.
	MinHold time.Duration
	// Purpose is the purpose of its lock, for people.
	Purpose string
	// Spin makes it poll, and NoHandover excludes it from hand-overs. Try is set if it makes one attempt only.
	Spin, NoHandover, Try bool
	// MaxOutage is how long it goes on while too few nodes answer.
	MaxOutage time.Duration
	// Patience is how long it waits for the lock, Hold how long it keeps it.
	Patience, Hold time.Duration
	// Careless is set if it does not release the lock after Hold, and acts until it learns that the lease is over.
	// Extend is set if it renews by hand. For a Fixed lock, Lengthen is the TTL of that; 0 for the lock's.
	Careless, Extend bool
	Lengthen         time.Duration
	// Ending is how it ends the lease.
	Ending Ending
	// Requested is when the permits were requested, for histories whose records begin later.
	Requested time.Duration
}

// Ending is a way to end a lease.
type Ending string

// The ways.
const (
	Release Ending = "release"
	// Waive is a release that waives the MinHold.
	Waive Ending = "waive"
	// Detach leaves the lock to its TTL, and DetachAndRelease lets another client release the owner later.
	Detach           Ending = "detach"
	DetachAndRelease Ending = "detach, and release the owner"
)

// Detaches reports whether the lock stays on the nodes although its lease is over.
func (e Ending) Detaches() bool { return e == Detach || e == DetachAndRelease }

func (u Use) options() quorumlock.LockOptions {
	options := quorumlock.LockOptions{
		Fixed: u.Fixed, TTL: u.TTL, MinHold: u.Keeps(), Spin: u.Spin, NoHandover: u.NoHandover, Purpose: u.Purpose,
		MaxOutage: u.MaxOutage,
	}
	if u.Careless {
		options.MaxHold = max(u.Hold, time.Millisecond)
	}
	switch {
	case !u.ByRule || u.Permits > 0:
	case u.All:
		options.Rule = quorum.All()
	default:
		options.Rule = quorum.Majority()
	}
	Set(options)
	return options
}

// Keeps returns for how long the nodes keep its lock after they were asked for it, whatever becomes of the lease.
func (u Use) Keeps() time.Duration {
	if u.Careless {
		return min(u.MinHold, max(u.Hold, time.Millisecond))
	}
	return u.MinHold
}

// Lock returns its lock. By a rule, a lock of one name may need all nodes, and one of several names only a majority.
func (u Use) Lock(c *quorumlock.Client) *quorumlock.Lock {
	readers := func() *quorumlock.RWLock { Called("RWLock.With"); return c.RWLock(u.Names[0]).With(u.options()) }
	switch {
	case u.Reads && !u.All:
		Called("RWLock.Read")
		return readers().Read()
	case u.Downgrade && !u.All:
		Called("RWLock.Write")
		return readers().Write()
	}
	Called("Lock.With")
	if len(u.Names) > 1 || u.All != u.ByRule {
		return c.MultiLock(u.Names...).With(u.options())
	}
	return c.RedLock(u.Names[0]).With(u.options())
}

func (u Use) semaphore(c *quorumlock.Client) *quorumlock.Semaphore {
	Called("Semaphore.With")
	return c.Semaphore(u.Names[0], u.Size).With(u.options())
}

// Acquire acquires the lock or the permits.
func (u Use) Acquire(ctx context.Context, c *quorumlock.Client) (*quorumlock.Lease, error) {
	switch {
	case u.Permits > 0 && u.Try:
		Called("Semaphore.TryAcquire")
		return u.semaphore(c).TryAcquire(ctx, u.Permits)
	case u.Permits > 0:
		Called("Semaphore.Acquire")
		return u.semaphore(c).Acquire(ctx, u.Permits)
	case u.Try:
		Called("Lock.TryAcquire")
		return u.Lock(c).TryAcquire(ctx)
	default:
		Called("Lock.Acquire")
		return u.Lock(c).Acquire(ctx)
	}
}

// Do runs fn while it holds the lock or the permits. fn gets what it can learn from its context.
func (u Use) Do(ctx context.Context, c *quorumlock.Client, fn func(ctx context.Context, token uint64, slots []int) error) error {
	if u.Permits > 0 {
		Called("Semaphore.Do")
		s := u.semaphore(c)
		return s.Do(ctx, u.Permits, func(ctx context.Context) error {
			Called("Semaphore.Slots")
			slots, token, _ := s.Slots(ctx)
			return fn(ctx, token, slots)
		})
	}
	Called("Lock.Do")
	lock := u.Lock(c)
	return lock.Do(ctx, func(ctx context.Context) error {
		Called("Lock.Token")
		token, _ := lock.Token(ctx)
		return fn(ctx, token, nil)
	})
}

// Prolong renews a lease by hand, and returns the TTL that it has then.
func (u Use) Prolong(ctx context.Context, lease *quorumlock.Lease, ttl time.Duration) (time.Duration, error) {
	if u.Fixed && u.Lengthen > 0 {
		Called("Lease.ExtendFor")
		return u.Lengthen, lease.ExtendFor(ctx, u.Lengthen)
	}
	Called("Lease.Extend")
	return cmp.Or(u.TTL, ttl), lease.Extend(ctx)
}

// Downgrade turns a writer into a reader.
func Downgrade(ctx context.Context, lease *quorumlock.Lease) error {
	Called("Lease.Downgrade")
	return lease.Downgrade(ctx)
}

// End ends a lease, and returns for how long the nodes keep the lock from now on, at least: for the rest of a TTL if it is
// detached. Clocks differ by less than the part that is left out. A lease of permits, or of several names, has one end.
func (u Use) End(lease *quorumlock.Lease) (kept time.Duration, err error) {
	if u.Ending.Detaches() {
		Called("Lease.Detach")
		left := lease.Remaining()
		_, err := lease.Detach()
		if err != nil {
			left = 0
		}
		return left * 98 / 100, err
	}
	if u.Ending == Waive {
		Called("Lease.WaiveMinHold")
		lease.WaiveMinHold()
	}
	Called("Lease.Release")
	return 0, lease.Release(context.Background())
}

// Attempt is an acquisition in flight, and its record under one name.
type Attempt struct {
	*history.Attempt
	Name  string
	reads bool
}

// Attempts records the begin of an acquisition: once for each name of a lock, or once for all permits.
func (u Use) Attempts(r *history.Recorder, worker int) []Attempt {
	var all []Attempt
	for _, name := range u.Names {
		one := Attempt{Name: name, reads: u.Reads}
		switch {
		case u.Permits > 0:
			one.Attempt = r.AcquirePermits(worker, name, u.Permits, u.Size)
			one.SizeSince(u.Requested)
		case u.Reads:
			one.Attempt = r.AcquireRead(worker, name)
		default:
			one.Attempt = r.Acquire(worker, name)
		}
		all = append(all, one)
	}
	return all
}

// Failed records that an acquisition failed.
func Failed(attempts []Attempt, err error) {
	for _, attempt := range slices.Backward(attempts) {
		attempt.Failed(err)
	}
}

// Parts are the records of a lease.
type Parts []Part

// Part is the record of a lease under one name.
type Part struct {
	*history.Holding
	Name  string
	Reads bool
	Token uint64
	Slots []int
}

// Granted records that the acquisition gave a lease.
func (a Attempt) Granted(owner string, token uint64, slots []int) Part {
	return Part{a.Attempt.Granted(owner, token, slots...), a.Name, a.reads, token, slots}
}

// Record makes a call and records it in each of the parts.
func (p Parts) Record(record func(*history.Holding, func() error) error, call func() error) error {
	for _, part := range p {
		inner := call
		call = func() error { return record(part.Holding, inner) }
	}
	return call()
}

// Lost records that the lease has ended by itself.
func (p Parts) Lost(cause error) {
	for _, part := range p {
		part.Lost(cause)
	}
}

// LatchCall is a call of a latch.
type LatchCall struct {
	Kind history.Kind
	// ID is the id of a count-down, Count the number to set the latch to.
	ID    string
	Count int
}

// String describes the call: "set the latch to 3".
func (l LatchCall) String() string {
	switch l.Kind {
	case history.Set:
		return fmt.Sprintf("set the latch to %d", l.Count)
	case history.CountDown:
		return fmt.Sprintf("count down with %q", l.ID)
	default:
		return fmt.Sprintf("%s the latch", l.Kind)
	}
}

// LatchOf returns a latch with options.
func LatchOf(c *quorumlock.Client, name string, options quorumlock.LatchOptions) *quorumlock.Latch {
	Called("Latch.With")
	Set(options)
	return c.Latch(name).With(options)
}

// Make makes the call and records it. left is the result of a Count.
func (l LatchCall) Make(ctx context.Context, latch *quorumlock.Latch, r *history.Recorder, worker int) (left int, err error) {
	which := history.Event{Worker: worker, Kind: l.Kind, Name: latch.Name(), ID: l.ID, Count: l.Count}
	return r.Latch(which, func() (int, error) {
		switch l.Kind {
		case history.Set:
			Called("Latch.Set")
			return 0, latch.Set(ctx, l.Count)
		case history.CountDown:
			Called("Latch.CountDown")
			return 0, latch.CountDown(ctx, l.ID)
		case history.Await:
			Called("Latch.Await")
			return 0, latch.Await(ctx)
		case history.Delete:
			Called("Latch.Delete")
			return 0, latch.Delete(ctx)
		default:
			Called("Latch.Count")
			return latch.Count(ctx)
		}
	})
}

// Package workload draws the uses that clients make of locks, semaphores and latches, makes them, and records them in
// a history. The simulation and chaos share it.
package workload

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/faultinject/history"
)

// Use is one use of an object by a client.
type Use struct {
	// Names are the names of one lock, or the name of a semaphore. All is set if every node must agree.
	Names []string
	All   bool
	// Permits is the number of permits that it acquires from a semaphore of the given Size; 0 for a lock.
	Permits, Size int
	// Reads is set if it is a reader of the lock, Downgrade if it becomes one after half of Hold.
	Reads, Downgrade bool
	// TTL is the TTL of the lock; 0 for the client's. Fixed excludes it from renewal.
	TTL   time.Duration
	Fixed bool
	// MinHold is its MinHold. A careless use ends before, if its Hold does.
	MinHold time.Duration
	// Waiting is its way to wait, and NoHandover excludes it from hand-overs. Try is set if it makes one attempt only.
	Waiting         quorumlock.Waiting
	NoHandover, Try bool
	// Patience is how long it waits for the lock, Hold how long it keeps it.
	Patience, Hold time.Duration
	// Careless is set if it does not release the lock after Hold, and acts until it learns that the lease is over.
	// Extend is set if it renews by hand.
	Careless, Extend bool
}

// options returns the options of its lock or semaphore.
func (u Use) options() quorumlock.LockOptions {
	options := quorumlock.LockOptions{Fixed: u.Fixed, TTL: u.TTL, MinHold: u.MinHold, Waiting: u.Waiting, NoHandover: u.NoHandover}
	if u.Careless {
		options.MaxHold = max(u.Hold, time.Millisecond)
		options.MinHold = min(options.MinHold, options.MaxHold)
	}
	return options
}

// Lock returns its lock.
func (u Use) Lock(c *quorumlock.Client) *quorumlock.Lock {
	lock := c.RedLock(u.Names[0])
	switch {
	case u.All:
		lock = c.MultiLock(u.Names...)
	case u.Reads:
		lock = c.RWLock(u.Names[0]).Read()
	case u.Downgrade:
		lock = c.RWLock(u.Names[0]).Write()
	}
	return lock.With(u.options())
}

// semaphore returns its semaphore.
func (u Use) semaphore(c *quorumlock.Client) *quorumlock.Semaphore {
	return c.Semaphore(u.Names[0], u.Size).With(u.options())
}

// Acquire acquires the lock or the permits.
func (u Use) Acquire(ctx context.Context, c *quorumlock.Client) (*quorumlock.Lease, error) {
	switch {
	case u.Permits > 0 && u.Try:
		return u.semaphore(c).TryAcquire(ctx, u.Permits)
	case u.Permits > 0:
		return u.semaphore(c).Acquire(ctx, u.Permits)
	case u.Try:
		return u.Lock(c).TryAcquire(ctx)
	default:
		return u.Lock(c).Acquire(ctx)
	}
}

// Join returns what Join takes to acquire this use with others. granted returns the token and the slots that this part
// of a joint lease has.
func (u Use) Join(c *quorumlock.Client) (lock quorumlock.Joinable, granted func(*quorumlock.JointLease) (token uint64, slots []int)) {
	if u.Permits == 0 {
		lock = u.Lock(c)
		return lock, func(l *quorumlock.JointLease) (uint64, []int) { return l.Token(lock, u.Names[0]), nil }
	}
	s := u.semaphore(c)
	return s.Joinable(u.Permits), func(l *quorumlock.JointLease) (uint64, []int) {
		slots, token, _ := s.Slots(l.Context())
		return token, slots
	}
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
		case u.Reads:
			one.Attempt = r.AcquireRead(worker, name)
		default:
			one.Attempt = r.Acquire(worker, name)
		}
		all = append(all, one)
	}
	return all
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

// Make makes the call and records it. left is the result of a Count.
func (l LatchCall) Make(ctx context.Context, latch *quorumlock.Latch, r *history.Recorder, worker int) (left int, err error) {
	switch name := latch.Name(); l.Kind {
	case history.Set:
		err = r.SetLatch(worker, name, l.Count, func() error { return latch.Set(ctx, l.Count) })
	case history.CountDown:
		err = r.CountDown(worker, name, l.ID, func() error { return latch.CountDown(ctx, l.ID) })
	case history.Await:
		err = r.AwaitLatch(worker, name, func() error { return latch.Await(ctx) })
	case history.Delete:
		err = r.DeleteLatch(worker, name, func() error { return latch.Delete(ctx) })
	default:
		left, err = r.CountLatch(worker, name, func() (int, error) { return latch.Count(ctx) })
	}
	return left, err
}

package peer

import (
	"context"
	"strconv"

	"github.com/quorumlock/quorumlock"
)

// Permits is the number of permits of the measured semaphore.
const Permits = 8

var (
	semaphore = oursPeer("semaphore", semaphoreKind, nil)
	readers   = oursPeer("rwlock-readers", rwlockKind(func(int, int) bool { return false }), nil)
	// Of mixed, each caller is the writer one time in ten, and a reader else.
	mixed     = oursPeer("rwlock-mixed", rwlockKind(func(_, n int) bool { return n%writesEvery == 0 }), nil)
	oneWriter = oursPeer("rwlock-writer", rwlockKind(func(caller, _ int) bool { return caller == 0 }), nil)
	// join takes a lock, a permit of a semaphore, and a reader's lock, in the opposite order at every other caller.
	join = oursPeer("join", joinKind, nil)
	// striped has 1,048,576 stripes where locks are free, and 4 where they are not, without hand-over within a client.
	striped = oursPeer("striped", stripedKind, nil)
	// latch sets a latch, counts it down and waits for it to acquire, and deletes it to release. Where callers contend,
	// all of them meet at one latch, again and again.
	latch = oursPeer("latch", latchKind, nil)
)

const writesEvery = 10

// sharedLock is a lock with several holders, or one of several locks.
type sharedLock struct {
	oursLock
	claim Claim
}

func (l *sharedLock) Claim() Claim { return l.claim }

func semaphoreKind(c *quorumlock.Client, name string, _ int, _ Options) Lock {
	s := c.Semaphore(name, Permits)
	take := func(ctx context.Context) (lease, error) { return held(s.Acquire(ctx, 1)) }
	return &sharedLock{oursLock: oursLock{take: take}, claim: Claim{Weight: 1, Limit: Permits}}
}

// rwlockKind is a lock for readers and writers. writes reports whether a caller's nth acquire is for writing. A
// writer has more weight than all readers together.
func rwlockKind(writes func(caller, n int) bool) kind {
	const all = 1 << 30
	return func(c *quorumlock.Client, name string, caller int, _ Options) Lock {
		rw := c.RWLock(name)
		read, write := leaseOf(rw.Read()), leaseOf(rw.Write())
		l, n := new(sharedLock), caller // not all write at the same time
		l.take = func(ctx context.Context) (got lease, err error) {
			if writes(caller, n) {
				l.claim = Claim{Weight: all, Limit: all}
				got, err = write(ctx)
			} else {
				l.claim = Claim{Weight: 1, Limit: all - 1}
				got, err = read(ctx)
			}
			if err == nil {
				n++
			}
			return got, err
		}
		return l
	}
}

func joinKind(c *quorumlock.Client, name string, caller int, _ Options) Lock {
	parts := []quorumlock.Joinable{
		c.RedLock(name), c.Semaphore(name, Permits).Joinable(1), c.RWLock(name + ":reader").Read(),
	}
	if caller%2 == 1 {
		parts[0], parts[2] = parts[2], parts[0]
	}
	joined := quorumlock.Join(parts...)
	return &oursLock{take: func(ctx context.Context) (lease, error) { return held(joined.Acquire(ctx)) }}
}

// fewStripes is the number of stripes that callers contend for.
const fewStripes = 4

func stripedKind(c *quorumlock.Client, name string, caller int, o Options) Lock {
	if o.Contenders == 0 {
		return &oursLock{take: leaseOf(c.Striped("bench:stripe", quorumlock.MaxStripes).Lock(name))}
	}
	stripes := c.Striped("bench:stripe", fewStripes)
	name += ":" + strconv.Itoa(caller)
	lock := stripes.Lock(name).With(quorumlock.LockOptions{NoHandover: true})
	return &sharedLock{
		oursLock: oursLock{take: leaseOf(lock)}, claim: Claim{Slot: stripes.Stripe(name), Weight: 1, Limit: 1},
	}
}

func latchKind(c *quorumlock.Client, name string, caller int, o Options) Lock {
	l := &latchLock{client: c, name: name, caller: max(0, caller), meeting: 1}
	if caller != NoCaller {
		l.meeting = max(1, o.Contenders)
	}
	return l
}

// latchLock uses a new latch for each acquire.
type latchLock struct {
	client *quorumlock.Client
	name   string
	// meeting is the number of callers that must arrive, and caller the number of this one.
	meeting, caller int
	round           int
}

func (l *latchLock) Meets() bool { return l.meeting > 1 }

func (l *latchLock) latch(round int) *quorumlock.Latch {
	return l.client.Latch(l.name + ":" + strconv.Itoa(round)).With(quorumlock.LatchOptions{TTL: quorumlock.MinLatchTTL})
}

func (l *latchLock) Acquire(ctx context.Context) error {
	latch := l.latch(l.round)
	if err := latch.Set(ctx, l.meeting); err != nil {
		return err
	}
	if err := latch.CountDown(ctx, strconv.Itoa(l.caller)); err != nil {
		return err
	}
	return latch.Await(ctx)
}

// Release deletes a latch that has no waiters left. If callers met there, that is the previous latch: a caller that
// arrived at the next one has left the previous one.
func (l *latchLock) Release(ctx context.Context) error {
	round := l.round
	l.round++
	switch {
	case l.meeting == 1:
		return l.latch(round).Delete(ctx)
	case l.caller == 0 && round > 0:
		return l.latch(round - 1).Delete(ctx)
	}
	return nil
}

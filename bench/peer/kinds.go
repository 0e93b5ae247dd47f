package peer

import (
	"context"
	"errors"
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
	// striped has 1,048,576 stripes.
	striped = oursPeer("striped", plain(func(c *quorumlock.Client, name string) *quorumlock.Lock {
		return c.Striped("bench:stripe", quorumlock.MaxStripes).Lock(name)
	}), nil)
	// latch sets a latch, counts it down and waits for it to acquire, and deletes it to release.
	latch = oursPeer("latch", func(c *quorumlock.Client, name string, _ int, _ Options) Lock {
		return &latchLock{client: c, name: name}
	}, nil)
	// Of mixture, one caller in three wants a lock, one a permit, and one to read.
	mixture = oursPeer("kinds", func(c *quorumlock.Client, name string, caller int, o Options) Lock {
		all := []kind{plain((*quorumlock.Client).RedLock), semaphoreKind, rwlockKind(func(int, int) bool { return false })}
		return all[max(0, caller)%len(all)](c, name, caller, o)
	}, nil)
)

const writesEvery = 10

// sharedLock is a lock with several holders.
type sharedLock struct {
	oursLock
	claim Claim
}

func (l *sharedLock) Claim() Claim { return l.claim }

func semaphoreKind(c *quorumlock.Client, name string, _ int, _ Options) Lock {
	return &sharedLock{oursLock: permits(c.Semaphore(name, Permits), 1), claim: Claim{Weight: 1, Limit: Permits}}
}

func permits(s *quorumlock.Semaphore, n int) oursLock {
	return oursLock{
		take: taking(func(ctx context.Context) (*quorumlock.Lease, error) { return s.Acquire(ctx, n) }),
		try:  taking(func(ctx context.Context) (*quorumlock.Lease, error) { return s.TryAcquire(ctx, n) }),
	}
}

// full is a semaphore whose holder, which has no number, takes all permits.
func full(size int) Peer {
	return oursPeer("full-"+strconv.Itoa(size), func(c *quorumlock.Client, name string, caller int, _ Options) Lock {
		s := c.Semaphore(name, size)
		if caller == NoCaller {
			return &allPermits{s: s, size: size}
		}
		l := permits(s, 1)
		return &l
	}, nil)
}

// allPermits takes all permits, as many at once as a lease can have.
type allPermits struct {
	s      *quorumlock.Semaphore
	size   int
	leases []*quorumlock.Lease
}

func (l *allPermits) Acquire(ctx context.Context) error {
	for taken := 0; taken < l.size; taken += quorumlock.MaxNames {
		lease, err := l.s.Acquire(ctx, min(quorumlock.MaxNames, l.size-taken))
		if err != nil {
			return errors.Join(err, l.Release(ctx))
		}
		l.leases = append(l.leases, lease)
	}
	return nil
}

func (l *allPermits) Release(ctx context.Context) error {
	var errs []error
	for _, lease := range l.leases {
		errs = append(errs, lease.Release(ctx))
	}
	l.leases = nil
	return errors.Join(errs...)
}

// rwlockKind is a lock for readers and writers. writes reports whether a caller's nth acquire is for writing. A
// writer has more weight than all readers together.
func rwlockKind(writes func(caller, n int) bool) kind {
	const all = 1 << 30
	return func(c *quorumlock.Client, name string, caller int, _ Options) Lock {
		rw := c.RWLock(name)
		read, write := taking(rw.Read().Acquire), taking(rw.Write().Acquire)
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
	return &oursLock{take: taking(quorumlock.Join(parts...).Acquire)}
}

// latchLock uses a new latch for each acquire.
type latchLock struct {
	client *quorumlock.Client
	name   string
	latch  *quorumlock.Latch
	calls  int
}

func (l *latchLock) Acquire(ctx context.Context) error {
	l.calls++
	l.latch = l.client.Latch(l.name + ":" + strconv.Itoa(l.calls)).With(quorumlock.LatchOptions{TTL: quorumlock.MinLatchTTL})
	if err := l.latch.Set(ctx, 1); err != nil {
		return err
	}
	if err := l.latch.CountDown(ctx, "caller"); err != nil {
		return err
	}
	return l.latch.Await(ctx)
}

func (l *latchLock) Release(ctx context.Context) error { return l.latch.Delete(ctx) }

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
	readers   = oursPeer("rwlock-readers", readersKind, nil)
	// Of mixture, one caller in three wants a lock, one a permit, and one to read.
	mixture = oursPeer("kinds", func(c *quorumlock.Client, name string, caller int) Lock {
		all := []kind{plain((*quorumlock.Client).RedLock), semaphoreKind, readersKind}
		return all[max(0, caller)%len(all)](c, name, caller)
	}, nil)
)

func semaphoreKind(c *quorumlock.Client, name string, _ int) Lock {
	return permits(c.Semaphore(name, Permits))
}

func permits(s *quorumlock.Semaphore) *oursLock {
	return &oursLock{
		take: taking(func(ctx context.Context) (*quorumlock.Lease, error) { return s.Acquire(ctx, 1) }),
		try:  taking(func(ctx context.Context) (*quorumlock.Lease, error) { return s.TryAcquire(ctx, 1) }),
	}
}

// full is a semaphore whose holder, which has no number, takes all permits.
func full(size int) Peer {
	return oursPeer("full-"+strconv.Itoa(size), func(c *quorumlock.Client, name string, caller int) Lock {
		s := c.Semaphore(name, size)
		if caller == NoCaller {
			return &allPermits{s: s, size: size}
		}
		return permits(s)
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

func readersKind(c *quorumlock.Client, name string, _ int) Lock {
	return &oursLock{take: taking(c.RWLock(name).Read().Acquire)}
}

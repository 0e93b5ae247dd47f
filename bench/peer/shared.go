package peer

import (
	"context"

	"github.com/quorumlock/quorumlock"
)

// Permits is the number of permits of the measured semaphore.
const Permits = 8

var (
	semaphore = oursPeer("semaphore", semaphoreKind, nil,
		"This library's Semaphore of 8 permits, of which each caller takes one.")
	readers = oursPeer("rwlock-readers", rwlockKind(func(int, int) bool { return false }), nil,
		"This library's RWLock, with readers only.")
	mixed = oursPeer("rwlock-mixed", rwlockKind(func(_, n int) bool { return n%writesEvery == 0 }), nil,
		"This library's RWLock, of which each caller is the writer one time in ten, and a reader else.")
	oneWriter = oursPeer("rwlock-writer", rwlockKind(func(caller, _ int) bool { return caller == 0 }), nil,
		"This library's RWLock, with one caller that always writes, and all others reading.")
)

const writesEvery = 10

func semaphoreKind(c *quorumlock.Client, name string, _ Options) Lock {
	s := c.Semaphore(name, Permits)
	return &semaphoreLock{oursLock{take: func(ctx context.Context) (lease, error) {
		return held(s.Acquire(ctx, 1))
	}}}
}

type semaphoreLock struct{ oursLock }

func (l *semaphoreLock) Claim() Claim { return Claim{Weight: 1, Limit: Permits} }

// rwlockKind is a lock for readers and writers. writes reports whether a caller's nth acquire is for writing.
func rwlockKind(writes func(caller, n int) bool) kind {
	return func(c *quorumlock.Client, name string, _ Options) Lock {
		rw := c.RWLock(name)
		l := &rwLock{writes: writes}
		read, write := leaseOf(rw.Read()), leaseOf(rw.Write())
		l.take = func(ctx context.Context) (lease, error) {
			if l.writer = l.writes(l.caller, l.n); l.writer {
				return write(ctx)
			}
			return read(ctx)
		}
		return l
	}
}

type rwLock struct {
	oursLock
	writes func(caller, n int) bool
	caller int
	// n counts the acquires so far, and writer is set if the current one is for writing.
	n      int
	writer bool
}

func (l *rwLock) Number(caller int) { l.caller, l.n = caller, caller } // not all write at the same time

func (l *rwLock) Release(ctx context.Context) error {
	l.n++
	return l.oursLock.Release(ctx)
}

// Claim gives a writer more weight than all readers together.
func (l *rwLock) Claim() Claim {
	const all = 1 << 30
	if l.writer {
		return Claim{Weight: all, Limit: all}
	}
	return Claim{Weight: 1, Limit: all - 1}
}

package chaos

import (
	"context"
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/faultinject/history"
)

// take is one attempt to acquire an object of the worker's kind; nil if it failed.
func (w *worker) take(ctx context.Context) *had {
	switch w.kind {
	case Semaphore:
		return w.takePermits(ctx)
	case RWLock:
		if w.rng.IntN(3) == 0 {
			return w.takeToWrite(ctx)
		}
		return w.takeToRead(ctx)
	case Join:
		if w.rng.IntN(2) == 0 {
			return w.takeTogether(ctx)
		}
		return w.takeOne(ctx)
	default:
		return w.takeLock(ctx)
	}
}

// options turns renewal off for some leases, and limits the duration of all.
func (w *worker) options() quorumlock.LockOptions {
	return quorumlock.LockOptions{Fixed: w.rng.IntN(4) == 0, MaxHold: 2 * w.TTL}
}

func (w *worker) takeLock(ctx context.Context) *had {
	lock := w.draw()
	attempt := w.recorder.Acquire(w.number, lock.Names()...)
	lease, err := lock.Acquire(ctx)
	if err != nil {
		attempt.Failed(err)
		return nil
	}
	return leased(attempt.Granted(lease.Owner(), lease.Token()), lease, badgesOf(write, lease)...)
}

// badgesOf are the badges of each name of a lease.
func badgesOf(verb string, lease *quorumlock.Lease) []badge {
	var all []badge
	for _, name := range lease.Names() {
		all = append(all, badge{verb, name, lease.Token()})
	}
	return all
}

// draw selects a lock.
func (w *worker) draw() *quorumlock.Lock {
	names := []string{"alpha", "beta"}
	lock := w.client.RedLock(names[w.rng.IntN(len(names))])
	if w.Gentle {
		return lock
	}
	switch w.rng.IntN(10) {
	case 0:
		lock = w.client.MultiLock(names...)
	case 1:
		lock = w.client.MultiLock(names[w.rng.IntN(len(names))])
	}
	return lock.With(w.options())
}

// takePermits mostly acquires one permit, and sometimes all.
func (w *worker) takePermits(ctx context.Context) *had {
	return w.permits(ctx, "gamma", max(1, w.rng.IntN(2*gammaSize)-gammaSize+1), gammaSize)
}

func (w *worker) permits(ctx context.Context, name string, n, size int) *had {
	attempt := w.recorder.AcquirePermits(w.number, name, n, size)
	lease, err := w.client.Semaphore(name, size).With(w.options()).Acquire(ctx, n)
	if err != nil {
		attempt.Failed(err)
		return nil
	}
	held := attempt.Granted(lease.Owner(), lease.Token(), lease.Slots()...)
	return leased(held, lease, slotBadges(name, lease.Slots(), lease.Token())...)
}

func (w *worker) takeToRead(ctx context.Context) *had {
	attempt := w.recorder.AcquireRead(w.number, "delta")
	lease, err := w.client.RWLock("delta").With(w.options()).Read().Acquire(ctx)
	if err != nil {
		attempt.Failed(err)
		return nil
	}
	return leased(attempt.Granted(lease.Owner(), lease.Token()), lease, badgesOf(read, lease)...)
}

func (w *worker) takeToWrite(ctx context.Context) *had {
	rw := w.client.RWLock("delta").With(w.options())
	attempt := w.recorder.Acquire(w.number, "delta")
	lease, err := rw.Write().Acquire(ctx)
	if err != nil {
		attempt.Failed(err)
		return nil
	}
	got := leased(attempt.Granted(lease.Owner(), lease.Token()), lease, badgesOf(write, lease)...)
	got.downgrade = func(ctx context.Context) error { return rw.Downgrade(ctx, lease) }
	return got
}

// takeOne acquires one of the objects that others join.
func (w *worker) takeOne(ctx context.Context) *had {
	name := []string{"east", "west", "pool"}[w.rng.IntN(3)]
	if name == "pool" {
		return w.permits(ctx, name, 1, poolSize)
	}
	attempt := w.recorder.Acquire(w.number, name)
	lease, err := w.client.RedLock(name).With(w.options()).Acquire(ctx)
	if err != nil {
		attempt.Failed(err)
		return nil
	}
	return leased(attempt.Granted(lease.Owner(), lease.Token()), lease, badgesOf(write, lease)...)
}

// joined is a part of a joint lease.
type joined struct {
	lock    quorumlock.Acquirer
	attempt func() *history.Attempt
	// granted returns the slots and tokens to record and show.
	granted func(lease *quorumlock.JointLease) (slots []int, token uint64, badges []badge)
}

// apart are the options of a part: only a fault, or the lack of renewals, ends it.
func (w *worker) apart() quorumlock.LockOptions {
	return quorumlock.LockOptions{Fixed: w.rng.IntN(4) == 0}
}

// takeTogether acquires two or three objects, each with its own step of the plan, and each ended by itself if it is
// not released.
//
//nolint:contextcheck // which permits it has is asked of the context of the lease
func (w *worker) takeTogether(ctx context.Context) *had {
	all := []joined{w.joinedEast(), w.joinedLock("west", write, w.client.RedLock("west").With(w.apart())), w.joinedPermit()}
	w.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	all = all[:2+w.rng.IntN(2)]
	var locks []quorumlock.Acquirer
	var attempts []*history.Attempt
	for _, one := range all {
		locks = append(locks, one.lock)
		attempts = append(attempts, one.attempt())
	}
	lease, err := quorumlock.Join(locks...).Acquire(ctx)
	if err != nil {
		for _, attempt := range slices.Backward(attempts) {
			attempt.Failed(err)
		}
		return nil
	}
	w.joints++
	got := &had{err: lease.Err, release: lease.Release, keepLost: w.rng.IntN(2) == 0}
	for i, one := range all {
		slots, token, badges := one.granted(lease)
		got.parts = append(got.parts, attempts[i].Granted(fmt.Sprintf("%s/w%d/%d", w.Label, w.number, w.joints), token, slots...))
		got.badges = append(got.badges, badges...)
	}
	return got
}

// joinedEast is a part for reading or for writing.
func (w *worker) joinedEast() joined {
	rw := w.client.RWLock("east").With(w.apart())
	if w.rng.IntN(2) == 0 {
		return w.joinedLock("east", write, rw.Write())
	}
	return w.joinedLock("east", read, rw.Read())
}

func (w *worker) joinedLock(name, verb string, lock *quorumlock.Lock) joined {
	return joined{
		lock: lock,
		attempt: func() *history.Attempt {
			if verb == read {
				return w.recorder.AcquireRead(w.number, name)
			}
			return w.recorder.Acquire(w.number, name)
		},
		granted: func(lease *quorumlock.JointLease) ([]int, uint64, []badge) {
			token := lease.Token(lock, name)
			return nil, token, []badge{{verb, name, token}}
		},
	}
}

func (w *worker) joinedPermit() joined {
	pool := w.client.Semaphore("pool", poolSize).With(w.apart())
	return joined{
		lock:    pool.Acquirer(1),
		attempt: func() *history.Attempt { return w.recorder.AcquirePermits(w.number, "pool", 1, poolSize) },
		granted: func(lease *quorumlock.JointLease) ([]int, uint64, []badge) {
			slots, token, _ := pool.Slots(lease.Context())
			return slots, token, slotBadges("pool", slots, token)
		},
	}
}

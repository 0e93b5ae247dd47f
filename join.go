package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Acquirer is a lock that can be joined with others: a [Lock], readers and writers too, or so many
// permits of a semaphore, see [Semaphore.Acquirer]. What it needs for that is its own to know, so no other package has one.
type Acquirer interface {
	// parts are what the lock consists of, each with a place in the order in which locks are
	// taken; the error is an [*InvalidError].
	parts() ([]joinPart, error)
}

// Joined is several locks that are held together or not at all: of any kind, with any options,
// on the same or on different nodes. It is made by [Join]; it is a description, immutable, and
// safe for concurrent use.
type Joined struct {
	steps []joinStep
	err   error
}

// Join joins locks. Names of one client, under the same options, are taken in one step, as far
// as the order allows.
//
// All who join take what they need in one order: by name, byte by byte, then by kind, then by
// the names of the nodes, sorted. So those who join never wait for each other in a circle,
// whatever order they list the locks in, and in whatever processes they are, provided that those
// who join locks of one name on several sets of nodes call the nodes by the same names. Who takes
// locks one by one, inside or outside of a Join, has to keep to that order, too, or to TryAcquire.
//
// That a lock is listed twice, or two of its names are the same, is reported by every method, as
// an [*InvalidError], and so is what is wrong with any of the locks.
func Join(locks ...Acquirer) *Joined {
	j := &Joined{}
	var all []joinPart
	var problems []string
	for i, lock := range locks {
		if l, ok := lock.(*Lock); lock == nil || ok && l == nil {
			problems = append(problems, fmt.Sprintf("lock %d is nil", i+1))
			continue
		}
		parts, err := lock.parts()
		if invalid, ok := errors.AsType[*InvalidError](err); ok {
			problems = append(problems, invalid.Problems...)
		}
		all = append(all, parts...)
	}
	if len(locks) == 0 {
		problems = append(problems, "nothing to join")
	}
	slices.SortStableFunc(all, joinPart.compare)
	for i := range all {
		if i > 0 && all[i-1].compare(all[i]) == 0 {
			problems = append(problems, fmt.Sprintf("%s %q is joined with itself", all[i].kind, all[i].name))
		}
	}
	if len(problems) > 0 {
		j.err = &InvalidError{Problems: problems}
		return j
	}
	j.steps = joinSteps(all)
	return j
}

// TryAcquire takes all of the locks if that is possible now, and otherwise none: what it took
// is given back before it returns the error of the lock that it did not get.
func (j *Joined) TryAcquire(ctx context.Context) (*JointLease, error) { return j.acquire(ctx, false) }

// Acquire takes all of the locks, one step after the other, and waits for each as long as ctx
// allows. If one that it has got is lost while it waits for the next, it gives all back and
// begins anew.
//
// It returns the errors that [Lock.Acquire] does, and then holds nothing: what it took is given
// back before it returns, whatever the state of ctx, bounded by the timeouts of the nodes. Locks
// that ctx holds already are held once more by the result, as nested leases are; where it holds
// only some of the names that are taken in one step, the error is ErrOverlap.
func (j *Joined) Acquire(ctx context.Context) (*JointLease, error) { return j.acquire(ctx, true) }

func (j *Joined) acquire(ctx context.Context, wait bool) (*JointLease, error) {
	switch {
	case ctx == nil:
		return nil, errNilContext
	case j.err != nil:
		return nil, j.err
	}
	for {
		l, err := j.attempt(ctx, wait)
		if err == nil {
			return l, nil
		}
		lost := errors.Is(err, errJoinLost) && !errors.Is(err, ErrClosed)
		if !wait || !lost || ctx.Err() != nil {
			return nil, err
		}
	}
}

// errJoinLost marks the loss of one lock while others were waited for.
var errJoinLost = errors.New("lost before the others were had")

// attempt takes one step after the other. What ends what it has, ends the wait for the next.
func (j *Joined) attempt(ctx context.Context, wait bool) (*JointLease, error) {
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l := newJointLease(ctx, j, cancel)
	for _, s := range j.steps {
		lease, err := s.take(waiting, wait)
		if err == nil && !l.add(lease) {
			_ = lease.Release(ctx)
		}
		if over := l.joinLostError(); over != nil && (err == nil || ctx.Err() == nil) {
			err = over
		}
		if err != nil {
			_ = l.Release(ctx)
			return nil, err
		}
	}
	return l, nil
}

// Do runs fn while it holds all of the locks. It waits for them as Acquire does, and all else is
// as with [Lock.Do].
func (j *Joined) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	lease, err := j.Acquire(ctx)
	if err != nil {
		return err
	}
	return runWhileHeld(ctx, jointContext{Context: ctx, lease: lease}, lease, fn)
}

package quorumlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
var errJoinLost = errors.New("lost before the other locks were acquired")

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

// joinPart is one name of a lock that is joined.
type joinPart struct {
	// name, kind and nodes say which it is, in any process: kind is that of locks that exclude
	// each other, nodes the names of the nodes.
	name, kind, nodes string
	// take takes it, or tries to.
	take func(ctx context.Context, wait bool) (*Lease, error)
	// lock is set if it is of a plain lock: several names of such locks can be taken at once.
	lock *Lock
}

// compare orders the parts of all locks, in all processes alike.
func (p joinPart) compare(q joinPart) int {
	return cmp.Or(strings.Compare(p.name, q.name), strings.Compare(p.kind, q.kind), strings.Compare(p.nodes, q.nodes))
}

// parts makes a Lock an Acquirer.
func (l *Lock) parts() ([]joinPart, error) {
	if len(l.problems) > 0 {
		return nil, &InvalidError{Problems: l.problems}
	}
	parts := make([]joinPart, len(l.names))
	for i, name := range l.names {
		parts[i] = joinPart{name: name, kind: "lock", nodes: l.client.sortedNodeNames(), lock: l}
	}
	return parts, nil
}

// sortedNodeNames are the names of the nodes, in one order.
func (c *Client) sortedNodeNames() string {
	names := make([]string, c.nodes.Len())
	for i := range names {
		names[i] = c.nodes.Name(i)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// withNames is the same lock on some of its names, and on those of others that are alike.
func (l *Lock) withNames(names []string) *Lock {
	if slices.Equal(l.names, names) {
		return l
	}
	m := *l
	m.names, m.queueName[0], m.problems = names, joinNames(names), nameProblems(names)
	return &m
}

// sameOptions reports whether names of both locks can be taken at once. Readers take one each.
func (l *Lock) sameOptions(m *Lock) bool {
	return !l.shared && !m.shared && l.client == m.client && l.need == m.need && l.ttl == m.ttl && l.maxHold == m.maxHold &&
		l.noRenew == m.noRenew && equalStrings(l.purpose, m.purpose) && l.waitMode == m.waitMode && l.mayHandOver == m.mayHandOver
}

// joinStep is what is taken at once.
type joinStep struct {
	parts []joinPart
	take  func(ctx context.Context, wait bool) (*Lease, error)
}

// joinSteps puts neighbours together that can be taken at once. Whoever waits for a step holds
// only what comes before all of it.
func joinSteps(all []joinPart) []joinStep {
	var steps []joinStep
	for _, p := range all {
		if n := len(steps); n > 0 && steps[n-1].canInclude(p) {
			steps[n-1].parts = append(steps[n-1].parts, p)
			continue
		}
		steps = append(steps, joinStep{parts: []joinPart{p}, take: p.take})
	}
	for i, s := range steps {
		if first := s.parts[0].lock; first != nil {
			names := make([]string, len(s.parts))
			for k, p := range s.parts {
				names[k] = p.name
			}
			steps[i].take = first.withNames(names).acquireOrTry
		}
	}
	return steps
}

// canInclude reports whether a part can be taken in the same step.
func (s joinStep) canInclude(p joinPart) bool {
	first := s.parts[0].lock
	return first != nil && p.lock != nil && first.sameOptions(p.lock) && len(s.parts) < MaxNames
}

// acquireOrTry takes the lock, or tries to.
func (l *Lock) acquireOrTry(ctx context.Context, wait bool) (*Lease, error) {
	if wait {
		return l.Acquire(ctx)
	}
	return l.TryAcquire(ctx)
}

// Acquirer is so many permits of the semaphore, to be joined with other locks by [Join].
func (s *Semaphore) Acquirer(permits int) Acquirer { return semaphorePermits{s, permits} }

// semaphorePermits is some permits of a semaphore.
type semaphorePermits struct {
	semaphore *Semaphore
	permits   int
}

// parts makes it an Acquirer: all permits are taken at once, or none.
func (p semaphorePermits) parts() ([]joinPart, error) {
	if problems := p.semaphore.lockFor(p.permits).problems; len(problems) > 0 {
		return nil, &InvalidError{Problems: problems}
	}
	return []joinPart{{
		name: p.semaphore.name, kind: "semaphore", nodes: p.semaphore.client.sortedNodeNames(),
		take: func(ctx context.Context, wait bool) (*Lease, error) {
			if wait {
				return p.semaphore.Acquire(ctx, p.permits)
			}
			return p.semaphore.TryAcquire(ctx, p.permits)
		},
	}}, nil
}

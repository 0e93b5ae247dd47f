package quorumlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/wait"
	"github.com/quorumlock/quorumlock/quorum"
)

// Joinable is a lock that [Join] can join with others: a [Lock], which includes readers and
// writers, or permits of a semaphore, see [Semaphore.Joinable]. Its method is unexported, so other
// packages cannot implement it.
type Joinable interface {
	// parts returns the parts of the lock, each with its place in the order of acquisition. The
	// error is an [*InvalidError].
	parts() ([]joinPart, error)
}

// Joined is several locks that are held together or not at all. They may be of any kind, with any
// options, on the same nodes or on different ones. A Joined is made by [Join]. It is an immutable
// description, and safe for concurrent use.
type Joined struct {
	steps    []joinStep
	problems []string
}

// Join joins locks. Names of one client, under the same options, are taken in one step, where the
// order allows.
//
// Every Join takes its locks in one order: by name, byte by byte, then by kind, then by the sorted
// names of the nodes. So joins in any processes never wait for each other in a circle, whatever
// order their callers list the locks in. One condition applies to locks of one name on several sets
// of nodes: all clients must give the nodes the same names. A program that takes locks one by one
// must keep to that order too, or use TryAcquire.
//
// If no lock is given, or a lock is nil or invalid, every method returns an [*InvalidError]. So it does
// if two locks share a name on the same nodes, as the reader and the writer of an RWLock do. A
// semaphore may have the name of a lock.
func Join(locks ...Joinable) *Joined {
	j := &Joined{}
	var all []joinPart
	for i, lock := range locks {
		if l, ok := lock.(*Lock); lock == nil || ok && l == nil {
			j.problems = append(j.problems, fmt.Sprintf("lock %d is nil", i+1))
			continue
		}
		parts, err := lock.parts()
		var invalid *InvalidError
		if errors.As(err, &invalid) {
			j.problems = append(j.problems, invalid.Problems...)
		}
		all = append(all, parts...)
	}
	slices.SortStableFunc(all, joinPart.compare)
	for i := range all {
		if i > 0 && all[i-1].compare(all[i]) == 0 {
			j.problems = append(j.problems, fmt.Sprintf("%s %q is joined with itself", all[i].kind, all[i].shown()))
		}
	}
	if len(j.problems) == 0 {
		j.steps = joinSteps(all)
	}
	return j
}

// TryAcquire takes all of the locks if that is possible now, and otherwise none. It releases what
// it took before it returns the error of the lock that it could not take. If it lost one of the locks
// meanwhile, the error wraps that loss.
func (j *Joined) TryAcquire(ctx context.Context) (*JointLease, error) { return j.acquire(ctx, false) }

// Acquire takes all of the locks, one step after the other, and waits for each as long as ctx
// allows. If it loses one while it waits for the next, it releases all and begins anew, after a pause
// that grows from the client's RetryMin to its RetryMax.
//
// It returns the errors that [Lock.Acquire] does. After an error it holds nothing: it releases its
// locks before it returns, even if ctx has ended, bounded by the timeouts of the nodes. For locks
// that ctx holds already, the result has nested leases; permits are always taken anew. If ctx holds only
// some of the names of one step, or too many permits, the error is ErrOverlap.
func (j *Joined) Acquire(ctx context.Context) (*JointLease, error) { return j.acquire(ctx, true) }

func (j *Joined) acquire(ctx context.Context, wait bool) (*JointLease, error) {
	switch {
	case ctx == nil:
		return nil, invalid(nilContext)
	case len(j.problems) > 0:
		return nil, invalid(j.problems...)
	case len(j.steps) == 0:
		return nil, invalid("nothing to join")
	}
	for attempts := 0; ; attempts++ {
		l, err := j.attempt(ctx, wait)
		switch lost := errors.Is(err, errJoinLost) && !errors.Is(err, ErrClosed); {
		case err == nil:
			return l, nil
		case !wait || !lost:
			return nil, err
		}
		if j.pause(ctx, attempts); ctx.Err() != nil {
			return nil, lease.GaveUp(err, lease.ContextError(ctx))
		}
	}
}

// pause lets others have the locks that were released after a loss. Without it, a lock with a short MaxHold would
// be taken again and again while the next one is held.
func (j *Joined) pause(ctx context.Context, attempts int) {
	cfg, over := &j.steps[0].parts[0].client.cfg, make(chan struct{})
	timer := cfg.Clock.AfterFunc(quorum.Backoff(attempts, cfg.RetryMin, cfg.RetryMax, cfg.Jitter()), func() { close(over) })
	defer timer.Stop()
	select {
	case <-over:
	case <-ctx.Done():
	}
}

// errJoinLost marks the loss of one lock while Join waited for another.
var errJoinLost = errors.New("a lock was lost before the other locks were acquired")

// attempt takes one step after the other. The loss of a lock it has ends the wait for the next.
func (j *Joined) attempt(ctx context.Context, wait bool) (*JointLease, error) {
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l := newJointLease(ctx, j, cancel)
	for _, s := range j.steps {
		lease, err := s.take(waiting, wait)
		if err == nil && !l.add(lease) {
			lease.WaiveMinHold()
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
	l.markGranted()
	return l, nil
}

// Do runs fn while it holds all of the locks. It waits for them as Acquire does. Otherwise it
// behaves as [Lock.Do].
func (j *Joined) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	if fn == nil {
		return invalid("the function is nil")
	}
	lease, err := j.Acquire(ctx)
	if err != nil {
		return err
	}
	return runWhileHeld(ctx, jointContext{Context: ctx, lease: lease}, lease, fn)
}

// joinPart is one name of a joined lock.
type joinPart struct {
	// name, kind and nodes identify the part in every process. Locks of one kind exclude each
	// other. name is a name on the nodes, which begins with a prefix of the client; nodes has the
	// names of the nodes.
	name, kind, nodes string
	// prefix is the length of that prefix.
	prefix int
	client *Client
	// take acquires the part, waiting or not. It is nil if lock is set.
	take func(ctx context.Context, wait bool) (*Lease, error)
	// lock is set for a plain lock: several names of such locks can be taken at once.
	lock *Lock
}

// shown returns the name that the program gave.
func (p joinPart) shown() string { return p.name[p.prefix:] }

// compare orders the parts of all locks, alike in all processes.
func (p joinPart) compare(q joinPart) int {
	return cmp.Or(strings.Compare(p.name, q.name), strings.Compare(p.kind, q.kind), strings.Compare(p.nodes, q.nodes))
}

// parts makes a Lock a Joinable.
func (l *Lock) parts() ([]joinPart, error) {
	if problems := l.problems(); problems != nil {
		return nil, invalid(problems...)
	}
	parts := make([]joinPart, len(l.spec.Names))
	for i, name := range l.spec.Names {
		parts[i] = joinPart{name: name, kind: "lock", nodes: l.client.sortedNodeNames(), prefix: int(l.spec.Prefix), client: l.client, lock: l}
	}
	return parts, nil
}

// sortedNodeNames returns the names of the nodes, sorted and joined.
func (c *Client) sortedNodeNames() string {
	names := make([]string, c.nodes.Len())
	for i := range names {
		names[i] = c.nodes.Name(i)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// withNames returns the same lock on other names: some of its own, and names of locks with
// sameOptions.
func (l *Lock) withNames(names []string) *Lock {
	if slices.Equal(l.spec.Names, names) {
		return l
	}
	m := *l
	m.spec.Names, m.spec.Queue[0], m.invalid = names, wait.JoinNames(names), nil
	m.addProblems(nameProblems(l.client.cfg.Prefix, names)...)
	return &m
}

// sameOptions reports whether names of both locks can be taken in one step. Readers take one name
// at a time.
func (l *Lock) sameOptions(m *Lock) bool {
	return !l.spec.Reads && !m.spec.Reads && l.client == m.client && l.spec.Need == m.spec.Need && l.spec.TTL == m.spec.TTL &&
		l.spec.MinHold == m.spec.MinHold && l.spec.MaxHold == m.spec.MaxHold &&
		l.spec.Fixed == m.spec.Fixed && l.spec.Label == m.spec.Label && l.waitMode == m.waitMode && l.spec.HandOver == m.spec.HandOver
}

// joinStep is the parts that are taken at once.
type joinStep struct {
	parts []joinPart
	take  func(ctx context.Context, wait bool) (*Lease, error)
}

// joinSteps groups neighbours that can be taken at once. While Acquire waits for a step, it holds
// only parts that come before all of that step.
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

// canInclude reports whether the step can take a further part.
func (s joinStep) canInclude(p joinPart) bool {
	first := s.parts[0].lock
	return first != nil && p.lock != nil && first.sameOptions(p.lock) && len(s.parts) < MaxNames
}

func (l *Lock) acquireOrTry(ctx context.Context, wait bool) (*Lease, error) {
	if wait {
		return l.Acquire(ctx)
	}
	return l.TryAcquire(ctx)
}

// Joinable returns permits of the semaphore as a lock for [Join]. They are taken all at once, or
// none.
func (s *Semaphore) Joinable(permits int) Joinable { return semaphorePermits{s, permits} }

// semaphorePermits is the Joinable of some permits.
type semaphorePermits struct {
	semaphore *Semaphore
	permits   int
}

// parts makes semaphorePermits a Joinable.
func (p semaphorePermits) parts() ([]joinPart, error) {
	if problems := p.semaphore.lockFor(p.permits).problems(); len(problems) > 0 {
		return nil, invalid(problems...)
	}
	client := p.semaphore.client
	prefix := client.cfg.Prefix
	return []joinPart{{
		name: prefix + p.semaphore.name, kind: "semaphore", nodes: client.sortedNodeNames(), prefix: len(prefix), client: client,
		take: func(ctx context.Context, wait bool) (*Lease, error) {
			if wait {
				return p.semaphore.Acquire(ctx, p.permits)
			}
			return p.semaphore.TryAcquire(ctx, p.permits)
		},
	}}, nil
}

package quorumlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"weak"

	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/wait"
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
// that grows from the client's RetryMin to its RetryMax. A MaxOutage then counts anew.
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
		// Without a pause, a lock with a short MaxHold would be taken again and again while the next one is held.
		if j.steps[0].parts[0].client.pause(ctx, attempts); ctx.Err() != nil {
			return nil, lease.GaveUp(err, lease.ContextError(ctx))
		}
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
		if over := l.Err(); over != nil && (err == nil || ctx.Err() == nil) {
			err = fmt.Errorf("%w: %w", errJoinLost, over)
		}
		if err != nil {
			_ = l.Release(ctx)
			return nil, err
		}
	}
	l.mu.Lock()
	l.granted = true
	l.mu.Unlock()
	return l, nil
}

// Do runs fn while it holds all of the locks. It waits for them as Acquire does. Otherwise it
// behaves as [Lock.Do].
func (j *Joined) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	return doHeld(ctx, j.Acquire, fn)
}

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

func (p joinPart) shown() string { return p.name[p.prefix:] }

// compare orders the parts of all locks, alike in all processes.
func (p joinPart) compare(q joinPart) int {
	return cmp.Or(strings.Compare(p.name, q.name), strings.Compare(p.kind, q.kind), strings.Compare(p.nodes, q.nodes))
}

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
		l.spec.MinHold == m.spec.MinHold && l.spec.MaxHold == m.spec.MaxHold && l.spec.MaxOutage == m.spec.MaxOutage &&
		l.spec.Fixed == m.spec.Fixed && l.spec.Label == m.spec.Label && l.spec.Spins == m.spec.Spins && l.spec.HandOver == m.spec.HandOver
}

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
			steps[i].take = first.withNames(names).acquire
		}
	}
	return steps
}

func (s joinStep) canInclude(p joinPart) bool {
	first := s.parts[0].lock
	return first != nil && p.lock != nil && first.sameOptions(p.lock) && len(s.parts) < MaxNames
}

// Joinable returns permits of the semaphore as a lock for [Join]. They are taken all at once, or
// none.
func (s *Semaphore) Joinable(permits int) Joinable { return semaphorePermits{s, permits} }

type semaphorePermits struct {
	semaphore *Semaphore
	permits   int
}

func (p semaphorePermits) parts() ([]joinPart, error) {
	if problems := p.semaphore.lockFor(p.permits).problems(); len(problems) > 0 {
		return nil, invalid(problems...)
	}
	client := p.semaphore.client
	prefix := client.cfg.Prefix
	return []joinPart{{
		name: prefix + p.semaphore.name, kind: "semaphore", nodes: client.sortedNodeNames(), prefix: len(prefix), client: client,
		take: func(ctx context.Context, waits bool) (*Lease, error) {
			return p.semaphore.acquire(ctx, p.permits, waits)
		},
	}}, nil
}

// JointLease is the right to act as the holder of all locks of a [Join]. It ends when the first of
// them does, and the others are then released. It must be released. A joint lease that is garbage
// collected without a Release is a leak of each of its locks. It is safe for concurrent use.
type JointLease struct {
	joined *Joined
	ctx    context.Context //nolint:containedctx // the result of Context
	// cancel ends ctx. interrupt ends the wait for the next lock.
	cancel, interrupt context.CancelCauseFunc

	mu    sync.Mutex
	parts []*Lease
	// granted is set once all locks are held. Until then no work was done under any of them.
	granted  bool
	endCause error
	// releasesBegun is done when the release of all locks has begun. releases has the rounds that
	// nodes must confirm, failures the errors of the other locks.
	releasesBegun sync.WaitGroup
	releases      []*lease.Release
	failures      []error
}

func newJointLease(ctx context.Context, j *Joined, interrupt context.CancelCauseFunc) *JointLease {
	l := &JointLease{joined: j, interrupt: interrupt}
	over, cancel := context.WithCancelCause(context.Background())
	l.ctx, l.cancel = leaseContext{Context: over, values: ctx, lease: l}, cancel
	l.releasesBegun.Add(1)
	return l
}

// add appends the lease of the next step. It reports false if the joint lease is over.
func (l *JointLease) add(part *Lease) bool {
	l.mu.Lock()
	if l.endCause != nil {
		l.mu.Unlock()
		return false
	}
	l.parts = append(l.parts, part)
	l.mu.Unlock()
	if over := part.lease.Join(jointRef{weak.Make(l), l.cancel}); over != nil {
		l.end(over)
	}
	return true
}

func (l *JointLease) leases() []*Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.parts
}

// Leases returns the leases of the locks, in the order of acquisition: one for each lock, or one
// for several names that were taken in one step. They have the owner ids, the tokens and
// the times of validity, which a JointLease lacks. Release the JointLease, not one of these: with
// one of them that is not nested, all of it ends.
func (l *JointLease) Leases() []*Lease { return slices.Clone(l.leases()) }

// end ends the joint lease, unless it has ended, and begins the releases.
func (l *JointLease) end(why error) {
	if l.markEnded(why) {
		l.beginReleases()
	}
}

// markEnded marks the joint lease as over, and reports false if it was over before. After true, the
// caller must call beginReleases. The caller may hold the mutex of a grant.
func (l *JointLease) markEnded(why error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.endCause != nil {
		return false
	}
	l.endCause = why
	l.cancel(why)
	l.interrupt(why)
	return true
}

// beginReleases begins to release all locks, and waits for none. It is called once, with no mutex
// of a grant held.
func (l *JointLease) beginReleases() {
	defer l.releasesBegun.Done()
	l.mu.Lock()
	granted := l.granted
	l.mu.Unlock()
	for _, part := range l.leases() {
		if !granted {
			part.WaiveMinHold()
		}
		if r, err := part.beginRelease(); r != nil {
			l.releases = append(l.releases, r)
		} else if err != nil {
			l.failures = append(l.failures, err)
		}
	}
}

// Context returns a context that ends when the first of the locks does, by local time, with the
// reason as its cause. The network cannot delay that. It has the values of the context that
// acquired the locks, but not its deadline. Acquire of any of the locks treats the lock as already
// held if it gets this context. Permits are the exception: they are never nested. [Lock.Token] and
// [Semaphore.Slots] find the tokens in it.
func (l *JointLease) Context() context.Context {
	if l.joined == nil {
		return endedContext(l.Err())
	}
	return l.ctx
}

// Err returns nil while all locks are held. After that it returns why the first of them ended, as
// [Lease.Err] does, or ErrReleased. It is exact: it reads the clock.
func (l *JointLease) Err() error {
	if l.joined == nil {
		return invalid(zeroValue)
	}
	l.mu.Lock()
	over, held := l.endCause, l.parts
	l.mu.Unlock()
	for i := 0; over == nil && i < len(held); i++ {
		over = held[i].Err()
	}
	return over
}

// Release releases all of the locks, and waits until enough nodes have confirmed each, as
// [Lease.Release] does. If the joint lease had ended before, the error says how. Otherwise Release
// joins the errors of the locks whose release failed.
func (l *JointLease) Release(context.Context) error {
	before := l.Err()
	if l.joined == nil {
		return before
	}
	l.end(cmp.Or(before, ErrReleased))
	l.releasesBegun.Wait()
	errs := slices.Clone(l.failures)
	for _, r := range l.releases {
		errs = append(errs, r.Wait())
	}
	if before != nil {
		return before
	}
	return errors.Join(errs...)
}

// contextValue implements heldLease: it asks all leases.
func (l *JointLease) contextValue(key any) any {
	switch key.(type) {
	case anyKey, heldKey, tokenKey, *permitQuery:
		for _, part := range l.leases() {
			if v := part.contextValue(key); v != nil {
				return v
			}
		}
	}
	return nil
}

// jointRef makes a joint lease end with one of its locks: it implements lease.Dependent. Its
// reference is weak, so that a leak can be detected. It has the cancel
// function of its context, as a caller may hold that context alone. A context made from that one
// keeps the joint lease alive.
type jointRef struct {
	lease  weak.Pointer[JointLease]
	cancel context.CancelCauseFunc
}

// IsOver reports whether the joint lease has ended, or was collected.
func (j jointRef) IsOver() bool {
	l := j.lease.Value()
	if l == nil {
		j.cancel(ErrLeaked)
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.endCause != nil
}

// MarkEnded implements lease.Dependent.
func (j jointRef) MarkEnded(cause error) (release func()) {
	l := j.lease.Value()
	switch {
	case l == nil:
		j.cancel(cause)
	case l.markEnded(cause):
		return l.beginReleases
	}
	return nil
}

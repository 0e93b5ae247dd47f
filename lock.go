package quorumlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/slots"
	"github.com/quorumlock/quorumlock/quorum"
)

// Lock describes a lock: its names, its rule, its options. It is made by [Client.RedLock] or
// [Client.MultiLock]. It is immutable, and safe for concurrent use.
type Lock struct {
	client *Client
	spec.Names  []string
	// queueName identifies the local queue: the name, or several names with their lengths, or the
	// pool of a semaphore. An array, so that the names of a lock with one name need no allocation.
	spec.Queue [1]string
	// defaultRule is the rule of the lock's kind. need is the number of nodes of the rule in force.
	defaultRule quorum.Rule
	spec.Need        int
	spec.TTL         time.Duration
	spec.MaxHold     time.Duration
	// purpose is LockOptions.Purpose, or nil.
	spec.Purpose *string
	// slots is set for a semaphore. names then has the slots of an attempt, or the lock's own name.
	spec.Slots *slots.Request
	// problems lists the invalid names and options. The first ownProblems of them come from how the
	// names were built (Striped) and survive With.
	problems    []string
	ownProblems int32
	spec.Fixed     bool
	waitMode    Waiting
	// shared is set for the readers of an RWLock.
	spec.Reads bool
	// mayHandOver is set if a lease may be handed over to another waiter of the client.
	spec.HandOver bool
}

// reservedPrefix starts the keys of the library itself.
const reservedPrefix = "quorumlock:"

var errNilContext = &InvalidError{Problems: []string{"the context is nil"}}

func newLock(c *Client, names []string, rule quorum.Rule) *Lock {
	need := rule.Need(c.nodes.Len())
	l := &Lock{
		client:      c,
		defaultRule: rule,
		spec.Need:        need,
		spec.TTL:         c.cfg.TTL,
		spec.MaxHold:     c.cfg.MaxHold,
		waitMode:    c.cfg.Waiting,
		spec.HandOver: !c.cfg.Handover.Off && c.cfg.Waiting != WaitFair,
	}
	if len(names) == 1 {
		l.spec.Queue[0] = names[0]
		l.spec.Names = l.spec.Queue[:]
	} else {
		l.spec.Names = slices.Clone(names)
		slices.Sort(l.spec.Names)
		l.spec.Queue[0] = joinNames(l.spec.Names)
	}
	l.problems = nameProblems(l.spec.Names)
	return l
}

// With returns the same lock with these options, and no others: it forgets the options of an
// earlier With. Every method of the result reports invalid options, as an [*InvalidError].
func (l *Lock) With(o LockOptions) *Lock {
	m := newLock(l.client, l.spec.Names, l.defaultRule)
	if l.spec.Reads {
		m.asReader()
	}
	m.spec.TTL, m.spec.MaxHold, m.spec.Fixed = wholeTTL(cmp.Or(o.TTL, m.spec.TTL)), cmp.Or(o.MaxHold, m.spec.MaxHold), o.Fixed
	m.spec.Need = cmp.Or(o.Rule, l.defaultRule).Need(l.client.nodes.Len())
	m.waitMode = cmp.Or(o.Waiting, m.waitMode)
	m.spec.HandOver = !l.client.cfg.Handover.Off && !o.NoHandover && !o.Fixed && m.waitMode != WaitFair && !m.spec.Reads
	m.ownProblems = l.ownProblems
	m.problems = append(slices.Clone(l.problems[:l.ownProblems]), m.problems...)
	m.problems = append(m.problems, l.client.cfg.ttlProblems(m.spec.TTL)...)
	if o.Purpose != "" {
		m.spec.Purpose = &o.Purpose
	}
	if problem := checkLabel("Purpose", o.Purpose, MaxPurposeLength, true); problem != "" {
		m.problems = append(m.problems, problem)
	}
	if m.spec.MaxHold < 0 {
		m.problems = append(m.problems, fmt.Sprintf("MaxHold %v is negative", m.spec.MaxHold))
	}
	if m.waitMode > WaitSpin {
		m.problems = append(m.problems, fmt.Sprintf("unknown Waiting %d", m.waitMode))
	}
	if err := cmp.Or(o.Rule, l.defaultRule).Validate(l.client.nodes.Len()); err != nil {
		m.problems = append(m.problems, err.Error())
	}
	return m
}

// nameProblems lists the problems of a lock's names, which are sorted.
func nameProblems(names []string) []string {
	var p []string
	switch {
	case len(names) == 0:
		p = append(p, "no name")
	case len(names) > MaxNames:
		p = append(p, fmt.Sprintf("%d names are more than %d", len(names), MaxNames))
	}
	for i, name := range names {
		switch {
		case name == "":
			p = append(p, "a name is empty")
		case len(name) > MaxNameLength:
			p = append(p, fmt.Sprintf("name %.20q... has %d bytes, more than %d", name, len(name), MaxNameLength))
		case strings.HasPrefix(name, reservedPrefix):
			p = append(p, fmt.Sprintf("name %q starts with %q, which is reserved", name, reservedPrefix))
		case i > 0 && name == names[i-1]:
			p = append(p, fmt.Sprintf("name %q is listed twice", name))
		}
	}
	return p
}

// Names returns the names of the lock, sorted. A semaphore has one name, its own.
func (l *Lock) Names() []string {
	if l.spec.Slots != nil {
		return []string{l.spec.Slots.Semaphore}
	}
	return slices.Clone(l.spec.Names)
}

// validate rejects an invalid call before anything is sent.
func (l *Lock) validate(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	if len(l.problems) > 0 {
		return &InvalidError{Problems: l.problems}
	}
	return nil
}

// TryAcquire takes the lock if that is possible now, in one attempt.
//
// It fails with a [*HeldError] if another owner has the lock. That error also means that the lock
// is free but reserved for an earlier waiter, except with WaitSpin. It fails with a
// [*NoQuorumError] if too few nodes answer. After a failure, the library undoes partial grants in
// the background. ctx bounds the attempt only: the lease outlives it. See [Lock.Acquire] for the
// rest.
func (l *Lock) TryAcquire(ctx context.Context) (*Lease, error) {
	return l.acquire(ctx, (*Lock).acquireNow)
}

// Acquire takes the lock, and waits for it as long as ctx allows. [Waiting] says how it waits, and
// when its turn comes.
//
// If ctx comes from a lease of this lock, or carries its [Lease.Context], the lock is held already.
// Acquire then returns a nested lease, at once and without the network. It has the names, the TTL
// and the limits of the lease that it is nested in. Without that context a second Acquire waits, as
// sync.Mutex would.
//
// ctx bounds the acquisition only. The lease lives until Release, loss, Close, or its MaxHold, and
// renews itself until then unless the lock is Fixed.
//
// Acquire also retries while too few nodes answer. When ctx ends, the error wraps both ctx's error
// and the last attempt's, a [*HeldError] or [*NoQuorumError]. It returns early if waiting cannot
// help: with [ErrClosed], [ErrOverlap], [ErrUpgrade] or an [*InvalidError], or with a
// [*NoQuorumError] if too many nodes reject the call for good. Such rejections are a wrong
// password, a key of another type, other limits, or a clock that is far off. After any error, no
// node keeps a grant: the library removes the remains in the background.
func (l *Lock) Acquire(ctx context.Context) (*Lease, error) {
	return l.acquire(ctx, (*Lock).acquireWaiting)
}

// acquire does what all ways of acquiring share.
func (l *Lock) acquire(ctx context.Context, way func(*Lock, context.Context) (*lease, error)) (*Lease, error) {
	if err := l.validate(ctx); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, contextError(ctx)
	}
	if lease, err := l.nestedLease(ctx); lease != nil || err != nil {
		return lease, err
	}
	if err := l.client.beginCall(); err != nil {
		return nil, err
	}
	defer l.client.endCall()
	traced, tr := l.startTrace(ctx)
	t, err := way(l, traced)
	tr.onReturn(t, err)
	if err != nil {
		return nil, err
	}
	return newLease(ctx, t), nil
}

// acquireWaiting waits in the local queue until the lock is taken, or waiting cannot help.
func (l *Lock) acquireWaiting(ctx context.Context) (*lease, error) {
	w := newWaiter(l)
	t, err := w.run(ctx)
	w.finish(t)
	return t, err
}

// acquireNow makes an attempt without the local queue.
func (l *Lock) acquireNow(ctx context.Context) (*lease, error) {
	began := l.client.clock.Now()
	for tries := 1; ; tries++ {
		g, _, err := l.tracedAttempt(ctx, nil)
		switch {
		case err == nil:
			l.reportAcquired(g.lease, AcquiredEvent{Attempts: tries, Waited: g.grantedAt - began})
			return g.lease, nil
		case ctx.Err() != nil:
			err = gaveUpError(err, contextError(ctx))
		}
		l.reportFailed(tries, err)
		if ctx.Err() != nil || !l.slotsWereMisnamed(tries, err) {
			return nil, err
		}
	}
}

func (l *Lock) reportAcquired(t *lease, e AcquiredEvent) {
	if hook := l.client.cfg.Hooks.Acquired; hook != nil {
		e.Names, e.Owner, e.Token, e.Reads = l.Names(), t.grant.owner, t.token, l.spec.Reads
		report(&l.client.reporter, hook, e)
	}
}

func (l *Lock) reportFailed(attempt int, err error) {
	if hook := l.client.cfg.Hooks.AttemptFailed; hook != nil {
		report(&l.client.reporter, hook, AttemptFailedEvent{Names: l.Names(), Attempt: attempt, Err: err})
	}
}

// isFIFO reports whether an attempt leaves a free lock to earlier waiters.
func (l *Lock) isFIFO() bool { return l.waitMode != WaitSpin }

// backoffBefore returns the pause before the next attempt: a growing, jittered backoff, or the time
// until the claims expire if that is less.
func (l *Lock) backoffBefore(attempt int, r retry) time.Duration {
	c := l.client
	backoff := quorum.Backoff(attempt-1, c.cfg.RetryMin, max(c.cfg.RetryMax, c.contentionPause()), c.cfg.Jitter())
	if r.freeAfter <= 0 {
		return backoff // no expiry to wait for
	}
	return min(backoff, max(r.freeAfter, time.Millisecond))
}

// Do runs fn while it holds the lock. It waits for the lock as Acquire does, and releases it when
// fn returns or panics.
//
// fn gets ctx with the values of the lease. That context ends as soon as the lease or ctx does: fn
// must then return. [Lock.Token] finds the token in it.
//
// Do returns fn's error. If the lease ended before fn returned, Do joins the cause: a [*LostError]
// or another. It also joins a [*LostError] if the release finds one, as [Lease.Release] says. Then
// another holder may have had the lock meanwhile. Do does not report a release that too few nodes
// confirmed: the lock frees itself within its TTL.
func (l *Lock) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	lease, err := l.Acquire(ctx)
	if err != nil {
		return err
	}
	return runWhileHeld(ctx, leaseContext{Context: ctx, lease: lease}, lease, fn)
}

// heldLease is what runWhileHeld needs of a lease.
type heldLease interface {
	Context() context.Context
	Err() error
	Release(ctx context.Context) error
}

// runWhileHeld runs fn with held, which also ends when the lease does, and then releases the lease.
//
//nolint:contextcheck // fn's context is held
func runWhileHeld(ctx, held context.Context, lease heldLease, fn func(ctx context.Context) error) (err error) {
	held, cancel := context.WithCancelCause(held)
	end := lease.Context()
	stop := context.AfterFunc(end, func() { cancel(context.Cause(end)) })
	var over error // why the lease had ended when fn returned, or nil
	defer func() {
		stop()
		cancel(ErrReleased)
		if lost := lossFound(lease.Release(ctx)); lost != nil && over == nil {
			err = errors.Join(err, lost)
		}
	}()
	err = fn(held)
	over = lease.Err()
	if over != nil && !errors.Is(err, over) {
		return errors.Join(err, over)
	}
	return err
}

// lossFound returns the error of a release if it reports a loss, or nil.
func lossFound(err error) error {
	if !errors.Is(err, ErrLost) {
		return nil
	}
	return err
}

// deadline returns when an operation that begins now counts the node as late: after ttl/3, in whole
// milliseconds. It is 0 if NodeTimeoutMax is not longer than that.
func (l *Lock) deadline(now time.Duration) time.Duration {
	patience := (l.spec.TTL / 3).Truncate(time.Millisecond)
	if patience >= l.client.cfg.NodeTimeoutMax {
		return 0
	}
	return now + patience
}

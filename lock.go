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

// Lock describes a lock: its names, its rule, its options. It is made by
// [Client.RedLock] or [Client.MultiLock]; it is immutable, and safe for concurrent use.
type Lock struct {
	client *Client
	names  []string
	// queueName is what its line is known by: its name, or several with their lengths, or the pool of a
	// semaphore. Where there is one name, names is made of this.
	queueName [1]string
	// defaultRule is the rule of its kind, need what the rule in force asks for.
	defaultRule quorum.Rule
	need        int
	ttl         time.Duration
	maxHold     time.Duration
	// purpose is what it is for; nil if nobody has said.
	purpose *string
	// slots is set for a semaphore: the names are then those of an attempt, or else its own.
	slots *slots.Request
	// problems are what is wrong with the names or the options. The first of them, so many as
	// given says, are of what the names were made of, whatever the options.
	problems    []string
	ownProblems int32
	noRenew     bool
	waitMode    Waiting
	// shared is set for the readers of an RWLock.
	shared bool
	// mayHandOver is set if a lease may be handed over to another waiter of the client.
	mayHandOver bool
}

// reservedPrefix is what this library's own keys start with.
const reservedPrefix = "quorumlock:"

// errNilContext is for calls without a context.
var errNilContext = &InvalidError{Problems: []string{"the context is nil"}}

func newLock(c *Client, names []string, rule quorum.Rule) *Lock {
	need := rule.Need(c.nodes.Len())
	l := &Lock{
		client:      c,
		defaultRule: rule,
		need:        need,
		ttl:         c.cfg.TTL,
		maxHold:     c.cfg.MaxHold,
		waitMode:    c.cfg.Waiting,
		mayHandOver: !c.cfg.Handover.Off && c.cfg.Waiting != WaitFair,
	}
	if len(names) == 1 {
		l.queueName[0] = names[0]
		l.names = l.queueName[:]
	} else {
		l.names = slices.Clone(names)
		slices.Sort(l.names)
		l.queueName[0] = joinNames(l.names)
	}
	l.problems = nameProblems(l.names)
	return l
}

// With is the same lock with these options, and no others: what an earlier With had set
// is forgotten. Options that make no sense are reported by every method of the lock, as
// an [*InvalidError].
func (l *Lock) With(o LockOptions) *Lock {
	m := newLock(l.client, l.names, l.defaultRule)
	if l.shared {
		m.asReader()
	}
	m.ttl, m.maxHold, m.noRenew = wholeTTL(cmp.Or(o.TTL, m.ttl)), cmp.Or(o.MaxHold, m.maxHold), o.Fixed
	m.need = cmp.Or(o.Rule, l.defaultRule).Need(l.client.nodes.Len())
	m.waitMode = cmp.Or(o.Waiting, m.waitMode)
	m.mayHandOver = !l.client.cfg.Handover.Off && !o.NoHandover && !o.Fixed && m.waitMode != WaitFair && !m.shared
	m.ownProblems = l.ownProblems
	m.problems = append(slices.Clone(l.problems[:l.ownProblems]), m.problems...)
	m.problems = append(m.problems, l.client.cfg.ttlProblems(m.ttl)...)
	if o.Purpose != "" {
		m.purpose = &o.Purpose
	}
	if problem := checkLabel("Purpose", o.Purpose, MaxPurposeLength, true); problem != "" {
		m.problems = append(m.problems, problem)
	}
	if m.maxHold < 0 {
		m.problems = append(m.problems, fmt.Sprintf("MaxHold %v is negative", m.maxHold))
	}
	if m.waitMode > WaitSpin {
		m.problems = append(m.problems, fmt.Sprintf("unknown Waiting %d", m.waitMode))
	}
	if err := cmp.Or(o.Rule, l.defaultRule).Validate(l.client.nodes.Len()); err != nil {
		m.problems = append(m.problems, err.Error())
	}
	return m
}

// nameProblems lists what is wrong with a lock's names, which are sorted.
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

// Names are the names of the lock, sorted.
func (l *Lock) Names() []string {
	if l.slots != nil {
		return []string{l.slots.Semaphore}
	}
	return slices.Clone(l.names)
}

// validate says what is wrong with a call before anything is sent.
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
// It fails with a [*HeldError] if somebody else has it, or if it is free and left to somebody
// who waits for it and came before (not with WaitSpin); and with a [*NoQuorumError] if too few
// nodes answer. What it took on some nodes is then being given back. ctx bounds the attempt
// only: the lease outlives it. See [Lock.Acquire] for the rest.
func (l *Lock) TryAcquire(ctx context.Context) (*Lease, error) {
	return l.acquire(ctx, (*Lock).acquireNow)
}

// Acquire takes the lock, and waits for it as long as ctx allows. How it waits, and when its
// turn comes, is up to [Waiting].
//
// Where ctx comes from a lease of this lock, or carries its [Lease.Context], the lock
// is held already: the result is a nested lease, at once and without the network. It has
// the names, the TTL and the limits of the lease that it is nested in.
// Without that context a second Acquire waits, as sync.Mutex would.
//
// ctx bounds the acquisition only. The lease lives until Release, loss, Close, or its
// MaxHold, and renews itself until then unless the lock is Fixed.
//
// While too few nodes answer it keeps trying too. When ctx ends, the error holds both
// ctx's error and the last attempt's, a [*HeldError] or [*NoQuorumError]. It returns
// early where waiting cannot help: [ErrClosed], [ErrOverlap], [*InvalidError], or a
// [*NoQuorumError] because too many nodes reject the call for good (wrong password, a
// key of another type, other limits, a clock that is far off). Whatever the error, nothing is left on any node, or it is
// being removed in the background.
func (l *Lock) Acquire(ctx context.Context) (*Lease, error) {
	return l.acquire(ctx, (*Lock).acquireWaiting)
}

// acquire does what is common to all ways of acquiring.
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
	followed, trail := l.startTrace(ctx)
	t, err := way(l, followed)
	trail.onReturn(t, err)
	if err != nil {
		return nil, err
	}
	return newLease(ctx, t), nil
}

// acquireWaiting stands in line until the lock is taken, or waiting is pointless.
func (l *Lock) acquireWaiting(ctx context.Context) (*lease, error) {
	w := newWaiter(l)
	t, err := w.run(ctx)
	w.finish(t)
	return t, err
}

// acquireNow makes an attempt past the line.
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
		e.Names, e.Owner, e.Token, e.Reads = l.Names(), t.grant.owner, t.token, l.shared
		report(&l.client.reporter, hook, e)
	}
}

func (l *Lock) reportFailed(attempt int, err error) {
	if hook := l.client.cfg.Hooks.AttemptFailed; hook != nil {
		report(&l.client.reporter, hook, AttemptFailedEvent{Names: l.Names(), Attempt: attempt, Err: err})
	}
}

// isFIFO reports whether an attempt leaves a free lock to those who came before.
func (l *Lock) isFIFO() bool { return l.waitMode != WaitSpin }

// backoffBefore is how long to wait before the next attempt: a growing, jittered time, or less
// where what the nodes said lets holders expire sooner.
func (l *Lock) backoffBefore(attempt int, r retry) time.Duration {
	c := l.client
	backoff := quorum.Backoff(attempt-1, c.cfg.RetryMin, max(c.cfg.RetryMax, c.contentionPause()), c.cfg.Jitter())
	if r.freeAfter <= 0 {
		return backoff // nobody's expiry is waited for
	}
	return min(backoff, max(r.freeAfter, time.Millisecond))
}

// Do runs fn while it holds the lock. It waits for the lock as Acquire does.
//
// The context that fn gets is ctx, with the values of the lease, and ends as soon as
// the lease or ctx does: fn must then return. [Lock.Token] finds the token in it. The lock is released when fn returns or
// panics. Do returns fn's error, joined with a [*LostError] (or another cause of the
// end of the lease) if the lease ended before fn returned, or if its release finds that it was
// lost, as [Lease.Release] says: then another holder may have
// had the lock meanwhile. A release that not enough nodes confirmed is not an error
// of Do: the lock frees itself within its TTL.
func (l *Lock) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	lease, err := l.Acquire(ctx)
	if err != nil {
		return err
	}
	return runWhileHeld(ctx, leaseContext{Context: ctx, lease: lease}, lease, fn)
}

// heldLease is what during has to know of a lease.
type heldLease interface {
	Context() context.Context
	Err() error
	Release(ctx context.Context) error
}

// runWhileHeld runs fn with the values of held, until it returns or the lease or held ends, and
// releases the lease then.
//
//nolint:contextcheck // fn's context is held
func runWhileHeld(ctx, held context.Context, lease heldLease, fn func(ctx context.Context) error) (err error) {
	held, cancel := context.WithCancelCause(held)
	end := lease.Context()
	stop := context.AfterFunc(end, func() { cancel(context.Cause(end)) })
	var over error // why the lease had ended when fn returned
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

// lossFound is the part of a release's error that says that the lease was lost before.
func lossFound(err error) error {
	if !errors.Is(err, ErrLost) {
		return nil
	}
	return err
}

// deadline is when the operations of the lock that begin now count a node as late: after a third
// of the TTL. It is 0 where the timeout of the client is not longer than that.
func (l *Lock) deadline(now time.Duration) time.Duration {
	patience := (l.ttl / 3).Truncate(time.Millisecond)
	if patience >= l.client.cfg.NodeTimeoutMax {
		return 0
	}
	return now + patience
}

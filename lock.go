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

// Lock describes a lock: its names, its rule, its options. It is made by [Client.RedLock],
// [Client.MultiLock], [RWLock] or [Striped]. It is immutable, and safe for concurrent use.
type Lock struct {
	client *Client
	spec   lease.Spec
	// invalid has the invalid names and options. It is nil for most locks.
	invalid *[]string
}

func (l *Lock) problems() []string {
	switch {
	case l.client == nil:
		return []string{zeroValue}
	case l.invalid == nil:
		return nil
	default:
		return *l.invalid
	}
}

// addProblems adds to the problems of a lock that is being made, each once.
func (l *Lock) addProblems(more ...string) {
	if len(more) == 0 {
		return
	}
	all := slices.Clone(l.problems())
	for _, p := range more {
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	l.invalid = &all
}

// reservedPrefix starts the keys of the library itself.
const reservedPrefix = "quorumlock:"

const nilContext = "the context is nil"

// newLock describes a lock by the names that the program gave.
func newLock(c *Client, names []string, rule quorum.Rule) *Lock {
	names = c.onNodes(names)
	l := &Lock{
		client: c,
		spec: lease.Spec{
			Need: rule.Need(c.nodes.Len()), TTL: c.cfg.TTL, MaxHold: c.cfg.MaxHold, Label: c.label,
			HandOver: !c.cfg.Handover.Off, Prefix: uint8(len(c.cfg.Prefix)),
		},
	}
	if len(names) == 1 {
		l.spec.Queue[0] = names[0]
		l.spec.Names = l.spec.Queue[:]
	} else {
		l.spec.Names = slices.Clone(names)
		slices.Sort(l.spec.Names)
		l.spec.Queue[0] = wait.JoinNames(l.spec.Names)
	}
	l.addProblems(nameProblems(c.cfg.Prefix, l.spec.Names)...)
	return l
}

// With returns the same lock with these options besides those of an earlier With. A field that is zero
// changes nothing. Every method of the result reports invalid options, as an [*InvalidError].
func (l *Lock) With(o LockOptions) *Lock {
	if l.client == nil {
		return l
	}
	m, cfg := *l, &l.client.cfg
	s := &m.spec
	if len(s.Names) == 1 {
		s.Names = s.Queue[:]
	}
	s.TTL, s.MinHold, s.MaxHold = wholeTTL(cmp.Or(o.TTL, s.TTL)), cmp.Or(o.MinHold, s.MinHold), cmp.Or(o.MaxHold, s.MaxHold)
	s.MaxOutage = cmp.Or(o.MaxOutage, s.MaxOutage)
	s.Fixed = s.Fixed || o.Fixed
	s.Spins = s.Spins || o.Spin
	s.HandOver = s.HandOver && !o.NoHandover && !s.Fixed && s.MinHold == 0
	m.addProblems(cfg.ttlProblems(s.TTL)...)
	m.addProblems(cfg.minHoldProblems(s)...)
	if o.Purpose != "" {
		s.Label = ownerLabel(cfg.Holder, o.Purpose)
	}
	if problem := checkLabel("Purpose", o.Purpose, MaxPurposeLength, true); problem != "" {
		m.addProblems(problem)
	}
	if s.MaxHold < 0 {
		m.addProblems(fmt.Sprintf("MaxHold %v is negative", s.MaxHold))
	}
	if o.Rule != (quorum.Rule{}) {
		s.Need = o.Rule.Need(l.client.nodes.Len())
		if err := o.Rule.Validate(l.client.nodes.Len()); err != nil {
			m.addProblems(err.Error())
		}
	}
	return &m
}

// nameProblems lists the problems of a lock's names on the nodes, which are sorted and begin with the prefix. It
// shows the names without it.
func nameProblems(prefix string, names []string) []string {
	var p []string
	switch {
	case len(names) == 0:
		p = append(p, "no name")
	case len(names) > MaxNames:
		p = append(p, fmt.Sprintf("%d names are more than %d", len(names), MaxNames))
	}
	for i, full := range names {
		name := full[len(prefix):]
		switch {
		case name == "":
			p = append(p, "a name is empty")
		case len(full) > maxNameLength && prefix != "":
			p = append(p, fmt.Sprintf("name %.20q... has %d bytes with the prefix %q, more than %d", name, len(full), prefix, maxNameLength))
		case len(name) > maxNameLength:
			p = append(p, fmt.Sprintf("name %.20q... has %d bytes, more than %d", name, len(name), maxNameLength))
		case strings.HasPrefix(name, reservedPrefix):
			p = append(p, fmt.Sprintf("name %q starts with %q, which is reserved", name, reservedPrefix))
		case i > 0 && full == names[i-1]:
			p = append(p, fmt.Sprintf("name %q is listed twice", name))
		}
	}
	return p
}

// Names returns the names of the lock, sorted. A semaphore has one name, its own.
func (l *Lock) Names() []string { return namesOf(&l.spec) }

// validate rejects an invalid call before anything is sent.
func (l *Lock) validate(ctx context.Context) error {
	if ctx == nil {
		return invalid(nilContext)
	}
	if problems := l.problems(); problems != nil {
		return invalid(problems...)
	}
	return nil
}

// TryAcquire takes the lock if that is possible now, in one attempt.
//
// It fails with a [*HeldError] if another owner has the lock. That error also means that the lock
// is free but reserved for an earlier waiter, except with Spin. It fails with a
// [*NoQuorumError] if too few nodes answer. After a failure, the library undoes partial grants in
// the background, and on each node before this client's next attempt there. ctx bounds the attempt
// only: the lease outlives it. See [Lock.Acquire] for the rest.
func (l *Lock) TryAcquire(ctx context.Context) (*Lease, error) {
	return l.acquire(ctx, false)
}

// Acquire takes the lock, and waits for it as long as ctx allows: in the order of arrival, unless
// [LockOptions].Spin is set.
//
// If ctx comes from a lease of this lock, or carries its [Lease.Context], the lock is held already.
// Acquire then returns a nested lease, at once and without the network. It has the names, the TTL
// and the limits of the lease that it is nested in. Without that context a second Acquire waits, as
// sync.Mutex would.
//
// ctx bounds the acquisition only. The lease lives until Release, loss, Close, or its MaxHold, and
// renews itself until then unless the lock is Fixed. Do releases the lock when its function returns. To
// release it as soon as a context ends, even if work goes on then:
//
//	stop := context.AfterFunc(ctx, func() { _ = lease.Release(ctx) })
//	defer stop() // ctx keeps the lease in memory until then
//
// Acquire also retries while too few nodes answer, or for MaxOutage. When ctx ends, the error wraps both ctx's error
// and the last attempt's, a [*HeldError] or [*NoQuorumError]. The latter means that even a free
// lock could not be acquired. It may be held too, as earlier attempts may have seen. Acquire
// returns early if waiting cannot help: with [ErrClosed], [ErrOverlap] or an
// [*InvalidError], or with a [*NoQuorumError] if too many nodes reject the call for good. Such
// rejections are a wrong password, a key of another type, other limits, a server that may evict
// locks, or a clock that is far off. After any error, the library removes partial grants in the
// background. If the process ends before that, they expire with their TTL.
func (l *Lock) Acquire(ctx context.Context) (*Lease, error) {
	return l.acquire(ctx, true)
}

// acquire acquires in the queue if waits is set, and otherwise in one attempt.
func (l *Lock) acquire(ctx context.Context, waits bool) (*Lease, error) {
	if err := l.validate(ctx); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, lease.ContextError(ctx)
	}
	if nested, err := l.nestedLease(ctx); nested != nil || err != nil {
		return nested, err
	}
	if err := l.client.beginCall(); err != nil {
		return nil, err
	}
	defer l.client.endCall()
	var t *trace
	var told lease.Trace
	if l.client.cfg.Hooks.Acquisition != nil {
		t = l.newTrace(ctx)
		told = t
	}
	var got wait.Result
	var err error
	if waits {
		got, err = l.client.queues.Acquire(ctx, &l.spec, told)
	} else {
		got, err = l.client.queues.TryAcquire(ctx, &l.spec, told)
	}
	if t != nil {
		t.onReturn(got, err)
	}
	if l.spec.Slots != nil {
		l.client.warnOfSize(l.spec.Slots)
	}
	if err != nil {
		return nil, err
	}
	if hook := l.client.cfg.Hooks.Acquired; hook != nil {
		report(&l.client.reporter, hook, AcquiredEvent{
			Names: l.Names(), Owner: got.Lease.Grant().Owner(), Token: got.Lease.Token(), Reads: l.spec.Reads,
			Attempts: got.Attempts, HandedOver: got.HandedOver, Waited: got.Waited,
		})
	}
	return newLease(ctx, got.Lease), nil
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
	return doHeld(ctx, l.Acquire, fn)
}

// doHeld runs fn with a lease that acquire returns.
func doHeld[L heldLease](ctx context.Context, acquire func(context.Context) (L, error), fn func(ctx context.Context) error) error {
	if fn == nil {
		return invalid("the function is nil")
	}
	lease, err := acquire(ctx)
	if err != nil {
		return err
	}
	return runWhileHeld(ctx, leaseContext{Context: ctx, lease: lease}, lease, fn)
}

// heldLease is a lease or a joint lease.
type heldLease interface {
	Context() context.Context
	// contextValue returns its own value for a context key, or nil.
	contextValue(key any) any
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
		if lost := lease.Release(ctx); over == nil && errors.Is(lost, ErrLost) {
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

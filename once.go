package quorumlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// Once describes work that is done at most once in a window, by whichever process comes first: a nightly report, a
// mail, a migration. It is made by [Client.Once]. It is immutable, and safe for concurrent use.
//
// The work runs under the lock of the same name. When it has succeeded, a record of that goes to a majority of the
// nodes or more, by the rule of the lock, while the lease is still valid. The record lives there for the window, by the
// clocks of the nodes. So the clocks of the callers do not count, nor does it matter when they call, or how short the
// work is:
//
//   - In a window, at most one Do returns nil. All that begin later return a [*DoneError].
//   - If fn fails, or its process dies, the next caller runs it.
//   - If fn succeeds and the record does not reach a majority in time, since the process dies or the nodes do not answer,
//     the next caller runs it too. Do then returns an ErrUnrecorded, unless it has died.
//
// All of this holds while each majority has a node with the record: of three nodes, two must have it. A node that has lost
// its memory does not count until it recovers, and has no record after that until a caller gives it back. Callers do so
// with every node of which they hear that it lacks the record. They do not wait for nodes that are slow or down. So a
// single loss may be enough for the work to be done again, if another node missed the record because it was down, and
// no caller has heard of either since.
type Once struct {
	lock    Lock
	window  time.Duration
	invalid []string
}

// OnceOptions are the settings of a [Once].
type OnceOptions struct {
	// Window is how long the work counts as done after it has succeeded, from a second to a year. It is
	// required. Work that is named after its time, such as "report-2026-11-24", has any window that is longer than callers
	// are late. For other work at regular intervals, choose one that is shorter than the interval by more than the work takes:
	// otherwise the next run is left out.
	Window time.Duration
	// Lock has the options of the lock under which the work runs. The record goes to as many nodes as its Rule needs. With
	// more than a majority, more nodes may lose their memory before the work may be done again.
	Lock LockOptions
}

// The limits of windows.
const (
	// minOnceWindow is the smallest window. A window ends early or late by a round trip, and by the drift of clocks. A
	// record that reaches a node late lives there for as much longer: if its caller was frozen, or the request was on the
	// way for long. Then the work of the next window may count as done, and is left out.
	minOnceWindow = time.Second
	// maxOnceWindow is the largest window: a year.
	maxOnceWindow = maxMaxTTL
)

// Once describes the work with a name, which follows the rules for names of locks. Every method reports invalid names and
// options, as an [*InvalidError].
func (c *Client) Once(name string, o OnceOptions) *Once {
	w := &Once{lock: *c.RedLock(name).With(o.Lock), window: o.Window}
	switch {
	case o.Window < minOnceWindow || o.Window > maxOnceWindow:
		w.invalid = append(w.invalid, fmt.Sprintf("Window %v is not within %v and %v", o.Window, minOnceWindow, maxOnceWindow))
	case o.Window%time.Millisecond != 0:
		w.invalid = append(w.invalid, fmt.Sprintf("Window %v is not a whole number of milliseconds", o.Window))
	}
	return w
}

// Errors of Once, for errors.Is.
var (
	// ErrDone: the work is done in this window. See [DoneError].
	ErrDone = errors.New("quorumlock: done already")
	// ErrUnrecorded: the work has succeeded, and too few nodes have confirmed that in time. It may be done again.
	ErrUnrecorded = errors.New("quorumlock: done, but not recorded")
)

// DoneError says that the work is done in this window. It is an ErrDone.
type DoneError struct {
	Name string
	// Owner is the owner id of the lease under which it was done, see [DescribeOwner].
	Owner string
	// At is when it was done, by the clock of the process that did it.
	At time.Time
	// Left is how long the window still lasts.
	Left time.Duration
}

// Error says who has done the work, and when.
func (e *DoneError) Error() string {
	return fmt.Sprintf("quorumlock: %q was done by %s at %s, and stays done for %v", e.Name, DescribeOwner(e.Owner),
		e.At.UTC().Format(time.RFC3339), e.Left)
}

// Is reports whether target is ErrDone.
func (e *DoneError) Is(target error) bool { return target == ErrDone }

// Do runs fn if the work is not done in this window, and returns a [*DoneError] if it is: at once, or after a wait for
// another process that is at it. It waits for the lock as [Lock.Acquire] does, and fails as that does; fn gets the context
// that [Lock.Do] gives, and Do returns fn's error and a loss of the lease as [Lock.Do] does. If fn returns nil and that
// cannot be recorded, the error is an ErrUnrecorded. The end of ctx does not prevent the record: Do then tries for another
// TTL of the lock.
//
// A context that holds the lock already is invalid, because the work would run within itself.
func (o *Once) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	if err := o.validate(ctx); err != nil {
		return err
	}
	switch {
	case fn == nil:
		return invalid("the function is nil")
	case ctx.Value(heldKey{o.lock.client, o.lock.spec.Names[0]}) != nil:
		return invalid(fmt.Sprintf("the context holds the lock %q already", o.name()))
	}
	if !o.lock.client.queues.Crowded(ctx, &o.lock.spec) { // the acquisition waits until there is room
		if err := o.look(ctx); errors.Is(err, ErrDone) {
			return err // other errors come from the acquisition too, which tries for longer
		}
	}
	l, err := o.lock.Acquire(ctx)
	if err != nil {
		return err
	}
	return runWhileHeld(ctx, leaseContext{Context: ctx, lease: l}, l, func(held context.Context) error {
		err := o.retry(held, func() error { return o.look(held) })
		if err = cmp.Or(err, l.Err()); err != nil { // Err reads the clock: if this process stood still, held may not have ended yet
			l.WaiveMinHold() // nothing was done under the lock
			return err
		}
		if err := fn(held); err != nil {
			return err
		}
		longer, cancel := o.outlast(ctx)
		defer cancel()
		return o.Record(longer, l)
	})
}

// outlast returns a context that ends a TTL of the lock after ctx. It bounds the attempts to record: nodes that refuse the
// record may still renew the lease for ever.
func (o *Once) outlast(ctx context.Context) (longer context.Context, cancel func()) {
	longer, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := o.lock.client.clock.AfterFunc(o.lock.spec.TTL, func() { end(context.Cause(ctx)) })
		context.AfterFunc(longer, func() { timer.Stop() })
	})
	return longer, func() {
		stop()
		end(nil)
	}
}

// Check returns a [*DoneError] if the work is done in this window, and nil if it is not. It is for programs that take the
// lock of the work in their own way: they call Check while they hold it, begin if the lease has not ended then, and call
// Record before they release it. Check asks once. If too few nodes answer, the error is a [*NoQuorumError].
func (o *Once) Check(ctx context.Context) error {
	if err := o.validate(ctx); err != nil {
		return err
	}
	return o.look(ctx)
}

// Record records that the work is done. The lease must be of the lock of the work, not of a reader. It must still be valid
// when a majority has answered, because the next holder of the lock then finds the record. Record tries until the lease or ctx ends, or
// too many nodes refuse the record for good, and then returns an ErrUnrecorded. To repeat it is harmless: it begins the
// window again.
func (o *Once) Record(ctx context.Context, l *Lease) error {
	if err := o.validate(ctx); err != nil {
		return err
	}
	if l == nil || l.lease == nil || !(heldKey{o.lock.client, o.lock.spec.Names[0]}).has(l.lease) || l.lease.Spec().Reads {
		return invalid(fmt.Sprintf("the lease is none of the lock %q", o.name()))
	}
	held, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.Context(), func() { cancel(context.Cause(l.Context())) })() //nolint:contextcheck // the context of the lease is not the one of the call
	text := fmt.Sprintf("%d %s", o.lock.client.clock.Wall().UnixMilli(), l.Owner())
	err := o.retry(held, func() error { return o.write(held, text, o.window, o.lock.spec.Need) })
	if err == nil {
		err = l.Err()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnrecorded, err)
	}
	return nil
}

func (o *Once) validate(ctx context.Context) error {
	if err := o.lock.validate(ctx); err != nil {
		return err
	}
	if len(o.invalid) > 0 {
		return invalid(o.invalid...)
	}
	return nil
}

func (o *Once) name() string { return o.lock.spec.DisplayName(o.lock.spec.Names[0]) }

// retry calls f until it does not fail for lack of a quorum, or ctx ends. It gives up as well if a quorum stays impossible.
func (o *Once) retry(ctx context.Context, f func() error) error {
	for attempts := 0; ; attempts++ {
		err := f()
		var lacking *NoQuorumError
		if !errors.As(err, &lacking) || refusedForGood(lacking) {
			return err
		}
		if o.lock.client.pause(ctx, attempts); ctx.Err() != nil {
			return lease.GaveUp(err, lease.ContextError(ctx))
		}
	}
}

// refusedForGood reports whether so many nodes refuse permanently that the others are no quorum.
func refusedForGood(e *NoQuorumError) bool {
	permanent := 0
	for _, n := range e.Nodes {
		var refusal *node.Error
		if errors.As(n.Err, &refusal) && refusal.Permanent() {
			permanent++
		}
	}
	return permanent > e.Total-e.Need
}

// look returns nil if the work is not done, and a DoneError if it is. A record that fewer than a majority have is given
// to the others first: once this call has told of it, no later one may miss it. Nodes that are known to lack it get it too.
func (o *Once) look(ctx context.Context) error {
	asked := o.lock.client.clock.Now()
	replies, err := o.ask(ctx, "", 0, func(a onceAnswers) bool {
		return a.same >= o.need() || a.done == 0 && a.open >= o.need()
	})
	if err != nil {
		return err
	}
	a := countOnce(replies)
	if a.done > 0 && (a.same < o.need() || a.lack > 0) {
		// Counted from the question on, so that copies of copies do not make the window longer.
		a.left = (a.left - (o.lock.client.clock.Now() - asked)).Truncate(time.Millisecond)
		if a.left <= 0 {
			a.open, a.done = a.open+a.done, 0 // it has ended meanwhile
		} else if err := o.write(ctx, a.text, a.left, o.need()); err != nil && a.same < o.need() {
			return err
		}
	}
	switch {
	case a.done > 0:
		ms, owner, _ := strings.Cut(a.text, " ")
		at, _ := strconv.ParseInt(ms, 10, 64)
		return &DoneError{Name: o.name(), Owner: owner, At: time.UnixMilli(at), Left: a.left}
	case a.open >= o.need():
		return nil
	default:
		return o.shortage(replies, a.open, o.need())
	}
}

// write gives the nodes the record. It returns nil once need of them have it.
func (o *Once) write(ctx context.Context, text string, left time.Duration, need int) error {
	replies, err := o.ask(ctx, text, left, func(a onceAnswers) bool { return a.done >= need })
	if err != nil {
		return err
	}
	if done := countOnce(replies).done; done < need {
		return o.shortage(replies, done, need)
	}
	return nil
}

func (o *Once) need() int { return quorum.Majority().Need(o.lock.client.nodes.Len()) }

// ask sends the operation to all nodes, until enough have answered.
func (o *Once) ask(ctx context.Context, text string, left time.Duration, enough func(onceAnswers) bool) ([]timedReply, error) {
	if err := o.lock.beginInspect(ctx); err != nil {
		return nil, err
	}
	defer o.lock.client.endCall()
	op := wire.Op{Kind: wire.Once, Names: o.lock.spec.Names, Owner: text, TTL: left, Limits: o.lock.client.cfg.limits()}
	return o.lock.client.ask(ctx, op, func(replies []timedReply) bool { return enough(countOnce(replies)) })
}

func (o *Once) shortage(replies []timedReply, agreed, need int) error {
	e := o.lock.noQuorumError(wire.Once, replies)
	e.Need, e.Agreed = need, agreed
	return e
}

type onceAnswers struct {
	// done have the record, and lack have none. open are those of the latter that do not recover.
	done, lack, open int
	// text is the record that lives longest, and left how long. same have this one: another one may end earlier.
	text string
	left time.Duration
	same int
}

func countOnce(replies []timedReply) (a onceAnswers) {
	for _, r := range replies {
		switch {
		case errors.Is(r.Err, node.ErrRecovering):
			a.lack++
		case r.Err != nil:
		case len(r.Holders) == 0:
			a.lack++
			a.open++
		default:
			a.done++
			if h := r.Holders[0]; a.done == 1 || h.TTL > a.left { // a TTL is 0 in its last millisecond
				a.text, a.left = h.Owner, h.TTL
			}
		}
	}
	for _, r := range replies {
		if r.Err == nil && len(r.Holders) > 0 && r.Holders[0].Owner == a.text {
			a.same++
		}
	}
	return a
}

package election

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorum"
)

// MaxValueLength is the longest value of [Election.Proclaim], in bytes.
const MaxValueLength = quorumlock.MaxPurposeLength - len("18446744073709551615 ")

// board is how a leader announces its terms and values, and how observers hear of them.
//
// A value is the purpose of a lock that the leader holds beside the lock of the election. So it is renewed with the
// term, survives the loss of a minority, and ends with the leader. There are two such locks, and a leader takes the
// other one before it releases the first. So no observer sees a leader without its value. Only if an outage ends that
// lease and not the term, the value is missing until the leader holds the other lock.
//
// The observers wait for a latch. A leader deletes it after each change, which wakes them all.
type board struct {
	values  [2]*quorumlock.Lock
	changes *quorumlock.Latch
	// all reads the lock of the election and both values in one round trip.
	all *quorumlock.Lock
}

func newBoard(client *quorumlock.Client, name string, o quorumlock.LockOptions) *board {
	names := []string{name, name + "/value0", name + "/value1"}
	if o.Rule == (quorum.Rule{}) {
		o.Rule = quorum.Majority()
	}
	b := &board{
		changes: client.Latch(name + "/changes").With(quorumlock.LatchOptions{TTL: time.Minute}),
		all:     client.MultiLock(names...).With(quorumlock.LockOptions{TTL: o.TTL, Rule: o.Rule}),
	}
	for i := range b.values {
		b.values[i] = client.RedLock(names[1+i]).With(quorumlock.LockOptions{TTL: o.TTL, Rule: o.Rule, NoHandover: true})
	}
	return b
}

// problems lists the invalid names of the board. A call with a context that has ended checks its name, and sends nothing.
func (b *board) problems() []string {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := b.changes.Count(ended) // it has the longest name
	var invalid *quorumlock.InvalidError
	if !errors.As(err, &invalid) {
		return nil
	}
	return invalid.Problems
}

// Proclaim announces a value to the observers, in place of the last one, without a new election: an address at which
// the leader serves, or how far its work is. Observers find it in Leader.Value until the term ends. A value is
// printable, not empty, and at most MaxValueLength bytes long.
//
// Proclaim is for the lead function, with its context, and needs Config.Announce. It keeps trying while too few nodes
// answer. After the death of another leader, the first Proclaim may have to wait until the values of that leader
// have expired, for a TTL at most. It returns ErrNotLeading if this candidate does not lead, the cause of the end of
// the term, or ctx's error. An invalid value is a *quorumlock.InvalidError. If waiting cannot help, it fails early, as
// [quorumlock.Lock.Acquire] does.
func (e *Election) Proclaim(ctx context.Context, value string) error {
	if err := e.checkProclaim(ctx, value); err != nil {
		return err
	}
	t := e.current()
	if t == nil {
		return ErrNotLeading
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })() //nolint:contextcheck // the term ends the call too
	select {
	case t.proclaiming <- struct{}{}:
		defer func() { <-t.proclaiming }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return e.show(ctx, t, value)
}

// show makes a value the value of the term, and wakes the observers. It requires t.proclaiming.
func (e *Election) show(ctx context.Context, t *term, value string) error {
	lease, slot, err := e.acquireValue(ctx, t, value)
	if err != nil {
		return err
	}
	former, over := e.setValue(t, lease, slot)
	e.drop(ctx, former)
	if over != nil {
		return over
	}
	//nolint:contextcheck // the value lasts as long as the term, and ctx does not
	lost := context.AfterFunc(t.lease.Context(), func() { e.releaseLater(t, lease) })
	//nolint:contextcheck // so does this
	context.AfterFunc(lease.Context(), func() {
		lost()
		e.restoreLater(t, lease, value)
	})
	e.tell(ctx)
	return nil
}

// restoreLater shows the value of a lease again that has ended before its term. An outage may end the one and not the
// other, as their last renewals differ. Run waits for it before it returns.
func (e *Election) restoreLater(t *term, lost *quorumlock.Lease, value string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.term == t && t.value == lost {
		e.tells.Go(func() { e.restore(t, lost, value) })
	}
}

// releaseLater gives a value back if its term was lost. The lead function may ignore that, and go on. Its value must not
// keep the next leader from a Proclaim. Run waits for it before it returns.
func (e *Election) releaseLater(t *term, value *quorumlock.Lease) {
	if err := t.lease.Err(); !errors.Is(err, quorumlock.ErrLost) && !errors.Is(err, quorumlock.ErrHoldLimit) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.term == t {
		e.tells.Go(func() { e.drop(context.Background(), value) })
	}
}

// restore is restoreLater, unless a Proclaim has replaced the value meanwhile. It may fail only if the term ends, or if
// too many nodes refuse this candidate.
func (e *Election) restore(t *term, lost *quorumlock.Lease, value string) {
	select {
	case t.proclaiming <- struct{}{}:
		defer func() { <-t.proclaiming }()
	case <-t.ctx.Done():
		return
	}
	if t.value == lost { // only the holder of t.proclaiming writes it
		_ = e.show(t.ctx, t, value)
	}
}

func (e *Election) checkProclaim(ctx context.Context, value string) error {
	if err := e.check(ctx); err != nil {
		return err
	}
	switch {
	case !e.cfg.Announce:
		return invalid("Proclaim needs Config.Announce, of all candidates and observers")
	case value == "":
		return invalid("the value is empty")
	case len(value) > MaxValueLength:
		return invalid(fmt.Sprintf("the value has %d bytes, more than %d", len(value), MaxValueLength))
	case !isPrintable(value):
		return invalid(fmt.Sprintf("the value %q has unprintable characters", value))
	default:
		return nil
	}
}

// acquireValue takes a lock to show a value. The term holds the other lock, or none before its first Proclaim. Then a
// dead leader may still occupy one of both.
func (e *Election) acquireValue(ctx context.Context, t *term, value string) (*quorumlock.Lease, int, error) {
	o := e.cfg.Lock
	options := quorumlock.LockOptions{
		TTL: o.TTL, MaxHold: o.MaxHold, Rule: o.Rule, NoHandover: true, Purpose: sequenceOf(t.Owner) + " " + value,
	}
	lock := func(i int) *quorumlock.Lock { return e.board.values[i].With(options) }
	slot := 1 - t.slot
	if t.value == nil {
		if lease, err := lock(1 - slot).TryAcquire(ctx); err == nil {
			return lease, 1 - slot, nil
		}
	}
	lease, err := lock(slot).Acquire(ctx)
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) && t.ctx.Err() != nil {
		err = context.Cause(t.ctx) //nolint:contextcheck // the end of the term is the reason
	}
	return lease, slot, err
}

// setValue makes a lease the value of the term, and returns the lease to release: of the former value, or this one if
// the term is over.
func (e *Election) setValue(t *term, lease *quorumlock.Lease, slot int) (former *quorumlock.Lease, over error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.term != t || t.ctx.Err() != nil {
		// Without a cause, the lead function has returned, and its context is about to end.
		return lease, cmp.Or(context.Cause(t.ctx), ErrNotLeading)
	}
	former, t.value, t.slot = t.value, lease, slot
	return former, nil
}

// tellMost bounds an announcement: Run and Proclaim wait for it, also when too few nodes answer.
const tellMost = time.Second

// tell wakes the observers. They look at times anyway, so a failure only delays them.
func (e *Election) tell(ctx context.Context) {
	if !e.cfg.Announce {
		return
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	timer := e.cfg.Clock.AfterFunc(min(e.cfg.Interval, tellMost), cancel)
	defer timer.Stop()
	_ = e.board.changes.Delete(ctx)
}

// listen rings after each change that a leader announces, until ctx ends. hears is set while it would hear of one.
func (e *Election) listen(ctx context.Context, ring chan<- struct{}, hears *atomic.Bool) {
	rings := func() {
		select {
		case ring <- struct{}{}:
		default:
		}
	}
	for ctx.Err() == nil {
		err := e.board.changes.Set(ctx, 1)
		hears.Store(err == nil)
		rings() // the next look finds all changes before Set
		if err == nil {
			err = e.board.changes.Await(ctx)
		}
		hears.Store(false)
		switch {
		case errors.Is(err, quorumlock.ErrLatchDeleted),
			errors.Is(err, quorumlock.ErrLatchNotSet): // deleted before Await looked, which is a change too
			rings() // at once, as Set may need several attempts beside another deletion
			continue
		case hopeless(err):
			return
		}
		_ = sleep(ctx, e.cfg.Clock, e.cfg.Interval)
	}
}

// sequenceOf returns the part of an owner id that differs between the owners of one client.
func sequenceOf(owner string) string {
	info := quorumlock.ParseOwner(owner)
	return strings.TrimPrefix(strings.TrimPrefix(info.ID, info.Client), ":")
}

// valueOf returns the last value that enough nodes have of a leader.
func (b *board) valueOf(s *quorumlock.Status, leader string) (value string) {
	client, term := quorumlock.ParseOwner(leader).Client, sequenceOf(leader)
	newest := uint64(0)
	for _, lock := range b.values {
		owner := holderOf(s, lock.Names()[0])
		info := quorumlock.ParseOwner(owner)
		of, text, _ := strings.Cut(info.Purpose, " ")
		number, err := strconv.ParseUint(sequenceOf(owner), 10, 64)
		if err == nil && info.Client == client && of == term && number > newest {
			newest, value = number, text
		}
	}
	return value
}

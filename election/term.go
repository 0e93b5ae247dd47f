package election

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock"
)

// Term is one period as the leader.
type Term struct {
	// Token is the fencing token. It is larger in every later term, of any candidate. See [quorumlock.Lease.Token].
	Token uint64
	// Owner is the leader's id on the nodes in this term, and never used again. Observers see it.
	Owner string
	// Name is the candidate's Config.Name, or its default.
	Name string
}

// nameOf returns the name of the candidate from an owner id.
func nameOf(owner string) string {
	info := quorumlock.ParseOwner(owner)
	return cmp.Or(info.Purpose, info.Holder)
}

type term struct {
	Term
	lease   *quorumlock.Lease
	ctx     context.Context
	cancel  context.CancelCauseFunc
	began   time.Duration
	overdue atomic.Bool
	// stopRun stops waiting for the end of Run's context. runs ends once the lead function has returned, and watched
	// waits for the goroutine that reports a function which does not.
	stopRun  func() bool
	runs     context.Context
	returned context.CancelFunc
	watched  sync.WaitGroup
}

type ending struct {
	EndedEvent
	// lost is set if the lease had ended before the function returned.
	lost bool
}

// serve runs lead for a term. It keeps the lock until lead has returned, so a leader that resigns never overlaps with
// the next.
//
//nolint:contextcheck // the context of a term has the values of ctx, and ends with it
func (e *Election) serve(ctx context.Context, lease *quorumlock.Lease, lead Lead) (end ending) {
	t := e.begin(ctx, lease)
	end.Err = ErrPanicked // unless it returns
	defer func() { e.end(ctx, t, &end) }()
	e.elected(t)
	end.Err = lead(t.ctx, t.Term)
	return end
}

func (e *Election) begin(ctx context.Context, lease *quorumlock.Lease) *term {
	t := &term{
		Term:  Term{Token: lease.Token(), Owner: lease.Owner(), Name: nameOf(lease.Owner())},
		lease: lease,
		began: e.clock.Now(),
	}
	t.runs, t.returned = context.WithCancel(context.Background())
	inner, cancel := context.WithCancelCause(lease.Context()) // it has the values of ctx
	t.ctx, t.cancel = exact{Context: inner, lease: lease, cancel: cancel}, cancel
	t.stopRun = context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	t.watched.Go(func() { e.watchReturn(t) })
	e.mu.Lock()
	defer e.mu.Unlock()
	e.term = t
	return t
}

// end completes a term after lead has returned or panicked.
//
//nolint:contextcheck // see serve
func (e *Election) end(ctx context.Context, t *term, end *ending) {
	end.lost = t.lease.Err() != nil
	if t.ctx.Err() != nil {
		end.Cause = context.Cause(t.ctx)
	}
	e.mu.Lock()
	e.term = nil
	e.mu.Unlock()
	t.stopRun()
	t.returned()
	t.watched.Wait()
	t.cancel(quorumlock.ErrReleased)
	end.Term, end.Held = t.Term, e.clock.Now()-t.began
	defer e.leave(ctx, t, end.Err) // also if a hook panics
	e.ended(end.EndedEvent)
}

// leave gives the lock back at the end of a term, or leaves it to its TTL.
func (e *Election) leave(ctx context.Context, t *term, err error) {
	if e.cfg.KeepOnCancel && ctx.Err() != nil && !errors.Is(err, ErrDone) {
		_, _ = t.lease.Detach() // if it is over, there is nothing to keep
		return
	}
	e.drop(ctx, t.lease)
}

// exact is the context of a term. An ordinary context ends when its timer gets to run. This one also checks the clock
// when it is asked. So in a process that was frozen, code that asks does not continue.
type exact struct {
	context.Context
	lease  *quorumlock.Lease
	cancel context.CancelCauseFunc
}

// Err returns an error once the lease has ended by the clock.
func (c exact) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	if err := c.lease.Err(); err != nil {
		c.cancel(err)
	}
	return c.Context.Err()
}

// watchReturn reports a lead function that has not returned Config.Grace after the end of its context.
func (e *Election) watchReturn(t *term) {
	select {
	case <-t.ctx.Done():
	case <-t.runs.Done():
		return
	}
	if sleep(t.runs, e.clock, e.cfg.Grace) == nil {
		e.overdue(t)
	}
}

func (e *Election) elected(t *term) {
	e.cfg.Logger.Info("election: elected", "election", e.name, "candidate", t.Name, "owner", t.Owner, "token", t.Token)
	if hook := e.cfg.Hooks.Elected; hook != nil {
		hook(t.Term)
	}
}

func (e *Election) ended(end EndedEvent) {
	e.cfg.Logger.Info("election: term ended", "election", e.name, "candidate", end.Term.Name, "owner", end.Term.Owner,
		"token", end.Term.Token, "held", end.Held, "cause", end.Cause, "err", end.Err)
	if hook := e.cfg.Hooks.Ended; hook != nil {
		hook(end)
	}
}

func (e *Election) overdue(t *term) {
	t.overdue.Store(true)
	cause := context.Cause(t.ctx)
	e.cfg.Logger.Warn("election: the lead function still runs after the end of its context", "election", e.name, "candidate", t.Name,
		"owner", t.Owner, "token", t.Token, "cause", cause)
	if hook := e.cfg.Hooks.Overdue; hook != nil {
		hook(OverdueEvent{Term: t.Term, Cause: cause})
	}
}

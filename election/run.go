package election

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/clock"
)

// Run stands for election, leads when elected, and stands again, until ctx ends. It calls lead on its own goroutine,
// once for each term.
//
//   - When a term is lost, the context of lead ends with a *quorumlock.LostError as its cause. Run
//     waits for lead to return, and stands again at once.
//   - When ctx ends, or Resign is called, the context of lead ends too. Run keeps the lock until
//     lead has returned. With Config.KeepOnCancel, the end of ctx then leaves the lock to its TTL.
//   - When lead returns by itself, Run releases the lock. The candidate stands again after a pause,
//     which grows each time that lead returns an error.
//   - When lead returns ErrDone, Run releases the lock and returns nil.
//   - When lead panics, Run releases the lock and does not recover the panic.
//
// Run returns the cause of ctx's end; ErrClosed of package quorumlock if the client was closed, though only after the pause
// that Run may be in; ErrRunning; or a *quorumlock.InvalidError, also if ctx comes from a lease of the lock of this
// election. Failures and refusals of nodes do not end Run: it tries again.
func (e *Election) Run(ctx context.Context, lead Lead) error {
	if err := e.checkRun(ctx, lead); err != nil {
		return err
	}
	if !e.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer e.running.Store(false)
	for failures := 0; ; {
		lease, err := e.lock.Acquire(ctx)
		switch {
		case ctx.Err() != nil:
			if lease != nil {
				lease.WaiveMinHold() // its term has not begun
			}
			e.drop(ctx, lease)
			return context.Cause(ctx)
		case hopeless(err):
			return err
		case err != nil:
			e.failed(err)
			failures++
		default:
			end := e.serve(ctx, lease, lead)
			if errors.Is(end.Err, ErrDone) {
				return nil
			}
			if end.lost {
				continue // no other candidate had to wait for this one
			}
			failures = e.failures(failures, end)
		}
		if err := e.rest(ctx, failures); err != nil {
			return err
		}
	}
}

func (e *Election) checkRun(ctx context.Context, lead Lead) error {
	if err := e.check(ctx); err != nil {
		return err
	}
	if lead == nil {
		return invalid("the lead function is nil")
	}
	if _, held := e.lock.Token(ctx); held {
		return invalid("the context holds the lock of this election already")
	}
	return nil
}

// drop releases a lease that was granted at the instant in which ctx ended.
func (e *Election) drop(ctx context.Context, lease *quorumlock.Lease) {
	if lease != nil {
		// The client repeats a release that nodes did not confirm, and the lock frees itself within
		// a TTL. The client's log and hooks tell of a loss that the release finds.
		_ = lease.Release(ctx)
	}
}

// hopeless reports errors that a retry cannot solve.
func hopeless(err error) bool {
	return errors.Is(err, quorumlock.ErrInvalid) || errors.Is(err, quorumlock.ErrClosed) || errors.Is(err, quorumlock.ErrOverlap)
}

// failures counts the failed terms in a row after this end of a term. A term that lasted for a while resets the
// count.
func (e *Election) failures(before int, end ending) int {
	switch {
	case end.Err == nil || end.Cause != nil:
		return 0
	case end.Held >= e.cfg.RestMax:
		return 1
	default:
		return before + 1
	}
}

// rest pauses to let other candidates lead. The pause doubles with each failure in a row. Jitter takes off up to half of it,
// so that candidates do not all come back at once.
func (e *Election) rest(ctx context.Context, failures int) error {
	pause := e.cfg.RestMin
	for i := 1; i < failures && pause < e.cfg.RestMax; i++ {
		pause += min(pause, e.cfg.RestMax-pause)
	}
	return sleep(ctx, e.clock, pause-time.Duration(e.jitter()*float64(pause/2)))
}

// sleep waits for d, and returns the cause of ctx's end if that comes first, or at the same time.
func sleep(ctx context.Context, c clock.Clock, d time.Duration) error {
	over := make(chan struct{})
	timer := c.AfterFunc(d, func() { close(over) })
	defer timer.Stop()
	select {
	case <-over:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

func (e *Election) failed(err error) {
	e.cfg.Logger.Warn("election: this candidate cannot stand now, and will retry", "election", e.name, "err", err)
	if hook := e.cfg.Hooks.Failed; hook != nil {
		hook(err)
	}
}

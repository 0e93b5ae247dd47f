package election

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/quorum"
)

// Run stands in the election, leads when it is elected, and stands again, until ctx ends. Lead is
// called on the goroutine of Run, once for each term.
//
//   - When a term is lost, the context of lead ends with a *quorumlock.LostError as its cause. Run
//     waits for lead to return, and stands again at once.
//   - When ctx ends, or Resign is called, the context of lead ends too. The lock is kept until lead
//     has returned.
//   - When lead returns by itself, the lock is released, and the candidate stands again after
//     a rest, which is longer each time that lead returned an error.
//   - When lead returns ErrDone, Run releases the lock, and returns nil.
//   - When lead panics, Run releases the lock and does not catch the panic.
//
// It returns the cause of ctx's end; ErrClosed of package quorumlock if the client was
// closed; ErrRunning; or a *quorumlock.InvalidError, also if ctx holds the lock of this
// election already. That nodes fail or refuse is no reason to return: it tries again.
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
				continue // whoever is elected now was not kept waiting by this candidate
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
	var problem string
	if lead == nil {
		problem = "the lead function is nil"
	} else if _, held := e.lock.Token(ctx); held {
		problem = "the context holds the lock of this election already"
	} else {
		return nil
	}
	return &quorumlock.InvalidError{Problems: []string{problem}}
}

// drop gives back what was granted in the instant in which ctx ended.
func (e *Election) drop(ctx context.Context, lease *quorumlock.Lease) {
	if lease != nil {
		// The client repeats a release that nodes did not confirm, and the lock frees itself within
		// a TTL. The client's log and hooks tell of a loss that the release finds.
		_ = lease.Release(ctx)
	}
}

// hopeless errors are those that trying again cannot cure.
func hopeless(err error) bool {
	return errors.Is(err, quorumlock.ErrInvalid) || errors.Is(err, quorumlock.ErrClosed) || errors.Is(err, quorumlock.ErrOverlap)
}

// failures is how many there were in a row after this end of a term. One that lasted for a while
// begins anew.
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

// rest lets others have their turn.
func (e *Election) rest(ctx context.Context, failures int) error {
	return sleep(ctx, e.cfg.Clock, quorum.Backoff(max(failures-1, 0), e.cfg.RestMin, e.cfg.RestMax, rand.Float64()))
}

// sleep waits, and returns the cause of ctx's end if that comes first.
func sleep(ctx context.Context, c clock.Clock, d time.Duration) error {
	over := make(chan struct{})
	timer := c.AfterFunc(d, func() { close(over) })
	defer timer.Stop()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (e *Election) failed(err error) {
	e.cfg.Logger.Warn("election: cannot stand now, and will try again", "election", e.name, "err", err)
	if hook := e.cfg.Hooks.Failed; hook != nil {
		hook(err)
	}
}

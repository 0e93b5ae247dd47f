package chaos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/election"
	"github.com/quorumlock/quorumlock/faultinject/history"
	"github.com/quorumlock/quorumlock/faultinject/workload"
)

// errFails is the error of work that fails, which another client then does.
var errFails = errors.New("the work fails")

// usesInDo uses a lock in a function that runs while it is held, or that does work which then counts as done for a window. A
// window is shorter than a recovery, so no node that lost its memory tells in time that work is not done. A nested lease
// tells exactly whether the lock is held. Permits have none, so the worker records no acts under them.
func (w *worker) usesInDo(ctx context.Context, u workload.Use) error {
	do, once, fails := u.Do, u.Form != workload.InDo, w.One(3)
	run := workload.Run{Name: u.Names[0], Window: time.Second}
	if once {
		u = workload.Use{Names: u.Names[:1], TTL: u.TTL, Hold: u.Hold, Patience: u.Patience, Try: u.Try, Form: u.Form}
		do = func(ctx context.Context, c *quorumlock.Client, fn func(context.Context, uint64, []int) error) error {
			return u.DoOnce(ctx, c, run.Window, func(ctx context.Context, token uint64) error { return fn(ctx, token, nil) })
		}
	}
	patience, cancel := context.WithTimeout(ctx, u.Patience)
	defer cancel()
	attempts := u.Attempts(w.recorder, w.number)
	var began time.Duration
	var failed error
	err := do(patience, w.client, func(inner context.Context, token uint64, slots []int) error {
		began = clock.System().Now()
		got := &holding{Use: u, Parts: w.granted(attempts, token, slots)}
		defer func() { got.Lost(errDone) }()
		if u.Permits > 0 {
			failed = w.show(ctx, got)
			workload.Sleep(inner, u.Hold)
			return nil
		}
		nested, err := u.Lock(w.client).TryAcquire(inner)
		if err != nil {
			return err // the lease is over
		}
		got.valid = nested.Err
		failed = w.use(ctx, got)
		run.Owner, run.Began, run.Ended = nested.Owner(), began, clock.System().Now()
		if err := nested.Release(ctx); err != nil || !once {
			return err
		} else if fails {
			return errFails
		}
		failed = errors.Join(failed, w.resource.ran(ctx, run, workload.Ended))
		return nil
	})
	var done *quorumlock.DoneError
	switch {
	case errors.As(err, &done):
		run.Owner = done.Owner
		failed = errors.Join(failed, w.resource.ran(ctx, run, workload.Told))
	case err == nil && once:
		failed = errors.Join(failed, w.resource.ran(ctx, run, workload.Succeeded))
	}
	if began == 0 {
		return errors.Join(failed, w.failed(ctx, u, err, func(err error) { workload.Failed(attempts, err) }))
	}
	return errors.Join(failed, w.announce(ctx, u, began+u.Keeps()))
}

// leads stands for election under the name of a lock, and leads for some terms.
func (w *worker) leads(ctx context.Context, u workload.Use) error {
	u = workload.Use{Names: u.Names[:1], TTL: u.TTL, Hold: u.Hold, Patience: u.Patience, Ending: u.Ending}
	bound, cancel := context.WithTimeout(ctx, u.Patience)
	defer cancel()
	attempts := u.Attempts(w.recorder, w.number)
	cfg := election.Config{
		Name: "candidate", RestMin: w.TTL / 50, RestMax: w.TTL / 5, KeepOnCancel: u.Ending.Detaches(),
		Logger: slog.New(slog.DiscardHandler),
	}
	cfg.Lock.TTL = u.TTL
	var failed error
	terms := 0
	err := u.Stand(bound, w.client, cfg, func(inner context.Context, e *election.Election, term election.Term) error {
		got := &holding{Use: u, valid: inner.Err} // exact, as the context of a term reads the clock
		for _, attempt := range attempts {
			got.Parts = append(got.Parts, attempt.Granted(term.Owner, term.Token, nil))
		}
		if leads := workload.Leads(e, term); inner.Err() == nil && !leads {
			failed = fmt.Errorf("chaos: %s was elected with token %d, and does not lead, or its candidate is not healthy", w.Label, term.Token)
		}
		failed = errors.Join(failed, w.use(ctx, got))
		if w.One(2) {
			workload.Resign(e)
		}
		got.Lost(errDone)
		attempts = u.Attempts(w.recorder, w.number) // of the next term
		if terms++; failed != nil || terms > 2 {
			return election.ErrDone
		}
		return nil
	})
	workload.Failed(attempts, errors.Join(err, errDone))
	if cfg.KeepOnCancel {
		failed = errors.Join(failed, w.announce(ctx, u, clock.System().Now()+w.ttlOf(u)))
	}
	return failed
}

// asks makes a call that acquires nothing. Some locks are released by force instead, and some semaphores get another size.
func (w *worker) asks(ctx context.Context, u workload.Use) error {
	bound, cancel := context.WithTimeout(ctx, w.TTL)
	defer cancel()
	questions := []workload.Question{workload.InspectLock, workload.ListLocks, workload.AskReady, workload.Connect, workload.AskLeader, workload.WatchLeader}
	switch {
	case u.Names[0] == forced.Name:
		_, _ = u.ForceRelease(bound, w.client)
		return w.announce(ctx, u, clock.System().Now()+w.longestTTL()) // nodes remember the owners for that long
	case u.Names[0] == resized.Name && w.One(2):
		questions = []workload.Question{workload.Resize}
	case u.Permits > 0:
		questions = []workload.Question{workload.InspectPermits}
	}
	question, size := workload.Pick(w.Drawer, questions...), 1+w.IntN(resizedSize)
	call := func() error {
		_, err := u.Ask(bound, w.client, question, size)
		return err
	}
	if question == workload.Resize {
		_ = w.recorder.Resize(w.number, u.Names[0], size, call)
	} else {
		_ = call()
	}
	workload.Sleep(ctx, w.UpTo(w.lengthened(5*time.Millisecond)))
	return nil
}

// usesTogether acquires two or three objects, each with its own options. A fault or the lack of renewals ends each by itself
// if it is not released.
//
//nolint:contextcheck // which permits it has is asked of the context of the lease, and a release has no context
func (w *worker) usesTogether(ctx context.Context) error {
	names := []string{"east", "west", "pool"}
	w.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	var uses []workload.Use
	for _, name := range names[:2+w.IntN(2)] {
		u := w.drawOf(name)
		u.Reads, u.Careless = name == "east" && w.One(2), false
		if u.Lengthen > 0 { // no joint lease can be extended
			u.Hold = w.UpTo(u.TTL)
		}
		uses = append(uses, u)
	}
	if w.Every && w.One(4) {
		uses[0].Ending = workload.Waive
	}
	keepLost := w.One(2)
	patience, cancel := context.WithTimeout(ctx, uses[0].Patience)
	defer cancel()
	j := workload.Join(w.client, w.recorder, w.number, uses...)
	if w.Every && w.One(8) {
		ran := false
		err := j.Do(patience, func(inner context.Context) error {
			ran = true
			workload.Sleep(inner, uses[0].Hold)
			return nil
		})
		if !ran {
			return w.failed(ctx, workload.Use{}, err, j.Failed)
		}
		uses[0].Ending = workload.Release // which Do makes
		return w.announceAll(ctx, uses)
	}
	lease, err := j.Acquire(patience)
	if err != nil {
		return w.failed(ctx, workload.Use{}, err, j.Failed)
	}
	parts := j.Leases(lease)
	got := &holding{Use: uses[0], valid: func() error { return j.Valid(lease) }}
	for i := range uses {
		_, attempts, token, slots := j.Part(i, lease)
		got.Parts = append(got.Parts, w.granted(attempts, token, slots)...)
	}
	longest := time.Now().Add(2 * w.TTL)
	if err := w.use(ctx, got); err != nil {
		return err
	}
	if keepLost && !w.Brisk && w.One(4) {
		w.holdUntilEnd(ctx, got, longest)
	}
	if err := got.valid(); err != nil {
		got.Lost(err)
		if keepLost {
			w.kept = append(w.kept, got)
			return nil
		}
	}
	_ = got.Record((*history.Holding).Release, func() error { return j.End(lease) })
	for _, part := range parts {
		if part.Err() == nil {
			return fmt.Errorf("chaos: %s has released a joint lease, and %v goes on", w.Label, part.Names())
		}
	}
	return w.announceAll(ctx, uses)
}

// announceAll announces until when nodes may keep the parts of a joint lease. The first says how it ends.
func (w *worker) announceAll(ctx context.Context, uses []workload.Use) error {
	var errs []error
	for _, u := range uses {
		if uses[0].Ending != workload.Waive {
			errs = append(errs, w.announce(ctx, u, clock.System().Now()+u.Keeps()))
		}
	}
	return errors.Join(errs...)
}

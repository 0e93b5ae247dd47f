package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/election"
	"github.com/quorumlock/quorumlock/faultinject/history"
	"github.com/quorumlock/quorumlock/faultinject/workload"
)

// holdsAs lets a task hold its lock in another form than as a lease.
//
//nolint:contextcheck // what the simulation does with a lease does not end with the context of the call
func (w *world) holdsAs(p *process, t Task, rng *rand.Rand, index int) {
	patience, cancel := context.WithTimeout(context.Background(), max(min(t.Patience, span-w.now()), 0)+taskOffset(index))
	defer cancel()
	w.note("%s wants %v, %s", p.label, t.Names, t.Form)
	t.Requested = w.now()
	var one *waiting
	if t.Form == workload.InDo || t.Form == workload.InJoinDo || t.Form == workload.InJoin && !t.Try {
		one = w.bounded(p, t, cancel)
	}
	ran := func() { w.waitsNoMore(one); one = nil }
	var err error
	switch t.Form {
	case workload.InDo:
		var attempts []workload.Attempt
		if t.Reads {
			attempts = t.Attempts(p.recorder, index)
		}
		err = t.Do(patience, p.client, func(ctx context.Context, token uint64, slots []int) error {
			ran()
			owner := fmt.Sprintf("%s/do/%d/%d", p.label, index, w.now())
			return w.worksIn(ctx, p, t, rng, index, w.grantedTo(p, t.Use, index, owner, token, slots, attempts))
		})
	case workload.InJoin, workload.InJoinDo:
		err = w.holdsJoined(patience, p, t, rng, index, ran)
	case workload.AsLeader:
		err = w.stands(patience, cancel, p, t, rng, index)
	case workload.InOnce, workload.AsOnce:
		err = w.doesOnce(patience, p, t, rng, index)
	}
	w.note("%s is done with %v, %s: %v", p.label, t.Names, t.Form, err)
	w.mustBeValid(p, t, err)
	if one != nil {
		w.endedByOutage(one, err)
		w.waitsNoMore(one)
	}
}

// mustBeValid checks that a task draws no invalid options: it would do nothing. A semaphore may have too few permits by now.
func (w *world) mustBeValid(p *process, t Task, err error) {
	w.notMisled(p, t.Names, err)
	if errors.Is(err, quorumlock.ErrInvalid) && t.Permits == 0 {
		w.violated(Progress, "%s cannot acquire %v: %v", p.label, t.Names, err)
	}
}

// grantedTo records a grant to a holder that has no lease: only its token and, of permits, the slots. The attempts of a
// reader were recorded before.
func (w *witness) grantedTo(p *process, u workload.Use, worker int, owner string, token uint64, slots []int, attempts []workload.Attempt) (parts workload.Parts) {
	w.seen.Lock()
	defer w.seen.Unlock()
	w.lookLocked()
	w.grants++
	w.tell("%s has %v, without a lease: token %d", p.label, u.Names, token)
	if attempts == nil {
		attempts = u.Attempts(p.recorder, worker)
	}
	for _, attempt := range attempts {
		if !w.world.tampering.touched(attempt.Name) {
			parts = append(parts, attempt.Granted(owner, token, slots))
		}
	}
	held := heldBy(u.Names, slots)
	for _, name := range held {
		w.granting[name]++
	}
	w.stillHeldLocked(held, u.Reads, nil)
	return parts
}

// worksIn is the work of a holder that has a context, and no lease. It acts while the context lives: a process that was
// just frozen may not have ended it yet.
func (w *world) worksIn(ctx context.Context, p *process, t Task, rng *rand.Rand, index int, parts workload.Parts) error {
	until := min(w.now()+t.Hold, span+taskOffset(index))
	for p.awake() {
		if ctx.Err() == nil && p.settled() {
			_ = parts.Record((*history.Holding).Act, func() error { return nil })
		}
		left := until - w.now()
		if left <= 0 || !workload.Sleep(ctx, min(left, time.Duration(rng.Int64N(int64(ttl)/3)))) {
			break
		}
	}
	parts.Lost(errors.New("it is done"))
	return nil
}

// holdsJoined acquires the lock together with another one, which keeps its own options.
//
//nolint:contextcheck // what the simulation does with a lease does not end with the context of the call
func (w *world) holdsJoined(ctx context.Context, p *process, t Task, rng *rand.Rand, index int, has func()) error {
	j := workload.Join(p.client, p.recorder, index, t.Use, *t.Other)
	if t.Form == workload.InJoinDo {
		return j.Do(ctx, func(ctx context.Context) error {
			has()
			w.note("%s has all of it", p.label)
			workload.Sleep(ctx, t.Hold)
			return nil
		})
	}
	lease, err := j.Acquire(ctx)
	if err != nil {
		return err
	}
	has()
	leases := j.Leases(lease)
	var parts workload.Parts
	for i := range 2 {
		u, attempts, token, slots := j.Part(i, lease)
		owner := fmt.Sprintf("%s/join/%d/%d/%d", p.label, index, i, w.now())
		parts = append(parts, w.grantedTo(p, u, index, owner, token, slots, attempts)...)
	}
	for until := min(w.now()+t.Hold, span+taskOffset(index)); p.awake() && w.now() < until; {
		if j.Valid(lease) == nil {
			_ = parts.Record((*history.Holding).Act, func() error { return nil })
		}
		if !workload.Sleep(lease.Context(), min(until-w.now(), time.Duration(rng.Int64N(int64(ttl)/3)))) {
			break
		}
	}
	parts.Lost(errors.New("it is about to be released"))
	err = j.End(lease)
	for _, part := range leases {
		if part.Err() == nil {
			w.violated(Finality, "%s has released a joint lease, and %v (%s) goes on", p.label, part.Names(), w.short(part.Owner()))
		}
	}
	return err
}

// stands lets a process stand for election, and lead for a while in each term.
//
//nolint:contextcheck // what the simulation does with a lease does not end with the context of the call
func (w *world) stands(ctx context.Context, cancel context.CancelFunc, p *process, t Task, rng *rand.Rand, index int) error {
	keeps := t.Ending.Detaches()
	t.All = false
	one := w.bounded(p, t, cancel)
	again := func() { w.waitsNoMore(one); one = w.bounded(p, t, cancel) } // each call of Acquire counts for itself
	defer func() { w.waitsNoMore(one) }()
	cfg := election.Config{
		Name: "candidate", RestMin: ttl / 50, RestMax: ttl / 5, KeepOnCancel: keeps,
		Lock: quorumlock.LockOptions{TTL: t.TTL, MaxOutage: t.MaxOutage}, Logger: slog.New(slog.DiscardHandler),
	}
	cfg.Hooks.Failed = func(err error) {
		w.endedByOutage(one, err)
		again()
	}
	terms := 0
	err := t.Stand(ctx, p.client, cfg, func(ctx context.Context, e *election.Election, term election.Term) error {
		w.waitsNoMore(one)
		defer again()
		parts := w.grantedTo(p, workload.Use{Names: t.Names[:1]}, index, term.Owner, term.Token, nil, nil)
		if leads := workload.Leads(e, term); ctx.Err() == nil && p.settled() && !leads {
			w.violated(Exclusion, "%s was elected with token %d, and does not lead, or its candidate is not healthy", p.label, term.Token)
		}
		terms++
		if t.Ending == workload.Waive {
			time.AfterFunc(t.Hold/2+taskOffset(index), func() { workload.Resign(e) })
		}
		err := w.worksIn(ctx, p, t, rng, index, parts)
		if terms > t.Again {
			return election.ErrDone
		}
		return err
	})
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, quorumlock.ErrClosed) {
		return nil
	}
	return err
}

// ask makes a call that acquires nothing, and checks what its answer says where nothing goes wrong.
func (w *world) ask(p *process, t Task, index int) {
	before := w.valid(t.Names[0])
	size := 1 + int(w.c.Seed+uint64(index))%max(w.c.Permits, 1)
	answer := ""
	call := func() (err error) {
		answer, err = t.Ask(context.Background(), p.client, t.Asks, size)
		return err
	}
	var err error
	if t.Asks == workload.Resize {
		err = p.recorder.Resize(index, t.Names[0], size, call)
	} else {
		err = call()
	}
	w.note("%s has asked to %s of %v: %v", p.label, t.Asks, t.Names, err)
	w.mustBeValid(p, t, err)
	if !slices.Contains([]workload.Question{workload.InspectLock, workload.ListLocks, workload.AskLeader, workload.WatchLeader}, t.Asks) || err != nil || !w.c.undisturbed() || t.All || len(t.Names) > 1 { // all nodes need not have it
		return
	}
	after := w.valid(t.Names[0])
	for _, r := range before {
		if slices.Contains(after, r) && !w.isReader(r) && r.lease.Owner() != answer {
			w.violated(Losses, "%s holds %q as %s, and an inspection finds %q", r.process.label, t.Names[0], w.short(r.lease.Owner()), w.short(answer))
		}
	}
}

// keeps notes what the nodes must still keep when a lease is over: the rest of its MinHold, or of the TTL of a detached one.
// The witness goes on as if the lease were valid, so that another grant meanwhile is two leases at once.
func (w *world) keeps(lease *quorumlock.Lease, until time.Duration) {
	w.update(lease, func(r *record) { r.kept = max(r.kept, until) })
}

// leaves ends a lease in the way of the task, and forgets it when the nodes may.
func (w *world) leaves(p *process, lease *quorumlock.Lease, t Task, rng *rand.Rand, index int) {
	if t.Ending == workload.Waive {
		w.update(lease, func(r *record) { r.kept = 0 })
	}
	left, began := lease.Remaining(), w.now()
	var kept time.Duration
	end := func() (err error) {
		kept, err = t.End(lease)
		return err
	}
	var err error
	stays := t.Ending.Detaches()
	if until := w.keptUntil(lease); stays || until > w.now() {
		stays = true
		err = end()
		w.keeps(lease, began+kept)
	} else {
		err = w.during(lease, (*history.Holding).Release, end)
		if t.Keeps() == 0 || t.Ending == workload.Waive { // otherwise a rest may be left, as nodes count from the request
			w.freed(lease, p.need(t.All), w.now()-began, err)
		}
		w.released(lease, p.need(t.All), left, err)
	}
	if lease.Context().Err() == nil {
		w.violated(Finality, "%s has ended its lease of %v (%s), and the context of it goes on", p.label, t.Names, w.short(lease.Owner()))
	}
	if until := w.keptUntil(lease); stays && until > w.now() {
		w.note("the nodes keep %v (%s) until %v", t.Names, w.short(lease.Owner()), until)
		if t.Ending == workload.DetachAndRelease && err == nil {
			w.apart.Sleep(time.Duration(rng.Int64N(int64(until - w.now()))))
			w.releaseOwner(lease, t, index)
		} else {
			w.apart.Sleep(until - w.now())
		}
	}
	w.finished(lease)
}

// releaseOwner lets some client release the lock of a lease that was detached.
func (w *world) releaseOwner(lease *quorumlock.Lease, t Task, index int) {
	w.update(lease, func(r *record) { r.kept = 0 })
	living := w.living()
	if len(living) == 0 {
		return
	}
	p, began := living[index%len(living)], w.now()
	err := t.ReleaseOwner(context.Background(), p.client, lease.Owner())
	w.note("%s releases the owner %s of %v: %v", p.label, w.short(lease.Owner()), t.Names, err)
	w.freed(lease, p.need(t.All), w.now()-began, err)
}

const onceWindow = 2 * ttl

// doesOnce does work that counts as done for a window. No other work may succeed in that window, unless a majority may have
// lost its memory, and no one may be told of work that did not succeed.
//
//nolint:contextcheck // what the simulation does with a lease does not end with the context of the call
func (w *world) doesOnce(ctx context.Context, p *process, t Task, rng *rand.Rand, index int) error {
	u := t.Use
	u.Names, u.Permits, u.Reads, u.All = t.Names[:1], 0, false, false
	run := workload.Run{Name: u.Names[0], Window: onceWindow}
	err := u.DoOnce(ctx, p.client, onceWindow, func(ctx context.Context, token uint64) error {
		nested, err := u.Lock(p.client).TryAcquire(ctx)
		if err != nil {
			return err // the lease is over
		}
		run.Owner, run.Began = nested.Owner(), w.now()
		err = w.worksIn(ctx, p, t, rng, index, w.grantedTo(p, u, index, run.Owner, token, nil, nil))
		run.Ended = w.now()
		w.judgeRun(run, workload.Ended)
		return errors.Join(err, nested.Release(context.Background()))
	})
	var done *quorumlock.DoneError
	if errors.As(err, &done) {
		run.Owner = done.Owner
		w.judgeRun(run, workload.Told)
	}
	if err == nil {
		w.judgeRun(run, workload.Succeeded)
	}
	return err
}

func (w *world) judgeRun(run workload.Run, stage workload.Stage) {
	run.Stage = stage
	if text := w.runs.Note(run); text != "" && (stage == workload.Told || !w.c.forgets()) {
		w.violated(Exclusion, "%s", text)
	}
}

package chaos

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/faultinject/history"
	"github.com/quorumlock/quorumlock/faultinject/workload"
)

type holding struct {
	workload.Parts
	workload.Use
	// valid returns nil while the worker holds it. It reads the clock, so it is right also after a freeze.
	valid func() error
	// lease is the lease; nil for other forms. asked is when the worker asked for it, and got when it had it.
	lease      *quorumlock.Lease
	asked, got time.Duration
}

// act checks and records whether it is valid.
func (h *holding) act() error { return h.Record((*history.Holding).Act, h.valid) }

// errDone ends what a worker records of a lease before the lease itself ends.
var errDone = errors.New("the worker is done with it")

func (w *worker) usesLease(ctx context.Context, u workload.Use) error {
	got, err := w.take(ctx, u)
	if got == nil {
		return err
	}
	longest := time.Now().Add(2 * w.TTL)
	if err := w.use(ctx, got); err != nil {
		return err
	}
	if got.Downgrade {
		_ = got.Record((*history.Holding).Downgrade, func() error { return workload.Downgrade(ctx, got.lease) })
		got.Parts[0].Reads = true
		if err := w.use(ctx, got); err != nil {
			return err
		}
	}
	if got.Careless {
		w.holdUntilEnd(ctx, got, longest)
	}
	return w.leave(ctx, got)
}

// take acquires a lease; nil if that failed.
func (w *worker) take(ctx context.Context, u workload.Use) (*holding, error) {
	patience, cancel := context.WithTimeout(ctx, u.Patience)
	defer cancel()
	got := &holding{Use: u, asked: clock.System().Now()}
	attempts := u.Attempts(w.recorder, w.number)
	lease, err := u.Acquire(patience, w.client)
	if err != nil {
		return nil, w.failed(ctx, u, err, func(err error) { workload.Failed(attempts, err) })
	}
	got.lease, got.valid, got.got = lease, lease.Err, clock.System().Now()
	for _, attempt := range attempts {
		got.Parts = append(got.Parts, attempt.Granted(lease.Owner(), lease.Token(), lease.Slots()))
	}
	return got, nil
}

// holdUntilEnd is a careless holder, which releases only when its lease ends, or after a long time. It checks its lease all
// the time: an unobserved end proves nothing.
func (w *worker) holdUntilEnd(ctx context.Context, got *holding, longest time.Time) {
	for time.Now().Before(longest) && got.act() == nil && ctx.Err() == nil {
		workload.Sleep(ctx, w.TTL/40)
	}
}

// use is the work of a holder: it checks its lease, and some time later it writes, as programs do. A late write is
// refused, and then the lease must have ended.
func (w *worker) use(ctx context.Context, got *holding) error {
	until := time.Now().Add(got.Hold)
	for {
		if got.act() != nil {
			return nil
		}
		workload.Sleep(ctx, w.UpTo(w.Think))
		if err := w.show(ctx, got); err != nil {
			return err
		}
		if got.Extend && got.lease != nil && (got.Lengthen > 0 || w.One(4)) {
			_, _ = got.Prolong(ctx, got.lease, w.TTL) // after an error the lease lasts as long as before
			got.Extend = got.Lengthen == 0            // otherwise the lease must last without a renewal
		}
		if left := time.Until(until); left > 0 && ctx.Err() == nil {
			workload.Sleep(ctx, min(left, w.UpTo(w.lengthened(100*time.Millisecond))))
			continue
		}
		// The lease must have ended if the resource refused its token.
		_ = got.act()
		return nil
	}
}

func (w *worker) show(ctx context.Context, got *holding) error {
	for _, part := range got.Parts {
		if err := w.resource.show(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// leave ends a lease. The nodes may have to keep the lock for a while after that.
//
//nolint:contextcheck // a release has no context
func (w *worker) leave(ctx context.Context, got *holding) error {
	defer workload.Sleep(ctx, w.UpTo(w.lengthened(5*time.Millisecond)))
	over := got.valid()
	if over != nil {
		got.Lost(over)
	}
	if over != nil || !got.Ending.Detaches() && (got.Ending == workload.Waive || got.Keeps() == 0) {
		_ = got.Record((*history.Holding).Release, func() error { _, err := got.End(got.lease); return err })
		return nil
	}
	began := clock.System().Now()
	left, err := got.End(got.lease)
	least, most := got.asked+got.Keeps(), got.got+got.Keeps()
	if got.Ending.Detaches() {
		least = max(least, began+left)
	}
	if got.Ending.Detaches() || err != nil {
		most = clock.System().Now() + max(w.ttlOf(got.Use), got.Lengthen, got.Keeps())
	}
	if err := w.announce(ctx, got.Use, most); err != nil {
		return err
	}
	if err != nil && !errors.Is(err, quorumlock.ErrNoQuorum) {
		got.Lost(err)
		return nil
	}
	return w.watch(ctx, got, least-w.tolerance())
}

// watch is the time in which the nodes keep a lock after its lease. Nobody else may have it, so the worker records acts as
// if it still held the lease. Some workers release the owner before the end.
func (w *worker) watch(ctx context.Context, got *holding, until time.Duration) error {
	got.valid = func() error {
		if clock.System().Now() >= until {
			return errDone
		}
		return nil
	}
	end := until
	releases := got.Ending == workload.DetachAndRelease
	if left := until - clock.System().Now(); releases && left > 0 {
		end -= w.UpTo(left)
	}
	for left := w.TTL; left > 0 && got.act() == nil && workload.Sleep(ctx, min(left, w.TTL/40)); {
		left = end - clock.System().Now()
	}
	got.Lost(errDone)
	if !releases {
		return nil
	}
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.TTL)
	defer cancel()
	_ = got.ReleaseOwner(bound, w.client, got.lease.Owner())
	return w.announce(ctx, got.Use, clock.System().Now()+w.longestTTL()) // nodes remember the owner for that long
}

// longestTTL is the longest TTL of any client, as this one knows it.
func (w *worker) longestTTL() time.Duration {
	return w.config.Limits().Recovery() - w.config.MaxClockSkew
}

// tolerance is by how much a time of the nodes may differ from that of a client: by drift, and by the steps of a clock.
func (s settings) tolerance() time.Duration { return s.TTL / 50 }

// announce tells the resource until when nodes may keep something of a use, at the latest. A time that is over is none.
func (w *worker) announce(ctx context.Context, u workload.Use, until time.Duration) error {
	if until <= clock.System().Now() {
		return nil
	}
	for _, name := range u.Names {
		if err := w.resource.keep(ctx, name, until+w.tolerance()); err != nil {
			return err
		}
	}
	return nil
}

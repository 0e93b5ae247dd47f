package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/faultinject/history"
	"github.com/quorumlock/quorumlock/faultinject/workload"
)

// worker is a goroutine of a client that uses objects of one kind.
type worker struct {
	settings
	workload.Drawer
	number   int
	kind     Kind
	client   *quorumlock.Client
	recorder *history.Recorder
	resource *resourceConn
	// joints counts joint leases. kept has the lost ones that are not released: while the worker references them,
	// they cannot count as leaked.
	joints int
	kept   []*holding
}

func (w *worker) work(ctx context.Context) (err error) {
	if w.resource, err = dial(ctx, w.Resource); err != nil {
		return err
	}
	defer func() { _ = w.resource.conn.Close() }()
	turn := w.turn
	if w.kind == Latch {
		turn = w.latchTurn
	}
	for ctx.Err() == nil {
		if err := turn(ctx); err != nil {
			return err
		}
	}
	return nil
}

// draw draws a use of an object of the worker's kind.
func (w *worker) draw() workload.Use {
	switch w.kind {
	case Semaphore:
		return w.drawOf("gamma")
	case RWLock:
		return w.drawOf("delta")
	case Join:
		return w.drawOf([]string{"east", "west", "pool"}[w.IntN(3)])
	}
	h := w.habits([]string{"alpha"}, []string{"beta"})
	if !w.Gentle && w.One(10) {
		h.Names = [][]string{{"alpha", "beta"}}
	}
	u := w.Lock(h)
	if w.Gentle { // then only a fault can cost it a lease
		u = workload.Use{Names: u.Names, Patience: u.Patience, Hold: u.Hold}
	}
	return u
}

// drawOf draws a use of one object that is no plain lock.
func (w *worker) drawOf(name string) workload.Use {
	u := w.Lock(w.habits([]string{name}))
	u.All = false
	switch name {
	case "gamma":
		w.Permits(&u, gammaSize)
	case "pool":
		u.Permits, u.Size = 1, poolSize
	case "delta":
		w.Share(&u, 3)
	}
	return u
}

// habits are the habits of all workers. Holds are short mostly.
func (w *worker) habits(names ...[]string) workload.Habits {
	h := workload.Habits{Names: names, Patience: 2 * w.TTL, Fixed: 4, Careless: 24, Short: []time.Duration{0}}
	h.Holds = slices.Repeat([]time.Duration{10 * time.Millisecond}, 13)
	if !w.Brisk {
		h.Holds = append(h.Holds, w.TTL/4, w.TTL/4, 3*w.TTL/2)
	}
	return h
}

// holding is the result of an acquisition: a lease, or several joint ones.
type holding struct {
	workload.Parts
	workload.Use
	err     func() error
	release func(context.Context) error
	// lease is the lease; nil for joint ones.
	lease *quorumlock.Lease
	// keepLost keeps the worker from releasing a lost lease.
	keepLost bool
}

// act checks and records whether the lease is valid.
func (h *holding) act() error { return h.Record((*history.Holding).Act, h.err) }

// take is one attempt to acquire an object of the worker's kind; nil if it failed.
func (w *worker) take(ctx context.Context) *holding {
	if w.kind == Join && w.One(2) {
		return w.takeTogether(ctx)
	}
	u := w.draw()
	if u.Careless && !w.Brisk {
		u.Hold = w.UpTo(2 * w.TTL)
	}
	if !w.Gentle {
		w.Options(&u, w.TTL)
		u.MinHold, u.Ending = 0, workload.Release // keys that stay would look like leaked ones
	}
	ctx, cancel := context.WithTimeout(ctx, u.Patience)
	defer cancel()
	attempts := u.Attempts(w.recorder, w.number)
	lease, err := u.Acquire(ctx, w.client)
	if err != nil {
		for _, attempt := range slices.Backward(attempts) {
			attempt.Failed(err)
		}
		return nil
	}
	got := &holding{Use: u, err: lease.Err, release: lease.Release, lease: lease}
	for _, attempt := range attempts {
		got.Parts = append(got.Parts, attempt.Granted(lease.Owner(), lease.Token(), lease.Slots()))
	}
	return got
}

// takeTogether acquires two or three objects, each with its own step of the plan. A fault or the lack of renewals ends
// each by itself if it is not released.
//
//nolint:contextcheck // which permits it has is asked of the context of the lease
func (w *worker) takeTogether(ctx context.Context) *holding {
	names := []string{"east", "west", "pool"}
	w.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	var locks []quorumlock.Joinable
	var granted []func(*quorumlock.JointLease) (uint64, []int)
	var attempts []workload.Attempt
	got := &holding{keepLost: w.One(2)}
	for _, name := range names[:2+w.IntN(2)] {
		got.Use = w.drawOf(name)
		got.Reads, got.Careless = name == "east" && w.One(2), false
		lock, of := got.Join(w.client)
		locks, granted = append(locks, lock), append(granted, of)
		attempts = append(attempts, got.Attempts(w.recorder, w.number)...)
	}
	ctx, cancel := context.WithTimeout(ctx, got.Patience)
	defer cancel()
	lease, err := quorumlock.Join(locks...).Acquire(ctx)
	if err != nil {
		for _, attempt := range slices.Backward(attempts) {
			attempt.Failed(err)
		}
		return nil
	}
	w.joints++
	got.err, got.release = lease.Err, lease.Release
	for i, attempt := range attempts {
		token, slots := granted[i](lease)
		got.Parts = append(got.Parts, attempt.Granted(fmt.Sprintf("%s/w%d/%d", w.Label, w.number, w.joints), token, slots))
	}
	return got
}

// turn is one attempt to acquire something, and its use.
func (w *worker) turn(ctx context.Context) error {
	got := w.take(ctx)
	if got == nil {
		sleep(ctx, w.UpTo(w.lengthened(20*time.Millisecond))) // it may have failed at once, and would again
		return nil
	}
	longest := time.Now().Add(2 * w.TTL)
	if err := w.use(ctx, got); err != nil {
		return err
	}
	if got.Downgrade {
		_ = got.Record((*history.Holding).Downgrade, func() error { return got.lease.Downgrade(ctx) })
		got.Parts[0].Reads = true
		if err := w.use(ctx, got); err != nil {
			return err
		}
	}
	if got.Careless || got.keepLost && !w.Brisk && w.One(4) {
		w.holdUntilEnd(ctx, got, longest)
	}
	if err := got.err(); err != nil {
		got.Lost(err)
		if got.keepLost {
			w.kept = append(w.kept, got)
			return nil
		}
	}
	_ = got.Record((*history.Holding).Release, func() error { return got.release(ctx) })
	sleep(ctx, w.UpTo(w.lengthened(5*time.Millisecond)))
	return nil
}

// lengthened returns a longer pause where several kinds are used, so that all kinds together keep the machine as busy as one
// alone.
func (w *worker) lengthened(pause time.Duration) time.Duration {
	return pause * time.Duration(len(w.Kinds)*len(w.Kinds))
}

// holdUntilEnd is a careless holder, which releases only when its lease ends, or after a long time. It checks its lease all
// the time: an unobserved end proves nothing.
func (w *worker) holdUntilEnd(ctx context.Context, got *holding, longest time.Time) {
	for time.Now().Before(longest) && got.act() == nil && ctx.Err() == nil {
		sleep(ctx, w.TTL/40)
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
		sleep(ctx, w.UpTo(w.Think))
		for _, part := range got.Parts {
			if err := w.resource.show(ctx, part); err != nil {
				return err
			}
		}
		if got.Extend && got.lease != nil && w.One(4) {
			_, _ = got.Prolong(ctx, got.lease, w.TTL) // after an error the lease lasts as long as before
		}
		if left := time.Until(until); left > 0 && ctx.Err() == nil {
			sleep(ctx, min(left, w.UpTo(w.lengthened(100*time.Millisecond))))
			continue
		}
		// The lease must have ended if the resource refused its token.
		_ = got.act()
		return nil
	}
}

// One worker of each client uses each latch for one TTL, and counts down for two ids. All processes know the current
// latch by the clock. Without obstacles, the latch is done within half of the time, and from then on no reader may
// see it otherwise.

// idsEach is the number of ids for which a client counts down.
const idsEach = 2

// latchTurn is one worker's use of one latch.
func (w *worker) latchTurn(ctx context.Context) error {
	now, offset := clock.System().Now(), time.Duration(w.number%w.Workers)*w.TTL/time.Duration(w.Workers)
	generation := (now + offset) / w.TTL
	ctx, cancel := context.WithTimeout(ctx, (generation+1)*w.TTL-now-offset)
	defer cancel()
	name := fmt.Sprintf("latch-%d-%d", w.number%w.Workers, generation)
	err := w.useLatch(ctx, w.client.Latch(name).With(quorumlock.LatchOptions{TTL: quorumlock.MinLatchTTL}))
	<-ctx.Done()
	return err
}

// useLatch makes all calls of one latch, and the count-downs at once or one after another. It tells
// the resource when the latch is done.
func (w *worker) useLatch(ctx context.Context, latch *quorumlock.Latch) error {
	steps := [][]workload.LatchCall{{{Kind: history.Set, Count: idsEach * w.Clients}}}
	merged := w.One(2)
	for i := range idsEach {
		id := fmt.Sprintf("%s/%d", w.place(), i)
		downs := slices.Repeat([]workload.LatchCall{{Kind: history.CountDown, ID: id}}, 1+w.IntN(5)/4)
		if last := len(steps) - 1; merged && i > 0 {
			steps[last] = append(steps[last], downs...)
		} else {
			steps = append(steps, downs)
		}
		if !merged && w.One(2) {
			steps = append(steps, []workload.LatchCall{{Kind: history.Count}})
		}
	}
	for _, kind := range []history.Kind{history.Await, history.Count, history.Count, history.Count} {
		steps = append(steps, []workload.LatchCall{{Kind: kind}})
	}
	if w.One(16) {
		steps = append(steps, []workload.LatchCall{{Kind: history.Delete}})
	}
	for _, atOnce := range steps {
		// A call after the end would prove nothing, and take time to check.
		if !sleep(ctx, w.UpTo(w.TTL/12)) {
			return nil
		}
		var calls sync.WaitGroup
		errs := make([]error, len(atOnce))
		for i, call := range atOnce {
			calls.Go(func() {
				if _, err := call.Make(ctx, latch, w.recorder, w.number); err == nil && call.Kind == history.Await {
					errs[i] = w.resource.done(ctx)
				}
			})
		}
		calls.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}

// place is the name of the client's place, which is the same for each of its processes.
func (w *worker) place() string {
	place, _, _ := strings.Cut(w.Label, ".")
	return place
}

package chaos

import (
	"cmp"
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
	config   quorumlock.Config // of the client
	recorder *history.Recorder
	resource resourceConn
	// unnamed counts the leases whose owner the worker is not told. kept has the lost joint leases that are not
	// released: while the worker references them, they cannot count as leaked.
	unnamed int
	kept    []*holding
}

func (w *worker) work(ctx context.Context) (err error) {
	if w.resource, err = dial(w.Resource); err != nil {
		return err
	}
	defer func() { _ = w.resource.Close() }()
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

// turn is one attempt to acquire something and its use, or a question.
func (w *worker) turn(ctx context.Context) error {
	if w.kind == Join && w.One(2) {
		return w.usesTogether(ctx)
	}
	u := w.draw()
	switch {
	case w.Every && (w.One(12) || w.One(3) && (u.Names[0] == forced.Name || u.Names[0] == resized.Name)):
		return w.asks(ctx, u)
	case u.Form == workload.InDo || u.Form == workload.InOnce || u.Form == workload.AsOnce:
		return w.usesInDo(ctx, u)
	case u.Form == workload.AsLeader:
		return w.leads(ctx, u)
	default:
		return w.usesLease(ctx, u)
	}
}

// draw draws a use of an object of the worker's kind.
func (w *worker) draw() workload.Use {
	switch w.kind {
	case Semaphore:
		if w.Every && w.One(4) {
			return w.drawOf(resized.Name)
		}
		return w.drawOf("gamma")
	case RWLock:
		return w.drawOf("delta")
	case Join:
		return w.drawOf([]string{"east", "west", "pool"}[w.IntN(3)])
	}
	h := w.habits([]string{"alpha"}, []string{"beta"})
	switch {
	case !w.Every: // then only a fault can cost it a lease
		u := w.Lock(h)
		return workload.Use{Names: u.Names, Patience: u.Patience, Hold: u.Hold}
	case w.One(16):
		h.Names = [][]string{{forced.Name}}
	case w.One(10):
		h.Names = [][]string{{"alpha", "beta"}}
	}
	return w.options(w.Lock(h))
}

// drawOf draws a use of one object that is no plain lock.
func (w *worker) drawOf(name string) workload.Use {
	u := w.Lock(w.habits([]string{name}))
	u.All = false
	switch name {
	case "gamma":
		w.Permits(&u, gammaSize)
	case resized.Name:
		w.Permits(&u, resizedSize)
	case "pool":
		u.Permits, u.Size = 1, poolSize
	case "delta":
		w.Share(&u, 2)
	}
	return w.options(u)
}

// options draws the options of some uses, and their form. A lock that nodes keep after its lease is held for a short time,
// so that others get it soon.
func (w *worker) options(u workload.Use) workload.Use {
	if u.Careless && !w.Brisk {
		u.Hold = w.UpTo(2 * w.TTL)
	}
	if !w.Every {
		return u
	}
	u.Spin = w.One(4) || w.Number%3 == 1
	u.NoHandover, u.Try = w.One(8), w.One(8)
	switch w.IntN(8) {
	case 0, 1:
		w.Options(&u, w.config.MaxTTL)
		if u.Form = workload.Pick(w.Drawer, workload.AsLease, workload.InDo, workload.AsLeader, workload.InOnce, workload.AsOnce); u.Form != workload.InDo && w.kind != Lock {
			u.Form = workload.AsLease
		}
		if u.Form != workload.AsLease {
			u.Careless, u.Downgrade, u.Fixed = false, false, false
		}
	case 2: // the operations of one owner have different TTLs, and the lease is used nearly to its end
		u.Fixed, u.TTL, u.Extend, u.Lengthen = true, max(w.TTL/4, 3*w.config.NodeTimeoutMax), true, w.config.MaxTTL
		u.Careless, u.Hold = false, u.Lengthen*9/10
	}
	if u.MinHold > 0 || u.Ending.Detaches() {
		u.Hold = min(u.Hold, w.TTL/8)
		if !w.One(4) {
			u.MinHold, u.TTL = u.MinHold/4, w.TTL/2
		}
	}
	if u.Fixed {
		u.MinHold = min(u.MinHold, w.ttlOf(u)*9/10)
	}
	return u
}

func (w *worker) ttlOf(u workload.Use) time.Duration { return cmp.Or(u.TTL, w.config.TTL) }

// habits are the habits of all workers. Holds are short mostly.
func (w *worker) habits(names ...[]string) workload.Habits {
	h := workload.Habits{Names: names, Patience: 2 * w.TTL, Fixed: 4, Careless: 24, Short: []time.Duration{0}}
	h.Holds = slices.Repeat([]time.Duration{10 * time.Millisecond}, 13)
	if !w.Brisk {
		h.Holds = append(h.Holds, w.TTL/4, w.TTL/4, 3*w.TTL/2)
	}
	return h
}

// failed records that an acquisition failed. The worker must not have drawn invalid options: then it would do nothing. Only
// a semaphore may have too few permits by now.
func (w *worker) failed(ctx context.Context, u workload.Use, err error, record func(error)) error {
	record(err)
	if errors.Is(err, quorumlock.ErrInvalid) && u.Permits == 0 {
		return fmt.Errorf("chaos: %s acquires %v: %w", w.Label, u.Names, err)
	}
	workload.Sleep(ctx, w.UpTo(w.lengthened(20*time.Millisecond))) // it may have failed at once, and would again
	return nil
}

// granted records a grant whose owner the worker is not told.
func (w *worker) granted(attempts []workload.Attempt, token uint64, slots []int) (parts workload.Parts) {
	w.unnamed++
	for _, attempt := range attempts {
		parts = append(parts, attempt.Granted(fmt.Sprintf("%s/w%d/%d", w.Label, w.number, w.unnamed), token, slots))
	}
	return parts
}

// lengthened returns a longer pause where several kinds are used, so that all kinds together keep the machine as busy as one
// alone.
func (w *worker) lengthened(pause time.Duration) time.Duration {
	return pause * time.Duration(len(w.Kinds)*len(w.Kinds))
}

// One worker of each client uses each latch for one TTL, and counts down for two ids. All processes know the current
// latch by the clock. Without obstacles, the latch is done within half of the time, and from then on no reader may
// see it otherwise.

// idsEach is the number of ids for which a client counts down.
const idsEach = 2

func (w *worker) latchTurn(ctx context.Context) error {
	now, offset := clock.System().Now(), time.Duration(w.number%w.Workers)*w.TTL/time.Duration(w.Workers)
	generation := (now + offset) / w.TTL
	ctx, cancel := context.WithTimeout(ctx, (generation+1)*w.TTL-now-offset)
	defer cancel()
	name := fmt.Sprintf("latch-%d-%d", w.number%w.Workers, generation)
	err := w.useLatch(ctx, workload.LatchOf(w.client, name, quorumlock.LatchOptions{TTL: 10 * time.Second}))
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
		if !workload.Sleep(ctx, w.UpTo(w.TTL/12)) {
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

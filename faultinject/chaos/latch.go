package chaos

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/clock"
)

// One worker of each client uses each latch for one TTL, and counts down for two ids. All processes know the current
// latch by the clock. Without obstacles, the latch is done within half of the time, and from then on no reader may
// see it otherwise.

// latchPrefix is the prefix of latch names.
const latchPrefix = "latch-"

// idsEach is the number of ids for which a client counts down.
const idsEach = 2

// latchTurn is one worker's use of one latch.
func (w *worker) latchTurn(ctx context.Context) error {
	now, offset := clock.System().Now(), time.Duration(w.number%w.Workers)*w.TTL/time.Duration(w.Workers)
	generation := (now + offset) / w.TTL
	ctx, cancel := context.WithTimeout(ctx, (generation+1)*w.TTL-now-offset)
	defer cancel()
	name := fmt.Sprintf("%s%d-%d", latchPrefix, w.number%w.Workers, generation)
	err := w.useLatch(ctx, w.client.Latch(name).With(quorumlock.LatchOptions{TTL: quorumlock.MinLatchTTL}))
	<-ctx.Done()
	return err
}

func (w *worker) useLatch(ctx context.Context, latch *quorumlock.Latch) error {
	name, n := latch.Name(), idsEach*w.Clients
	sleep(ctx, w.upTo(w.TTL/8))
	_ = w.recorder.SetLatch(w.number, name, n, func() error { return latch.Set(ctx, n) })
	for i := range idsEach {
		sleep(ctx, w.upTo(w.TTL/8))
		if ctx.Err() != nil { // a call would prove nothing, and take time to check
			return nil
		}
		if err := w.countDown(ctx, latch, fmt.Sprintf("%s/%d", w.place(), i)); err != nil {
			return err
		}
	}
	if w.recorder.AwaitLatch(w.number, name, func() error { return latch.Await(ctx) }) == nil {
		if err := w.desk.done(ctx, name, n); err != nil {
			return err
		}
	}
	for range 3 {
		sleep(ctx, w.upTo(w.TTL/8))
		w.count(ctx, latch)
	}
	if w.rng.IntN(16) == 0 && ctx.Err() == nil {
		_ = w.recorder.DeleteLatch(w.number, name, func() error { return latch.Delete(ctx) })
	}
	return nil
}

// countDown counts down for an id, sometimes twice. It tells the resource first.
func (w *worker) countDown(ctx context.Context, latch *quorumlock.Latch, id string) error {
	if err := w.desk.counting(ctx, latch.Name(), id); err != nil {
		return err
	}
	for range 1 + w.rng.IntN(5)/4 {
		_ = w.recorder.CountDown(w.number, latch.Name(), id, func() error { return latch.CountDown(ctx, id) })
	}
	if w.rng.IntN(2) == 0 {
		w.count(ctx, latch)
	}
	return nil
}

func (w *worker) count(ctx context.Context, latch *quorumlock.Latch) {
	_, _ = w.recorder.CountLatch(w.number, latch.Name(), func() (int, error) { return latch.Count(ctx) })
}

// place is the name of the client's place, which is the same for each of its processes.
func (w *worker) place() string {
	place, _, _ := strings.Cut(w.Label, ".")
	return place
}

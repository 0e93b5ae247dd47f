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
	err := w.useLatch(ctx, workload.LatchOf(w.client, name, quorumlock.LatchOptions{TTL: quorumlock.MinLatchTTL}))
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

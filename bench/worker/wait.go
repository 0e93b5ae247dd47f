package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// lateness is how much later than this worker another one may end.
const lateness = 300 * time.Millisecond

// await lets all callers wait for a lock that is held throughout. A grant is a violation.
func (w *worker) await(before int64) *Outcome {
	lasting := context.Background()
	ctx, cancel := context.WithCancel(lasting)
	defer cancel()
	var got atomic.Int64
	var all sync.WaitGroup
	for _, lock := range w.locks {
		all.Go(func() {
			if lock.Acquire(ctx) == nil {
				got.Add(1)
				_ = lock.Release(lasting) // the grant itself is the violation
			}
		})
	}
	time.Sleep(w.Cell.Settle)
	usedBefore, began := used(), time.Now()
	time.Sleep(w.Cell.Duration)
	spent := used()
	seconds := time.Since(began).Seconds()
	cancel()
	all.Wait()
	if w.held != nil {
		time.Sleep(lateness)        // otherwise the waiters of another worker could acquire it
		_ = w.held.Release(lasting) // a failure shows in the keys that remain
	}
	return &Outcome{
		Seconds: seconds, Violations: got.Load(),
		Mallocs: spent.mallocs - usedBefore.mallocs, Bytes: spent.bytes - usedBefore.bytes,
		CPU: (spent.cpu - usedBefore.cpu).Seconds(), Goroutines: settled(before),
	}
}

package worker

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/bench/peer"
)

// holders is the number of goroutines that acquire the held leases.
const holders = 128

// hold acquires all locks.
func hold(ctx context.Context, locks []peer.Lock) error {
	var next atomic.Int64
	errs := make(chan error, holders)
	for range holders {
		go func() { errs <- holdFrom(ctx, locks, &next) }()
	}
	var err error
	for range holders {
		if e := <-errs; e != nil {
			err = e
		}
	}
	return err
}

func holdFrom(ctx context.Context, locks []peer.Lock, next *atomic.Int64) error {
	for {
		i := int(next.Add(1)) - 1
		if i >= len(locks) {
			return nil
		}
		if err := locks[i].Acquire(ctx); err != nil {
			return fmt.Errorf("hold lock %d: %w", i, err)
		}
	}
}

// watch waits while the leases renew themselves, and counts the lost ones.
func (w *worker) watch() *Outcome {
	time.Sleep(w.Cell.Settle)
	before, renewals := used(), w.renewals.Load()
	began := time.Now()
	time.Sleep(w.Cell.Duration)
	spent := used()
	o := &Outcome{
		Seconds: time.Since(began).Seconds(), Renewals: w.renewals.Load() - renewals,
		Mallocs: spent.mallocs - before.mallocs, Bytes: spent.bytes - before.bytes,
		CPU:  (spent.cpu - before.cpu).Seconds(),
		Heap: heap() - w.heap, Goroutines: goroutines(),
	}
	o.Lost = lost(w.locks)
	giveBack(w.locks)
	return o
}

// lost counts the acquired locks that are no longer held.
func lost(locks []peer.Lock) (n int64) {
	for _, lock := range locks {
		if c, can := lock.(peer.Checker); can && !c.Valid() {
			n++
		}
	}
	return n
}

func giveBack(locks []peer.Lock) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range holders {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(locks) {
					return
				}
				_ = locks[i].Release(context.Background()) // a lost lease is already counted
			}
		})
	}
	all.Wait()
}

package worker

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/bench/cell"
)

// load runs callers that acquire and release locks until the end.
type load struct {
	*worker
	rules                   []rule // of the locks
	acquire, release, delay *cell.Histogram

	began    atomic.Pointer[time.Time] // of the measured time
	stop     atomic.Bool
	measured atomic.Bool
	running  atomic.Int64

	ops, all, failures, violations, switches atomic.Int64

	grants   []atomic.Int64
	timeline []atomic.Int64
	pause    pause

	mu      sync.Mutex
	failure error // the first error of a caller
}

func newLoad(w *worker) *load {
	l := &load{
		worker:  w,
		acquire: cell.NewHistogram(), release: cell.NewHistogram(), delay: cell.NewHistogram(),
		grants:   make([]atomic.Int64, w.callers()),
		timeline: make([]atomic.Int64, w.Cell.Duration/cell.Step),
	}
	for i := range w.locks {
		l.rules = append(l.rules, w.newRule(i))
	}
	return l
}

func (l *load) run(before int64) (*Outcome, error) {
	// Contended callers need a context that can be cancelled, to end their wait. The others get one that cannot end,
	// because some clients are faster with it.
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if l.Cell.Load.Contended() {
		ctx, cancel = context.WithCancel(ctx)
	}
	defer cancel()

	usedBefore := used()
	var all sync.WaitGroup
	for i := range l.locks {
		l.running.Add(1)
		all.Go(func() {
			defer l.running.Add(-1)
			l.caller(ctx, i)
		})
	}
	o := l.measure()
	l.stop.Store(true)
	cancel()
	l.awaitCallers(&all)
	spent := used()
	o.Lost = lost(l.beside)
	giveBack(l.beside)

	o.Mallocs, o.Bytes = spent.mallocs-usedBefore.mallocs, spent.bytes-usedBefore.bytes
	o.CPU = (spent.cpu - usedBefore.cpu).Seconds()
	err := l.sum(o) // before waiting for the remaining callers, which would distort it
	o.Goroutines = settled(before)
	return o, err
}

// measure lets the callers settle, and then counts their operations for a while.
func (l *load) measure() *Outcome {
	time.Sleep(l.Cell.Settle)
	began := time.Now()
	o := &Outcome{Began: cell.Now()}
	l.pause.begin(o.Began)
	l.began.Store(&began)
	l.measured.Store(true)
	time.Sleep(l.Cell.Duration)
	l.measured.Store(false)
	o.Seconds = time.Since(began).Seconds()
	o.Ops = l.ops.Load()
	l.pause.ended(cell.Now())
	return o
}

// sum adds up the counters of all callers.
func (l *load) sum(o *Outcome) error {
	o.Pause, o.AllOps = l.pause.longest.Load(), l.all.Load()
	o.Failures, o.Unfinished = l.failures.Load(), l.running.Load()
	o.Violations, o.Switches = l.violations.Load(), l.switches.Load()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failure != nil {
		o.FirstFailure = l.failure.Error()
	}
	for i := range l.grants {
		o.Grants = append(o.Grants, l.grants[i].Load())
	}
	for i := range l.timeline {
		o.Timeline = append(o.Timeline, l.timeline[i].Load())
	}
	return l.encode(o)
}

func (l *load) encode(o *Outcome) error {
	var errs [3]error
	o.Acquire, errs[0] = l.acquire.Encode()
	o.Release, errs[1] = l.release.Encode()
	o.Delay, errs[2] = l.delay.Encode()
	return errors.Join(errs[:]...)
}

// awaitCallers waits for the callers, at most for the grace period.
func (l *load) awaitCallers(all *sync.WaitGroup) {
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(grace):
	}
}

// caller acquires and releases its lock until the end.
func (l *load) caller(ctx context.Context, i int) {
	lasting := context.WithoutCancel(ctx)
	for !l.stop.Load() {
		number, err := l.operate(ctx, lasting, i)
		switch {
		case err != nil && !l.stop.Load():
			l.failed(err)
			time.Sleep(time.Millisecond)
		case err == nil && l.Cell.Load == cell.Pass:
			l.letPass(i, number)
		}
	}
}

// letPass waits until another caller has held the lock. It polls less and less often, to leave the processor to the
// callers that are about to acquire.
func (l *load) letPass(i int, number int64) {
	const least, part = 20 * time.Microsecond, 8
	for began := time.Now(); !l.stop.Load() && l.witness.grantsOf(l.slot(i)) == number; {
		time.Sleep(max(least, time.Since(began)/part))
	}
}

// operate runs one operation and returns the number of its grant. A lock that was granted when ctx ended is released
// with the context lasting, which does not end.
func (l *load) operate(ctx, lasting context.Context, i int) (number int64, err error) {
	lock, rule, weight := l.locks[i], l.rules[i], l.weight()
	rule.wants()
	start := time.Now()
	if err := lock.Acquire(ctx); err != nil {
		return 0, err
	}
	acquired := time.Now()
	g := rule.entered()
	if !g.allowed {
		l.violations.Add(1)
	}
	rule.leaving()
	releasing := time.Now()
	err = lock.Release(lasting)
	released := time.Now()
	if err != nil {
		l.failed(err)
	}
	l.all.Add(int64(weight))
	began := l.began.Load()
	if began == nil || start.Before(*began) {
		return g.number, nil
	}
	l.acquire.Record(i, acquired.Sub(start), weight)
	l.release.Record(i, released.Sub(releasing), weight)
	if g.sinceRelease > 0 && l.Cell.Load.Contended() {
		l.delay.Record(i, time.Duration(g.sinceRelease), 1)
	}
	if l.measured.Load() {
		l.count(i, g, released.Sub(*began))
	}
	return g.number, nil
}

// count records an operation that ended at the given time after the begin of the measured time.
func (l *load) count(i int, g grant, after time.Duration) {
	n := int64(l.weight())
	l.ops.Add(n)
	l.pause.ended(cell.Now())
	l.grants[i].Add(n)
	if g.switched {
		l.switches.Add(1)
	}
	if at := int(after / cell.Step); at < len(l.timeline) {
		l.timeline[at].Add(n)
	}
}

// failed counts a call that returned an error, and keeps the first error.
func (l *load) failed(err error) {
	l.failures.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failure == nil {
		l.failure = err
	}
}

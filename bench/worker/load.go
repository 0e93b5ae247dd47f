package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/bench/cell"
	"github.com/quorumlock/quorumlock/bench/peer"
)

const (
	// grace is how long callers may take to return after the end.
	grace = 3 * time.Second
	// lateness is how much later than this worker another one may end.
	lateness = 300 * time.Millisecond
)

// load runs callers that acquire and release locks until the end.
type load struct {
	*worker
	callers []*caller

	acquire, release, delay *cell.Histogram

	stop     atomic.Bool
	measured atomic.Bool
	running  atomic.Int64

	ops, all, failures, gaveUp, violations atomic.Int64

	mu      sync.Mutex
	failure error // the first error of a caller
}

func newLoad(w *worker) *load {
	l := &load{worker: w, acquire: cell.NewHistogram(), release: cell.NewHistogram(), delay: cell.NewHistogram()}
	n := w.Callers
	if w.Cell.Load == cell.Hold {
		n = 0
	}
	for i := range n {
		c := &caller{load: l, number: w.First + i, slot: w.First + i}
		if w.Cell.Load.Contended() {
			c.slot = 0
		}
		c.lock = w.client.Lock(cell.LockName(c.slot), c.number)
		l.callers = append(l.callers, c)
	}
	return l
}

func (l *load) run() (*cell.Outcome, error) {
	// Callers that may wait need a context that can be cancelled, to end their wait. The others get one that cannot end,
	// because some clients are faster with it.
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if l.Cell.Load.Contended() || l.Cell.Load.Waits() {
		ctx, cancel = context.WithCancel(ctx)
	}
	defer cancel()

	usedBefore := used()
	var all sync.WaitGroup
	for _, c := range l.callers {
		l.running.Add(1)
		all.Go(func() {
			defer l.running.Add(-1)
			c.run(ctx)
		})
	}
	o := l.measure()
	l.stop.Store(true)
	cancel()
	within(grace, all.Wait)
	spent := used()
	o.Mallocs = spent.mallocs - usedBefore.mallocs
	o.CPU = (spent.cpu - usedBefore.cpu).Seconds()
	o.Transfers, o.Wakeups = spent.transfers-usedBefore.transfers, spent.wakeups-usedBefore.wakeups
	err := l.sum(o) // before the rest, which would distort it
	if l.Cell.Load == cell.Hold {
		o.Heap = heap() - l.heap
	}
	if l.Holder {
		time.Sleep(lateness) // otherwise the waiters of another worker could acquire it
		for i := range l.leases {
			l.witness.leave(i)
		}
	}
	o.Lost = l.giveBack()
	return o, err
}

// measure lets the callers settle, and then counts their operations for a while.
func (l *load) measure() *cell.Outcome {
	time.Sleep(l.Cell.Settle)
	began, renewals := time.Now(), l.renewals.Load()
	l.measured.Store(true)
	time.Sleep(l.Cell.Duration)
	l.measured.Store(false)
	o := &cell.Outcome{Seconds: time.Since(began).Seconds(), Ops: l.ops.Load(), Renewals: l.renewals.Load() - renewals}
	if l.Cell.Load.Waits() {
		time.Sleep(cell.Overtime)
	}
	return o
}

func (l *load) sum(o *cell.Outcome) error {
	o.AllOps, o.GaveUp = l.all.Load(), l.gaveUp.Load()
	o.Failures, o.Unfinished = l.failures.Load(), l.running.Load()
	o.Violations = l.violations.Load()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failure != nil {
		o.FirstFailure = l.failure.Error()
	}
	for _, c := range l.callers {
		o.Grants = append(o.Grants, c.grants.Load())
	}
	var errs [3]error
	o.AcquireTimes, errs[0] = l.acquire.Encode()
	o.ReleaseTimes, errs[1] = l.release.Encode()
	o.DelayTimes, errs[2] = l.delay.Encode()
	return errors.Join(errs[:]...)
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

type caller struct {
	*load
	number int // among all callers of the cell
	lock   peer.Lock
	slot   int          // of the lock, in the witness
	grants atomic.Int64 // in the measured time
	calls  int          // of Acquire
}

func (c *caller) run(ctx context.Context) {
	lasting := context.WithoutCancel(ctx)
	for !c.stop.Load() {
		number, err := c.operate(ctx, lasting)
		switch {
		case err != nil && !c.stop.Load():
			c.failed(err)
			time.Sleep(time.Millisecond)
		case err == nil && c.Cell.Load == cell.Pass:
			c.letPass(number)
		}
	}
}

// letPass waits until another caller has held the lock. It polls less and less often, to leave the processor to the
// callers that are about to acquire. In a process that has nothing else to do, time.Sleep takes a millisecond at least,
// in which fast peers pass the lock several times. So the system measures the pause.
func (c *caller) letPass(number int64) {
	const least, part = 20 * time.Microsecond, 8
	for began := time.Now(); !c.stop.Load() && c.witness.grantsOf(c.slot) == number; {
		pause := unix.NsecToTimeval(int64(max(least, time.Since(began)/part)))
		_, _ = unix.Select(0, nil, nil, nil, &pause) // if a signal ends it, this looks again
	}
}

// operate runs one operation and returns the number of its grant, or 0 if it has none. A lock that was granted when ctx
// ended is released with the context lasting, which does not end.
func (c *caller) operate(ctx, lasting context.Context) (number int64, err error) {
	if c.Cell.Load == cell.Deny {
		return 0, c.ask(ctx)
	}
	measured := c.measured.Load()
	start := time.Now()
	if c.calls++; c.Cell.Load == cell.NewNames {
		c.lock = c.client.Lock(fmt.Sprintf("bench:new:%d:%d", c.number, c.calls), c.number)
	}
	if c.Cell.Patience > 0 {
		brief, cancel := context.WithTimeout(ctx, c.Cell.Patience)
		defer cancel()
		ctx = brief
	}
	switch err := c.lock.Acquire(ctx); {
	case err != nil && c.Cell.Patience > 0 && ctx.Err() != nil:
		if measured {
			c.gaveUp.Add(1)
		}
		return 0, nil
	case err != nil:
		return 0, err
	}
	acquired := time.Now()
	g := c.witness.enter(c.slot)
	if !g.allowed {
		c.violations.Add(1)
	}
	c.witness.leave(c.slot)
	releasing := time.Now()
	err = c.lock.Release(lasting)
	released := time.Now()
	if err != nil {
		c.failed(err)
	}
	c.all.Add(1)
	if !measured {
		return g.number, nil
	}
	// The times of an operation count if it began in the measured time. It may end later: to leave it out then would
	// hide the slow ones.
	c.acquire.Record(acquired.Sub(start))
	c.release.Record(released.Sub(releasing))
	if g.sinceRelease > 0 && c.Cell.Load.Contended() {
		c.delay.Record(time.Duration(g.sinceRelease))
	}
	if c.measured.Load() { // it ended in the measured time
		c.ops.Add(1)
		c.grants.Add(1)
	}
	return g.number, nil
}

// ask asks for what another process holds, and counts the denial.
func (c *caller) ask(ctx context.Context) error {
	measured, start := c.measured.Load(), time.Now()
	denied, err := c.lock.(peer.Trier).Try(ctx)
	switch {
	case err != nil:
		return err
	case !denied && !c.stop.Load():
		c.violations.Add(1)
	}
	c.all.Add(1)
	if measured && c.measured.Load() {
		c.acquire.Record(time.Since(start))
		c.ops.Add(1)
	}
	return nil
}

// usage is the resources that this process has used so far.
type usage struct {
	mallocs            uint64
	cpu                time.Duration
	transfers, wakeups int64
}

func used() usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var r unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &r) // it cannot fail
	return usage{
		mallocs:   m.Mallocs,
		cpu:       time.Duration(r.Utime.Nano() + r.Stime.Nano()),
		transfers: transfers(),
		wakeups:   int64(r.Nvcsw),
	}
}

// transfers counts the read and write calls of this process, which Linux counts.
func transfers() (n int64) {
	text, _ := os.ReadFile("/proc/self/io")
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), ": "); name == "syscr" || name == "syscw" {
			calls, _ := strconv.ParseInt(value, 10, 64)
			n += calls
		}
	}
	return n
}

// Package worker is the child process that runs the clients of one cell. A process of its own keeps cells apart, and
// makes the cost of a client measurable.
//
// A worker and the runner exchange lines of JSON. The worker reads a [Job] and opens its client. It writes three
// messages, each a [cell.Outcome]: when the client is connected, when the load is over, and when the client is closed.
// The first and the last only have the number of goroutines. After each of the first two messages, the worker waits
// for a line. It ends when its input ends.
package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/bench/cell"
	"github.com/quorumlock/quorumlock/bench/peer"
)

// Env is the environment variable that makes a program which calls [Main] a worker.
const Env = "QUORUMLOCK_BENCH_WORKER"

// Job tells one worker its part of a cell.
type Job struct {
	Cell cell.Cell `json:"cell"`
	// Index is the number of the worker among the processes of the cell. It runs Callers callers, numbered from
	// First.
	Index   int `json:"index"`
	First   int `json:"first"`
	Callers int `json:"callers"`
	// Holder marks a worker without callers. It holds what the other workers wait for.
	Holder    bool     `json:"holder"`
	Addresses []string `json:"addresses"`
	// WitnessFile is the path of the file that backs the [Witness].
	WitnessFile string `json:"witnessFile"`
}

// Main turns the process into a worker, and exits when the worker ends, if [Env] is set.
func Main() {
	if os.Getenv(Env) == "" {
		return
	}
	if err := work(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

const (
	openTimeout  = 20 * time.Second
	closeTimeout = 3 * time.Second
)

type worker struct {
	Job
	peer     peer.Peer
	client   peer.Client
	witness  *Witness
	leases   []peer.Lock // held all the time
	heap     int64       // with a connected client, before any lock
	renewals atomic.Int64
}

func work(in io.Reader, out io.Writer) error {
	lines, say := bufio.NewReader(in), json.NewEncoder(out)
	// turn writes a message, and waits until the runner wants the next.
	turn := func(o cell.Outcome) error {
		if err := say.Encode(o); err != nil {
			return err
		}
		_, err := lines.ReadBytes('\n')
		return err
	}
	w := new(worker)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	if err := json.Unmarshal(line, &w.Job); err != nil {
		return err
	}
	atFirst := goroutines()
	if err := w.open(); err != nil {
		return err
	}
	opened := goroutines()
	if err := turn(cell.Outcome{Goroutines: opened}); err != nil {
		return err
	}
	o, err := newLoad(w).run()
	if err != nil {
		return err
	}
	o.Goroutines = settled(opened)
	if err := turn(*o); err != nil {
		return err
	}
	w.close()
	return say.Encode(cell.Outcome{Goroutines: settled(atFirst)})
}

func (w *worker) open() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	if w.peer, err = peer.Find(w.Cell.Peer); err != nil {
		return err
	}
	if w.witness, err = OpenWitness(w.WitnessFile); err != nil {
		return err
	}
	o := peer.Options{Addresses: w.Addresses, TTL: w.Cell.TTL}
	switch {
	case w.Cell.Load.Contended(), w.Cell.Load.Waits():
		o.Contenders = w.Cell.Callers
	case w.Cell.Load == cell.Hold:
		o.Renewed = func() { w.renewals.Add(1) }
	}
	if w.client, err = w.peer.Open(ctx, o); err != nil {
		return fmt.Errorf("%s: open a client: %w", w.peer.Name, err)
	}
	// The first acquire and release make the client connect to the nodes.
	for try := 0; ; try++ {
		first := w.client.Lock(fmt.Sprintf("bench:prepare:%d:%d", w.Index, try), peer.NoCaller)
		if err := first.Acquire(ctx); err != nil {
			return fmt.Errorf("the first acquire: %w", err)
		}
		// On a busy machine a release may time out. Another name is tried until one is released.
		err := first.Release(ctx)
		if err == nil {
			return w.hold()
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the first release: %w", err)
		}
	}
}

// holders is the number of goroutines that acquire and release the held leases.
const holders = 128

// hold acquires the locks that this worker holds all the time. Their context does not end: a lease would end with it.
func (w *worker) hold() error {
	n := 0
	switch {
	case w.Cell.Load == cell.Hold:
		n, w.heap = w.Callers, heap()
	case w.Holder && w.Cell.Load == cell.WaitApart:
		n = w.Cell.Callers
	case w.Holder:
		n = 1
	}
	for i := range n {
		w.leases = append(w.leases, w.client.Lock(cell.LockName(w.First+i), peer.NoCaller))
		if w.Holder {
			w.witness.enter(i)
		}
	}
	return w.eachLease(func(lock peer.Lock) error { return lock.Acquire(context.Background()) })
}

// eachLease does the same with all held leases, many at a time.
func (w *worker) eachLease(do func(peer.Lock) error) error {
	var next atomic.Int64
	errs := make([]error, holders)
	var all sync.WaitGroup
	for h := range holders {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(w.leases)) && errs[h] == nil; i = next.Add(1) - 1 {
				errs[h] = do(w.leases[i])
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// giveBack counts the leases that were lost, and releases all.
func (w *worker) giveBack() (lost int64) {
	for _, lock := range w.leases {
		if c, can := lock.(peer.Checker); can && !c.Valid() {
			lost++
		}
	}
	_ = w.eachLease(func(lock peer.Lock) error {
		_ = lock.Release(context.Background()) // a lost lease is already counted
		return nil
	})
	return lost
}

// close closes the client, unless that takes too long. The number of goroutines shows it.
func (w *worker) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	within(closeTimeout, func() { _ = w.client.Close(ctx) })
}

// within runs a function, and returns when it is done, or when a time is over.
func within(most time.Duration, do func()) {
	done := make(chan struct{})
	go func() {
		do()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(most):
	}
}

// heap returns the heap in use after a garbage collection.
func heap() int64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// settled waits briefly for goroutines that are about to end, and returns the number that remain.
func settled(most int64) int64 {
	const patience, look = time.Second, 5 * time.Millisecond
	for deadline := time.Now().Add(patience); time.Now().Before(deadline) && goroutines() > most; {
		time.Sleep(look)
	}
	return goroutines()
}

func goroutines() int64 { return int64(runtime.NumGoroutine()) }

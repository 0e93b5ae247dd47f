package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/bench/cell"
	"github.com/quorumlock/quorumlock/bench/peer"
)

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
	// grace is how long callers may take to return after the end.
	grace = 3 * time.Second
)

type worker struct {
	Job
	peer     peer.Peer
	client   peer.Client
	locks    []peer.Lock // one for each caller
	witness  *Witness
	renewals atomic.Int64
	heap     int64       // with a connected client, before any lock
	held     peer.Lock   // the lock that other workers wait for
	beside   []peer.Lock // leases held beside the load
}

func work(in io.Reader, out io.Writer) error {
	lines, say := bufio.NewReader(in), json.NewEncoder(out)
	w := new(worker)
	if err := listen(lines, &w.Job); err != nil {
		return err
	}
	atFirst := goroutines()
	if err := w.open(); err != nil {
		return err
	}
	ready := Ready{Goroutines: goroutines()}
	if err := errors.Join(say.Encode(ready), listen(lines, nil)); err != nil {
		return err
	}
	outcome, err := w.run(ready.Goroutines)
	if err == nil {
		err = errors.Join(say.Encode(outcome), listen(lines, nil))
	}
	if err != nil {
		return err
	}
	return say.Encode(w.close(atFirst))
}

// listen reads a line, and decodes it unless into is nil.
func listen(lines *bufio.Reader, into any) error {
	line, err := lines.ReadBytes('\n')
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(line, into)
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
	if w.Cell.Load.Contended() {
		o.Contenders = w.Cell.Callers
	}
	if w.Cell.Load == cell.Hold {
		o.Renewed = func() { w.renewals.Add(1) }
	}
	if w.client, err = w.peer.Open(ctx, o); err != nil {
		return fmt.Errorf("%s: open a client: %w", w.peer.Name, err)
	}
	if err := w.connect(ctx); err != nil {
		return err
	}
	if w.Cell.Load == cell.Hold {
		w.heap = heap()
	}
	for i := range w.callers() {
		w.locks = append(w.locks, w.newLock(i))
	}
	return w.prepare()
}

// callers returns the number of callers here: one, for a peer that acquires locks in batches.
func (w *worker) callers() int {
	if _, batches := w.client.(peer.Batcher); batches {
		return 1
	}
	return w.Callers
}

// weight is the number of operations in one call of a caller.
func (w *worker) weight() int { return w.Callers / w.callers() }

func (w *worker) newLock(i int) peer.Lock {
	if b, batches := w.client.(peer.Batcher); batches {
		var names []string
		for i := range w.Callers {
			names = append(names, w.name(i))
		}
		return b.Batch(names)
	}
	lock := w.client.Lock(w.name(i))
	if n, can := lock.(peer.Numbered); can {
		n.Number(w.First + i)
	}
	return lock
}

// name returns the name of a caller's lock, and slot its slot of the witness.
func (w *worker) name(i int) string { return cell.LockName(w.slot(i)) }

func (w *worker) slot(i int) int {
	if w.Cell.Load.Contended() {
		return 0
	}
	return w.First + i
}

// connect makes the client connect to the nodes, by a first acquire and release.
func (w *worker) connect(ctx context.Context) error {
	first := w.client.Lock(fmt.Sprintf("bench:prepare:%d", w.Index))
	if err := first.Acquire(ctx); err != nil {
		return fmt.Errorf("the first acquire: %w", err)
	}
	if err := first.Release(ctx); err != nil {
		return fmt.Errorf("the first release: %w", err)
	}
	return nil
}

// prepare acquires the locks that are held during the load.
func (w *worker) prepare() error {
	lasting := context.Background() // a held lease would keep a context that ends
	switch {
	case w.Cell.Load == cell.Hold:
		return hold(lasting, w.locks)
	case w.Holder:
		w.held = w.client.Lock(cell.LockName(0))
		return w.held.Acquire(lasting)
	case w.Cell.Held > 0 && w.peer.Renews:
		for i := range w.Cell.Held {
			w.beside = append(w.beside, w.client.Lock(fmt.Sprintf("bench:held:%d:%d", w.Index, i)))
		}
		return hold(lasting, w.beside)
	}
	return nil
}

func (w *worker) run(before int64) (*Outcome, error) {
	switch w.Cell.Load {
	case cell.Hold:
		return w.watch(), nil
	case cell.Wait:
		return w.await(before), nil
	default:
		return newLoad(w).run(before)
	}
}

func (w *worker) close(atFirst int64) Closed {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- w.client.Close(ctx) }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = errors.New("the client does not close")
	}
	c := Closed{Goroutines: settled(atFirst)}
	if err != nil {
		c.Error = err.Error()
	}
	return c
}

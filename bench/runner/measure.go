package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/bench/cell"
	"github.com/quorumlock/quorumlock/bench/cluster"
	"github.com/quorumlock/quorumlock/bench/peer"
	"github.com/quorumlock/quorumlock/bench/worker"
)

func measure(ctx context.Context, o Options, c cell.Cell) cell.Result {
	m := &measurement{cell: c, patience: c.TTL}
	if o.Quick {
		m.patience = time.Second
	}
	result, err := m.run(ctx)
	if result == nil {
		result = &cell.Result{}
	}
	result.Cell = c
	if err := errors.Join(err, m.close()); err != nil {
		result.Error = err.Error()
	}
	return *result
}

type measurement struct {
	cell    cell.Cell
	peer    peer.Peer
	nodes   *cluster.Cluster
	dir     string
	workers []*child
	// patience is how long remaining keys may take to expire. A node that was broken has keys that must; one that was
	// well may only be behind.
	patience time.Duration
}

func (m *measurement) run(ctx context.Context) (*cell.Result, error) {
	if err := m.start(ctx); err != nil {
		return nil, err
	}
	ready, err := m.hear("begin", m.startTimeout())
	if err != nil {
		return nil, err
	}
	before := m.nodes.Snapshot(ctx)
	began := time.Now()
	if err := m.say(); err != nil {
		return nil, err
	}
	// Loads that only pass time are measured by their steady cost alone.
	steady := m.cell.Load.Waits() || m.cell.Load == cell.Hold
	time.Sleep(m.cell.Settle)
	if steady {
		before, began = m.nodes.Snapshot(ctx), time.Now()
	}
	if err := m.nodes.Break(m.cell.Fault, m.cell.Bad); err != nil {
		return nil, err
	}
	var after cluster.Snapshot
	if steady {
		time.Sleep(m.cell.Duration)
		after = m.nodes.Snapshot(ctx)
	}
	passed := time.Since(began)
	outcomes, err := m.hear("measure", m.cell.Settle+m.cell.Duration+runTimeout)
	if err != nil {
		return nil, err
	}
	if !steady {
		after, passed = m.nodes.Snapshot(ctx), time.Since(began)
	}
	r, err := merge(m.cell, ready, outcomes)
	if err != nil {
		return nil, err
	}
	r.Work, r.Passed = after.Since(before, m.peer.Plain), passed
	return r, m.finish(ctx, r)
}

func merge(c cell.Cell, ready, outcomes []cell.Outcome) (*cell.Result, error) {
	r := &cell.Result{Cell: c}
	for _, x := range ready {
		r.GoroutinesBefore += x.Goroutines
	}
	var times [3][][]byte
	for _, o := range outcomes {
		r.Add(o)
		for i, encoded := range [][]byte{o.AcquireTimes, o.ReleaseTimes, o.DelayTimes} {
			if encoded != nil {
				times[i] = append(times[i], encoded)
			}
		}
	}
	var errs [3]error
	r.Acquire, errs[0] = cell.Summarise(times[0])
	r.Release, errs[1] = cell.Summarise(times[1])
	r.Delay, errs[2] = cell.Summarise(times[2])
	return r, errors.Join(errs[:]...)
}

const (
	runTimeout   = 60 * time.Second
	closeTimeout = 30 * time.Second
)

// startTimeout grows with the number of leases to acquire first, because the machine may be busy.
func (m *measurement) startTimeout() time.Duration {
	const usual, perLease = 2 * time.Minute, 5 * time.Millisecond
	if m.cell.Load == cell.Hold {
		return usual + time.Duration(m.cell.Callers)*perLease
	}
	return usual
}

func (m *measurement) start(ctx context.Context) (err error) {
	if m.peer, err = peer.Find(m.cell.Peer); err != nil {
		return err
	}
	if m.nodes, err = cluster.Start(ctx, m.cell.Nodes, m.cell.Fault, m.cell.Bad); err != nil {
		return err
	}
	addresses := m.nodes.Addresses()
	if m.peer.Ours {
		cfg := peer.Config(peer.Options{Addresses: addresses, TTL: m.cell.TTL})
		if _, err := admin.Init(ctx, cfg); err != nil {
			return fmt.Errorf("open the nodes: %w", err)
		}
	}
	if m.dir, err = os.MkdirTemp("", "bench-"); err != nil {
		return err
	}
	witness := filepath.Join(m.dir, "witness")
	if err := worker.CreateWitness(witness, m.cell.Callers); err != nil {
		return err
	}
	for _, job := range jobs(m.cell) {
		job.Addresses, job.WitnessFile = addresses, witness
		w, err := startChild(job)
		if err != nil {
			return err
		}
		m.workers = append(m.workers, w)
	}
	return nil
}

// jobs returns the jobs of a cell's workers. What others wait for is held by a worker of its own: waiting for a lock of
// the same process may cost nothing.
func jobs(c cell.Cell) (jobs []worker.Job) {
	for i := range c.Processes {
		first, next := i*c.Callers/c.Processes, (i+1)*c.Callers/c.Processes
		jobs = append(jobs, worker.Job{Cell: c, Index: i, First: first, Callers: next - first})
	}
	if c.Load.Held() {
		jobs = append(jobs, worker.Job{Cell: c, Index: c.Processes, Holder: true})
	}
	return jobs
}

func (m *measurement) say() error {
	var errs []error
	for _, w := range m.workers {
		errs = append(errs, w.say())
	}
	return errors.Join(errs...)
}

func (m *measurement) hear(what string, patience time.Duration) ([]cell.Outcome, error) {
	said := make([]cell.Outcome, len(m.workers))
	deadline := time.Now().Add(patience)
	for i, w := range m.workers {
		if err := w.hear(&said[i], deadline); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
	}
	return said, nil
}

// finish repairs the nodes, counts the remaining keys, and closes the clients.
func (m *measurement) finish(ctx context.Context, r *cell.Result) error {
	if err := m.nodes.Mend(ctx, m.cell.Bad); err != nil {
		return err
	}
	if err := m.countKeys(ctx, r); err != nil {
		return err
	}
	if err := m.say(); err != nil {
		return err
	}
	closed, err := m.hear("close", closeTimeout)
	for _, c := range closed {
		r.GoroutinesClosed += c.Goroutines
	}
	return err
}

// keyPause is how long stragglers may take.
const keyPause = 300 * time.Millisecond

// countKeys counts the remaining keys, again and again until they have had time to expire.
func (m *measurement) countKeys(ctx context.Context, r *cell.Result) (err error) {
	time.Sleep(keyPause)
	deadline := time.Now().Add(m.patience)
	r.KeysLeft, err = m.nodes.Keys(ctx)
	for err == nil && r.KeysLeft > 0 && time.Now().Before(deadline) && ctx.Err() == nil {
		time.Sleep(keyPause)
		r.KeysLeft, err = m.nodes.Keys(ctx)
	}
	return err
}

func (m *measurement) close() error {
	var errs []error
	for _, w := range m.workers {
		w.close()
	}
	if m.nodes != nil {
		errs = append(errs, m.nodes.Close())
	}
	if m.dir != "" {
		errs = append(errs, os.RemoveAll(m.dir))
	}
	return errors.Join(errs...)
}

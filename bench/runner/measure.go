package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/quorumlock/quorumlock/bench/cell"
	"github.com/quorumlock/quorumlock/bench/cluster"
	"github.com/quorumlock/quorumlock/bench/peer"
	"github.com/quorumlock/quorumlock/bench/worker"
)

// measure runs one cell with its own servers and workers.
func measure(ctx context.Context, o Options, c cell.Cell) cell.Result {
	m := &measurement{cell: c, patience: keyPatience(o, c)}
	result, err := m.run(ctx, o.Source)
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
	nodes   *cluster.Cluster // nil where the peer has a server of its own
	etcd    *cluster.Etcd
	dir     string
	workers []*child
	// patience is how long remaining keys may take to expire.
	patience time.Duration
}

// keyPatience is a TTL where nodes are broken, because the keys on them must expire. Healthy nodes need less: a node
// may only be a little behind.
func keyPatience(o Options, c cell.Cell) time.Duration {
	if c.Fault == cluster.None || o.Quick {
		return time.Second
	}
	return c.TTL
}

func (m *measurement) run(ctx context.Context, source cluster.Source) (*cell.Result, error) {
	if err := m.start(ctx, source); err != nil {
		return nil, err
	}
	ready, err := heard[worker.Ready](m, "begin", m.startTimeout())
	if err != nil {
		return nil, err
	}
	before := m.snapshot(ctx)
	began := time.Now()
	if err := m.say(); err != nil {
		return nil, err
	}
	// Loads that only pass time are measured by their steady cost alone.
	steady := m.cell.Load == cell.Wait || m.cell.Load == cell.Hold
	time.Sleep(m.cell.Settle)
	if steady {
		before, began = m.snapshot(ctx), time.Now()
	}
	broken, err := m.breakNodes(ctx)
	if err != nil {
		return nil, err
	}
	var after cluster.Snapshot
	if steady {
		time.Sleep(m.cell.Duration)
		after = m.snapshot(ctx)
	}
	passed := time.Since(began)
	outcomes, err := heard[worker.Outcome](m, "measure", m.cell.Settle+m.cell.Duration+runTimeout)
	if err != nil {
		return nil, err
	}
	if !steady {
		after, passed = m.snapshot(ctx), time.Since(began)
	}
	r, err := merge(m.cell, ready, outcomes, after.Since(before, m.peer.Plain), passed)
	if err != nil {
		return nil, err
	}
	if broken != nil {
		r.Recovery = broken.of(outcomes[0].Began, time.Duration(outcomes[0].Pause).Seconds(), r.Timeline)
	}
	return r, m.finish(ctx, r)
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

func (m *measurement) start(ctx context.Context, source cluster.Source) (err error) {
	if m.peer, err = peer.Find(m.cell.Peer); err != nil {
		return err
	}
	var addresses []string
	if m.peer.Kind == peer.Apart {
		if m.etcd, err = cluster.StartEtcd(ctx); err != nil {
			return err
		}
		addresses = []string{m.etcd.Address()}
	} else {
		if m.nodes, err = cluster.Start(ctx, source, m.nodeCount(), m.cell.Fault, m.cell.Bad); err != nil {
			return err
		}
		addresses = m.nodes.Addresses()
	}
	if m.peer.Marked {
		cfg := peer.Config(peer.Options{Addresses: addresses, TTL: m.cell.TTL})
		if err := m.nodes.Mark(ctx, cfg); err != nil {
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
		w, err := startChild(m.peer, job)
		if err != nil {
			return err
		}
		m.workers = append(m.workers, w)
	}
	return nil
}

// jobs returns the jobs of a cell's workers. The lock that others wait for is held by a worker of its own: waiting
// for a lock of the same process may cost nothing.
func jobs(c cell.Cell) (jobs []worker.Job) {
	for i := range c.Processes {
		first, next := i*c.Callers/c.Processes, (i+1)*c.Callers/c.Processes
		jobs = append(jobs, worker.Job{Cell: c, Index: i, First: first, Callers: next - first})
	}
	if c.Load == cell.Wait {
		jobs = append(jobs, worker.Job{Cell: c, Index: c.Processes, Holder: true})
	}
	return jobs
}

// nodeCount is the number of nodes that the peer uses.
func (m *measurement) nodeCount() int {
	if m.peer.Most > 0 {
		return min(m.peer.Most, m.cell.Nodes)
	}
	return m.cell.Nodes
}

func (m *measurement) snapshot(ctx context.Context) cluster.Snapshot {
	if m.nodes == nil {
		return nil
	}
	return m.nodes.Snapshot(ctx)
}

// say tells all workers to continue.
func (m *measurement) say() error {
	var errs []error
	for _, w := range m.workers {
		errs = append(errs, w.say())
	}
	return errors.Join(errs...)
}

// heard returns the next message of each worker.
func heard[T any](m *measurement, what string, patience time.Duration) ([]T, error) {
	said := make([]T, len(m.workers))
	deadline := time.Now().Add(patience)
	for i, w := range m.workers {
		if err := w.hear(&said[i], time.Until(deadline)); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
	}
	return said, nil
}

// finish repairs the nodes, counts the remaining keys, and closes the clients.
func (m *measurement) finish(ctx context.Context, r *cell.Result) error {
	if m.nodes != nil {
		if err := m.nodes.Mend(ctx, m.cell.Fault, m.cell.Bad); err != nil {
			return err
		}
		if err := m.countKeys(ctx, r); err != nil {
			return err
		}
	}
	if err := m.say(); err != nil {
		return err
	}
	closed, err := heard[worker.Closed](m, "close", closeTimeout)
	for _, c := range closed {
		r.GoroutinesClosed += c.Goroutines
	}
	return err
}

// keyPause is how long stragglers may take.
const keyPause = 300 * time.Millisecond

// countKeys counts the remaining keys at once, and again when they have had time to expire.
func (m *measurement) countKeys(ctx context.Context, r *cell.Result) (err error) {
	time.Sleep(keyPause)
	deadline := time.Now().Add(m.patience)
	r.KeysAfter, err = m.nodes.Keys(ctx)
	r.KeysLeft = r.KeysAfter
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
	if m.etcd != nil {
		errs = append(errs, m.etcd.Close())
	}
	if m.dir != "" {
		errs = append(errs, os.RemoveAll(m.dir))
	}
	return errors.Join(errs...)
}

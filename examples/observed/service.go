package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/node/memory"
)

const (
	nodes     = 5
	instances = 3
	workers   = 2 // in each instance
	invoices  = 4
	ttl       = time.Second
	skew      = 100 * time.Millisecond
)

// service writes invoices, by several workers, and a report, by one instance at a time.
type service struct {
	nodes   []*memory.Node
	clients []*quorumlock.Client
}

// newService starts new nodes and the instances. The instances share the hooks; in practice, each is a process with
// its own.
func newService(ctx context.Context, hooks quorumlock.Hooks) (*service, error) {
	s := &service{}
	cfg := quorumlock.Config{
		TTL: ttl, MaxTTL: ttl, MaxClockSkew: skew, Clock: clock.Process(),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), // The metrics show everything.
		Hooks:  hooks,
	}
	for i := range nodes {
		nd := memory.New(fmt.Sprintf("node-%d", i+1), cfg.Clock)
		s.nodes, cfg.Nodes = append(s.nodes, nd), append(cfg.Nodes, nd)
	}
	if _, err := admin.Init(ctx, cfg); err != nil {
		return nil, err
	}
	for range instances {
		c, err := quorumlock.New(cfg)
		if err != nil {
			return nil, err
		}
		s.clients = append(s.clients, c)
	}
	return s, nil
}

// close ends the instances. Locks on nodes that were down have expired by themselves.
func (s *service) close(ctx context.Context) {
	for _, c := range s.clients {
		_ = c.Close(context.WithoutCancel(ctx))
	}
}

// run runs all instances while tell makes nodes fail.
func (s *service) run(ctx context.Context) error {
	working, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	for _, c := range s.clients {
		for range workers {
			all.Go(func() { write(working, c) })
		}
		all.Go(func() { report(working, c) })
	}
	err := s.tell(ctx)
	stop()
	all.Wait()
	return err
}

// write writes one invoice after the other. If it cannot acquire a lock in time, it takes another.
func write(ctx context.Context, c *quorumlock.Client) {
	for ctx.Err() == nil {
		waiting, cancel := context.WithTimeout(ctx, ttl)
		name := fmt.Sprintf("invoice-%d", rand.IntN(invoices))
		lease, err := c.RedLock(name).Acquire(waiting)
		cancel()
		if err != nil {
			continue
		}
		pause(lease.Context(), time.Duration(5+rand.IntN(20))*time.Millisecond) //nolint:contextcheck // ctx does not end with the lease
		_ = lease.Release(ctx)
		pause(ctx, 10*time.Millisecond)
	}
}

// report writes the report while this instance holds the lock, and tries again if the lock is lost.
func report(ctx context.Context, c *quorumlock.Client) {
	for ctx.Err() == nil {
		err := c.RedLock("report").Do(ctx, func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		})
		if errors.Is(err, quorumlock.ErrNoQuorum) {
			pause(ctx, ttl/10)
		}
	}
}

// hang holds a lock for longer than its limit.
func hang(ctx context.Context, c *quorumlock.Client) {
	lease, err := c.RedLock("export").With(quorumlock.LockOptions{MaxHold: ttl / 2}).Acquire(ctx)
	if err == nil {
		<-lease.Context().Done()
		_ = lease.Release(ctx) // The lease has ended already.
	}
}

// tell runs the scenario: nodes fail and come back.
func (s *service) tell(ctx context.Context) error {
	latch := s.clients[0].Latch("started")
	if _, err := latch.Count(ctx); !errors.Is(err, quorumlock.ErrLatchNotSet) {
		return fmt.Errorf("count of a latch that is not set: %w", err)
	}
	if err := latch.Set(ctx, 1); err != nil {
		return err
	}
	if err := latch.CountDown(ctx, "me"); err != nil {
		return err
	}
	for _, then := range []func(){
		func() { hang(ctx, s.clients[0]) },        // A worker exceeds its hold limit.
		func() { s.stop(4) },                      // One node fails: leases have one spare node less.
		func() { s.nodes[4].Flush(); s.start(4) }, // It comes back without its memory, and recovers.
		func() { s.stop(0, 1) },                   // Two nodes fail: a majority is left.
		func() { s.stop(2) },                      // Three nodes are down: the lease of the report is lost.
		func() { s.start(0, 1, 2) },
	} {
		then()
		pause(ctx, 3*ttl/2)
	}
	return ctx.Err()
}

func (s *service) stop(which ...int) {
	for _, i := range which {
		s.nodes[i].Stop()
	}
}

func (s *service) start(which ...int) {
	for _, i := range which {
		s.nodes[i].Start()
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

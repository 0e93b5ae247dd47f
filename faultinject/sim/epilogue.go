package sim

import (
	"context"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/workload"
	"github.com/quorumlock/quorumlock/quorum"
)

// epilogue checks the state after the faults: a newcomer acquires every lock in time, and all keys are gone.
func (w *world) epilogue() {
	if w.tidy() {
		pause(context.Background(), ttl*3/4)
		w.nothingLeft()
	}
	newcomer := newProcess(w, "newcomer", Clock{Rate: 1}, newWays(len(w.servers)), w.c.Seed+7)
	bound, cancel := context.WithTimeout(context.Background(), limits.Recovery()+2*time.Second)
	defer cancel()
	for _, name := range names {
		lock := newcomer.client.MultiLock(name)
		if n := len(w.c.Nodes); w.c.Seed%2 == 0 && quorum.Majority().Need(n) < n {
			lock = newcomer.client.RedLock(name)
		}
		lease, err := lock.Acquire(bound)
		if err != nil {
			w.violated(Progress, "R and 2 s after the faults %q cannot be had: %v", name, err)
			continue
		}
		w.granted(newcomer, lease, workload.Use{Names: lease.Names()}, 0)
		w.finished(lease)
		_ = lease.Release(context.Background())
	}
	w.allPermits(bound, newcomer)
	w.oldHands()
	w.afterAll(newcomer)
	for _, p := range append(w.living(), newcomer) {
		_ = p.client.Close(context.Background())
	}
	w.Wait()
	pause(context.Background(), ttl+ttl/10)
	w.nothingLeft()
}

// oldHands checks that the processes of the run can acquire the lock too.
func (w *world) oldHands() {
	for client, p := range w.processes {
		if p == nil || !w.c.timely(client) {
			continue // nodes may refuse its tokens by now
		}
		bound, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		lease, err := p.client.RedLock("a").Acquire(bound)
		cancel()
		if err != nil {
			w.violated(Progress, "%s cannot have a lock that is free: %v", p.label, err)
			continue
		}
		w.granted(p, lease, workload.Use{Names: lease.Names()}, 0)
		w.finished(lease)
		_ = lease.Release(context.Background())
	}
}

// tidy reports whether every owner was able to clean up.
func (w *world) tidy() bool {
	weather := w.c.Weather
	return weather.Lose == 0 && weather.Double == 0 && !weather.Unordered && weather.Forget == 0 &&
		!slices.ContainsFunc(w.c.Faults, func(s faultinject.Step) bool { return s.Fault == faultinject.Murder })
}

func (w *world) nothingLeft() {
	for _, s := range w.servers {
		if keys := s.Keys(); len(keys) > 0 {
			w.violated(Tidiness, "%s still has %v", s.Name(), keys)
		}
	}
}

// allPermits checks that a newcomer gets all permits after the faults.
func (w *world) allPermits(ctx context.Context, newcomer *process) {
	if w.c.Permits == 0 {
		return
	}
	all := workload.Use{Names: []string{"a"}, Permits: w.c.Permits, Size: w.c.Permits}
	lease, err := all.Acquire(ctx, newcomer.client)
	if err != nil {
		w.violated(Progress, "R and 2 s after the faults %d permits cannot be had: %v", w.c.Permits, err)
		return
	}
	w.granted(newcomer, lease, all, 0)
	w.finished(lease)
	_ = lease.Release(context.WithoutCancel(ctx))
}

package sim

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/quorumlock/quorumlock"
)

// mostPermits is the largest size of a case's semaphore.
const mostPermits = 4

// DrawPermits draws a case in which most tasks that want one lock acquire permits of a semaphore instead. A holder of
// permits holds slots, each of which has one holder, and there are no more slots than permits.
func DrawPermits(seed uint64) *Case {
	c := Draw(seed)
	d := drawer{Rand: rand.New(rand.NewPCG(seed, 7))}
	c.Kind, c.Permits = OfPermits, 1+d.IntN(mostPermits)
	for i := range c.Tasks {
		t := &c.Tasks[i]
		if t.All || d.IntN(8) == 0 {
			continue
		}
		t.Permits = 1 + d.IntN(c.Permits)
		t.Reads, t.Downgrade = false, false
		t.Nested = false
		if t.Endless {
			t.Endless, t.Patience = false, 3*ttl
		}
	}
	return c
}

// semaphore returns the semaphore of a task.
func (w *world) semaphore(p *process, t Task) *quorumlock.Semaphore {
	return p.client.Semaphore("a", max(w.c.Permits, 1)).With(w.options(t))
}

// allPermits checks that a newcomer gets all permits after the faults.
func (w *world) allPermits(ctx context.Context, newcomer *process) {
	if w.c.Permits == 0 {
		return
	}
	lease, err := newcomer.client.Semaphore("a", w.c.Permits).Acquire(ctx, w.c.Permits)
	if err != nil {
		w.violated(Progress, "R and 2 s after the faults %d permits cannot be had: %v", w.c.Permits, err)
		return
	}
	if len(lease.Slots()) != w.c.Permits || slices.Max(lease.Slots()) >= w.c.Permits {
		w.violated(Exclusion, "all of %d permits are %v", w.c.Permits, lease.Slots())
	}
	w.granted(newcomer, lease, Task{Names: []string{"a"}, Permits: w.c.Permits}, 0)
	w.finished(lease)
	_ = lease.Release(context.WithoutCancel(ctx))
}

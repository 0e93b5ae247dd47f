package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/faultinject/history"
	"github.com/quorumlock/quorumlock/faultinject/workload"
)

// perform runs one task: it acquires the lock, acts as its holder, and releases it, repeatedly if the task says so.
func (w *world) perform(index int, t Task) {
	w.apart.Sleep(t.At)
	if t.Latch != nil {
		w.useLatch(index, t)
		return
	}
	if t.TTL < 3*w.c.Timeout { // a short one needs short timeouts
		t.TTL = 0
	}
	rng := rand.New(rand.NewPCG(w.c.Seed, uint64(200+index)))
	for range t.Again + 1 {
		p := w.process(t.Client)
		if p == nil || !p.awake() || w.now() > span && t.Again > 0 {
			return
		}
		switch {
		case t.Asks != "":
			w.ask(p, t, index)
			continue
		case t.Form != workload.AsLease:
			w.holdsAs(p, t, rng, index)
			continue
		}
		lease := w.take(p, t, index)
		if lease == nil {
			continue
		}
		w.use(p, lease, t, rng, index)
	}
}

func (w *world) use(p *process, lease *quorumlock.Lease, t Task, rng *rand.Rand, index int) {
	if t.Nested {
		lease = w.acquireNested(p, lease, t, index)
	}
	if t.Downgrade {
		t.Hold /= 2
	}
	over := w.keep(p, lease, t, rng, index)
	if t.Downgrade && !over {
		w.downgrade(p, lease, t)
		over = w.keep(p, lease, t, rng, index)
	}
	switch {
	case !p.awake():
		return
	case over || t.Careless:
		<-lease.Context().Done()
		w.acts(lease)
		// The lease is watched for a while: nothing may revive it.
		time.Sleep(min(time.Duration(rng.Int64N(int64(ttl))), max(span-w.now(), 0)+taskOffset(index)))
		w.acts(lease)
	}
	w.note("%s lets go of %v (%s)", p.label, t.Names, w.short(lease.Owner()))
	w.notTaken(lease, lease.Err())
	w.notMisled(p, t.Names, lease.Err())
	w.leaves(p, lease, t, rng, index)
}

func (w *world) take(p *process, t Task, index int) *quorumlock.Lease {
	// Not derived from ctx, whose end would wake all waiters in random order.
	patience, cancel := context.WithCancel(context.Background())
	if !t.Endless {
		patience, cancel = context.WithTimeout(context.Background(), min(t.Patience, span-w.now()+taskOffset(index)))
	}
	defer cancel()
	w.note("%s wants %v (reads %t, tries %t, spins %t, handed over %t)", p.label, t.Names, t.Reads, t.Try, t.Spin, !t.NoHandover)
	var one *waiting
	switch {
	case t.Try:
	case t.Permits > 0:
		one = w.bounded(p, t, cancel)
	default:
		one = w.waits(p, t, cancel)
	}
	defer w.waitsNoMore(one)
	var attempts []workload.Attempt
	if t.Reads {
		attempts = t.Attempts(p.recorder, index)
	}
	t.Requested = w.now()
	lease, err := t.Acquire(patience, p.client)
	if one != nil && t.Permits > 0 && w.c.permitsInOrder() {
		w.permitsInTurn(one, err == nil)
	}
	if err != nil {
		w.note("%s gives up %v: %v", p.label, t.Names, err)
		w.mustBeValid(p, t, err)
		if one != nil {
			w.endedByOutage(one, err)
		}
		return nil
	}
	w.granted(p, lease, t.Use, index, attempts...)
	w.keeps(lease, t.Requested+t.Keeps()*98/100)
	w.follows(lease)
	if one != nil && t.Permits == 0 && w.c.orderly() {
		w.inTurn(one)
		w.turnBegins(lease, one)
		context.AfterFunc(lease.Context(), func() { w.turnOver(lease) })
	}
	return lease
}

// acquireNested acquires a lock again within its lease, and releases one of the two. It returns the remaining one.
func (w *world) acquireNested(p *process, outer *quorumlock.Lease, t Task, index int) *quorumlock.Lease {
	began := w.now()
	inner, err := t.Lock(p.client).Acquire(outer.Context())
	switch {
	case err != nil && outer.Err() == nil:
		w.violated(Exclusion, "%s holds %v, and cannot acquire it within the lease: %v", p.label, t.Names, err)
		return outer
	case err != nil:
		return outer // it ended meanwhile
	case inner.Token() != outer.Token() && outer.Err() != nil: // likewise
		w.finished(outer)
		w.granted(p, inner, t.Use, index)
		return inner
	case inner.Token() != outer.Token() || w.now() != began:
		w.violated(Exclusion, "%s holds %v, and acquired it again as another lease, after %v", p.label, t.Names, w.now()-began)
	}
	rest, other := outer, inner
	if t.Swapped {
		rest, other = inner, outer
		w.update(outer, func(r *record) { r.lease = inner })
	}
	before := rest.Err()
	_ = other.Release(context.Background())
	if before == nil && errors.Is(rest.Err(), quorumlock.ErrReleased) {
		w.violated(Finality, "%s released one of two leases of %v, and the other is over", p.label, t.Names)
	}
	return rest
}

// keep acts under the lease from time to time, until it should be released, and reports whether it ended before.
func (w *world) keep(p *process, lease *quorumlock.Lease, t Task, rng *rand.Rand, index int) (over bool) {
	until := span + taskOffset(index)
	if t.Endless {
		until = max(until, w.now()+lateHold)
	}
	hold := t.Hold
	if t.Late {
		hold = max(lease.Remaining()-time.Duration(rng.Int64N(int64(w.c.Weather.Most+time.Millisecond))), 0)
	}
	until = min(until, w.now()+hold)
	for w.now() < until {
		gap := min(time.Duration(rng.Int64N(int64(ttl)/3)), until-w.now())
		timer := w.apart.NewTimer(gap)
		select {
		case <-lease.Context().Done():
			over = true
		case <-timer.C:
		}
		timer.Stop()
		if !p.awake() {
			return over
		}
		w.acts(lease)
		if over {
			return true
		}
		if t.Extend && rng.IntN(2) == 0 {
			w.extend(p, lease, t)
		}
	}
	return false
}

// lateHold is how long a lock is held that is acquired after the faults.
const lateHold = 20 * time.Millisecond

// extend renews by hand. After a success, the lease lasts for that TTL from then, minus drift. A release by force takes nodes
// away from it if it arrives meanwhile.
func (w *world) extend(p *process, lease *quorumlock.Lease, t Task) {
	began := w.now()
	life, err := t.Prolong(context.Background(), lease, w.c.ttlOf(t.Client))
	w.note("%s extends %v by hand: %v", p.label, t.Names, err)
	least := life*98/100 - 2*time.Millisecond - (w.now() - began)
	if left := lease.Remaining(); err == nil && !t.Careless && w.c.Settings[t.Client].MaxHold == 0 && lease.Err() == nil && left < least && !w.forcedOff(t.Names) {
		w.violated(Finality, "%s was told that it extended %v, and has %v left instead of %v", p.label, t.Names, left, least)
	}
}

// taskOffset separates actions of tasks at one instant.
func taskOffset(index int) time.Duration { return time.Duration(index+1) * time.Microsecond }

// downgrade turns a writer into a reader. That is recorded before another process can see it.
func (w *world) downgrade(p *process, lease *quorumlock.Lease, t Task) {
	if !p.awake() || lease.Err() != nil {
		return
	}
	w.update(lease, func(r *record) { r.reads = true })
	err := w.during(lease, (*history.Holding).Downgrade, func() error {
		return workload.Downgrade(context.Background(), lease)
	})
	w.note("%s only reads %v from now on (%s): %v", p.label, t.Names, w.short(lease.Owner()), err)
	w.turnOver(lease) // other writers of its client have a place in the queues from now on
	if errors.Is(err, quorumlock.ErrShared) || errors.Is(err, quorumlock.ErrInvalid) {
		w.violated(Finality, "%s cannot become a reader of %v: %v", p.label, t.Names, err)
	}
}

package sim

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/quorumlock/quorumlock"
)

// perform is one task: it asks for the lock, acts as its holder, and lets go.
func (w *world) perform(index int, t Task) {
	time.Sleep(t.At)
	p := w.process(t.Client)
	if p == nil || !p.awake() {
		return
	}
	rng := rand.New(rand.NewPCG(w.c.Seed, uint64(200+index)))
	lease := w.take(p, t, index)
	if lease == nil {
		return
	}
	over := w.keep(p, lease, t, rng, index)
	switch {
	case !p.awake():
		return
	case over || t.Careless:
		<-lease.Context().Done()
		w.acts(p, lease)
		// It stays watched for a while: nothing is to revive it.
		time.Sleep(min(time.Duration(rng.Int64N(int64(ttl))), max(span-w.now(), 0)+grain(index)))
		w.acts(p, lease)
	}
	w.finished(lease)
	w.note("%s lets go of %v (%s)", p.label, t.Names, w.short(lease.Owner()))
	_ = lease.Release(context.Background())
}

// take waits for the lock, and tells the witness.
func (w *world) take(p *process, t Task, index int) *quorumlock.Lease {
	lock := p.client.RedLock(t.Names[0])
	if t.All {
		lock = p.client.MultiLock(t.Names...)
	}
	options := quorumlock.LockOptions{Fixed: t.Fixed, TTL: w.ttlOf(t)}
	if t.Careless {
		options.MaxHold = max(t.Hold, time.Millisecond)
	}
	// Not derived from ctx, which would wake all who wait at its end in random order.
	patience, cancel := context.WithTimeout(context.Background(), min(t.Patience, span-w.now()+grain(index)))
	defer cancel()
	w.note("%s wants %v", p.label, t.Names)
	lease, err := lock.With(options).Acquire(patience)
	if err != nil {
		w.note("%s gives up %v: %v", p.label, t.Names, err)
		return nil
	}
	w.granted(p, lease)
	return lease
}

// keep acts under the lease from time to time, as long as it is to be held, and reports
// whether it ended before.
func (w *world) keep(p *process, lease *quorumlock.Lease, t Task, rng *rand.Rand, index int) (over bool) {
	until := min(w.now()+t.Hold, span+grain(index))
	for w.now() < until {
		gap := min(time.Duration(rng.Int64N(int64(ttl)/3)), until-w.now())
		timer := time.NewTimer(gap)
		select {
		case <-lease.Context().Done():
			over = true
		case <-timer.C:
		}
		timer.Stop()
		if !p.awake() {
			return over
		}
		w.acts(p, lease)
		if over {
			return true
		}
		if t.Extend && rng.IntN(2) == 0 {
			w.extend(p, lease, t)
		}
	}
	return false
}

// extend renews by hand. If that succeeds, the lease lasts a TTL from then, but for drift.
func (w *world) extend(p *process, lease *quorumlock.Lease, t Task) {
	began := w.now()
	err := lease.Extend(context.Background())
	w.note("%s extends %v by hand: %v", p.label, t.Names, err)
	least := w.ttlOf(t)*98/100 - 2*time.Millisecond - (w.now() - began)
	if left := lease.Remaining(); err == nil && !t.Careless && lease.Err() == nil && left < least {
		w.violated(Finality, "%s was told that it extended %v, and has %v left instead of %v", p.label, t.Names, left, least)
	}
}

// ttlOf is the TTL of a task's lock. A short one needs short timeouts.
func (w *world) ttlOf(t Task) time.Duration {
	if t.TTL == 0 || t.TTL < 3*w.c.Timeout {
		return ttl
	}
	return t.TTL
}

// grain keeps apart what tasks do at one instant.
func grain(index int) time.Duration { return time.Duration(index+1) * time.Microsecond }

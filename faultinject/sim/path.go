package sim

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/faultinject"
)

// trip is the way of a request to a server, and of the answer back.
type trip struct {
	// there and back are the delays. settle separates messages that a heal releases at once.
	there, back, settle time.Duration
	lostThere, lostBack bool
}

// newTrip draws a trip. The number of draws is the same in any weather, so that a loss does not change later draws.
func newTrip(rng *rand.Rand, w Weather) trip {
	spread := int64(w.Most-w.Least) + 1
	return trip{
		there:     w.Least + time.Duration(rng.Int64N(spread)),
		back:      w.Least + time.Duration(rng.Int64N(spread)),
		settle:    time.Duration(rng.Int64N(int64(time.Millisecond))),
		lostThere: rng.Float64() < w.Lose,
		lostBack:  rng.Float64() < w.Lose,
	}
}

// carry carries a request to the server, which serves it now, at the end of a pause, or never, and then the answer back.
func (l *link) carry(t trip, serve func(alive bool), answered func()) {
	l.server.world.Go(func() {
		l.path.there.pass(l.server.world.apart, t.there, t.settle)
		if t.lostThere {
			return
		}
		l.server.arrive(func(alive bool) {
			serve(alive)
			l.server.world.Go(func() {
				l.path.back.pass(l.server.world.apart, t.back, t.settle)
				if !t.lostBack {
					answered()
				}
			})
		})
	})
}

// path is the network between one client and one server.
type path struct{ there, back direction }

func newPaths(servers int) []*path {
	paths := make([]*path, servers)
	for i := range paths {
		paths[i] = &path{}
	}
	return paths
}

// applyFault begins or ends a fault.
func (w *path) applyFault(step faultinject.Step, begin bool) {
	switch step.Fault {
	case faultinject.Part:
		w.there.cut(begin)
		w.back.cut(begin)
	case faultinject.Deafen:
		w.there.cut(begin)
	case faultinject.Mute:
		w.back.cut(begin)
	case faultinject.Slow:
		w.there.slow(step.Amount, begin)
		w.back.slow(step.Amount, begin)
	}
}

// direction is one direction of a path.
type direction struct {
	mu    sync.Mutex
	cuts  int
	extra time.Duration
	// healed is closed when the last cut ends.
	healed chan struct{}
}

func (d *direction) cut(begin bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if begin {
		if d.cuts++; d.cuts == 1 {
			d.healed = make(chan struct{})
		}
		return
	}
	if d.cuts--; d.cuts == 0 {
		close(d.healed)
	}
}

func (d *direction) slow(by time.Duration, begin bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !begin {
		by = -by
	}
	d.extra += by
}

// pass returns when a message has arrived. A message sent into a cut arrives when the cut heals, because TCP
// retransmits.
func (d *direction) pass(a *apart, takes, settle time.Duration) {
	d.mu.Lock()
	takes += d.extra
	d.mu.Unlock()
	for {
		a.Sleep(takes)
		d.mu.Lock()
		cut, healed := d.cuts > 0, d.healed
		d.mu.Unlock()
		if !cut {
			return
		}
		<-healed
		takes = settle
	}
}

package sim

import (
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/faultinject"
)

// way is the network between one client and one server.
type way struct{ there, back direction }

func newWays(servers int) []*way {
	ways := make([]*way, servers)
	for i := range ways {
		ways[i] = &way{}
	}
	return ways
}

// bend has a fault begin, or end.
func (w *way) bend(step faultinject.Step, begin bool) {
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

// direction is one direction of a way.
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
func (d *direction) pass(takes, settle time.Duration) {
	d.mu.Lock()
	takes += d.extra
	d.mu.Unlock()
	for {
		time.Sleep(takes)
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

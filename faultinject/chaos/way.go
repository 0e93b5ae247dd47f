package chaos

import (
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/faultinject"
)

// way is the network between one client and one node. Faults may overlap, on the way itself and on all ways of its
// node.
type way struct {
	proxy *faultinject.Proxy

	mu    sync.Mutex
	cuts  map[faultinject.Direction]int
	extra time.Duration
}

func newWay(node string) (*way, error) {
	proxy, err := faultinject.NewProxy(node)
	if err != nil {
		return nil, err
	}
	return &way{proxy: proxy, cuts: make(map[faultinject.Direction]int)}, nil
}

// bend has a fault begin, or end.
func (w *way) bend(s faultinject.Step, begin bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch s.Fault {
	case faultinject.Part:
		w.cut(faultinject.ToServer, begin)
		w.cut(faultinject.ToClient, begin)
	case faultinject.Deafen:
		w.cut(faultinject.ToServer, begin)
	case faultinject.Mute:
		w.cut(faultinject.ToClient, begin)
	case faultinject.Slow:
		if !begin {
			s.Amount = -s.Amount
		}
		w.extra += s.Amount
		w.proxy.SetLatency(faultinject.BothWays, w.extra, w.extra/4)
	default:
		return fmt.Errorf("%q is not about a way", s)
	}
	return nil
}

func (w *way) cut(d faultinject.Direction, begin bool) {
	if begin {
		if w.cuts[d]++; w.cuts[d] == 1 {
			w.proxy.Cut(d)
		}
		return
	}
	if w.cuts[d]--; w.cuts[d] == 0 {
		w.proxy.Uncut(d)
	}
}

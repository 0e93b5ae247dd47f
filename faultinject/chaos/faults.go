package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/faultinject"
)

// Begin implements [faultinject.Subject].
func (a *arena) Begin(ctx context.Context, s faultinject.Step) error {
	defer a.begun(s)
	switch {
	case s.Fault == faultinject.Freeze:
		return a.clients[s.Client].signal(syscall.SIGSTOP)
	case s.Fault == faultinject.Murder:
		return a.clients[s.Client].kill()
	case ofWay(s):
		return a.bend(s, true)
	default:
		return a.during(s, func() error { return faultinject.Begin(ctx, a.Servers[s.Node], s) })
	}
}

// begun notes how late a step is.
func (a *arena) begun(s faultinject.Step) {
	late := clock.System().Now() - a.report.Began - s.At
	a.mu.Lock()
	defer a.mu.Unlock()
	a.report.Lag = max(a.report.Lag, late)
}

// End implements [faultinject.Subject].
func (a *arena) End(ctx context.Context, s faultinject.Step) error {
	switch {
	case s.Fault == faultinject.Freeze:
		return a.clients[s.Client].signal(syscall.SIGCONT)
	case s.Fault == faultinject.Murder:
		return a.clients[s.Client].start()
	case ofWay(s):
		return a.bend(s, false)
	default:
		return a.during(s, func() error { return faultinject.End(ctx, a.Servers[s.Node], s) })
	}
}

// ofWay reports whether a fault concerns the ways between clients and nodes. A node that is cut off from all clients
// is cut off itself.
func ofWay(s faultinject.Step) bool {
	switch s.Fault {
	case faultinject.Part:
		return s.Client != faultinject.All
	case faultinject.Deafen, faultinject.Mute, faultinject.Slow:
		return true
	default:
		return false
	}
}

// bend starts a fault on the proxies of its ways, or ends it.
func (a *arena) bend(s faultinject.Step, begin bool) error {
	var errs []error
	for c, ways := range a.ways {
		for n, w := range ways {
			if (s.Client == faultinject.All || s.Client == c) && (s.Node == faultinject.All || s.Node == n) {
				if err := w.bend(s, begin); err != nil {
					errs = append(errs, fmt.Errorf("chaos: c%d-n%d: %w", c+1, n+1, err))
				}
			}
		}
	}
	return errors.Join(errs...)
}

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

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
func (a *activeRun) Begin(ctx context.Context, s faultinject.Step) error {
	defer a.begun(s)
	switch {
	case s.Fault == faultinject.Freeze:
		return a.clients[s.Client].signal(syscall.SIGSTOP)
	case s.Fault == faultinject.Murder:
		return a.clients[s.Client].kill()
	case onPath(s):
		return a.applyFault(s, true)
	default:
		return a.during(s, func() error { return faultinject.Begin(ctx, a.Servers[s.Node], s) })
	}
}

// begun notes how late a step is.
func (a *activeRun) begun(s faultinject.Step) {
	late := clock.System().Now() - a.report.Began - s.At
	a.mu.Lock()
	defer a.mu.Unlock()
	a.report.Lag = max(a.report.Lag, late)
}

// End implements [faultinject.Subject].
func (a *activeRun) End(ctx context.Context, s faultinject.Step) error {
	switch {
	case s.Fault == faultinject.Freeze:
		return a.clients[s.Client].signal(syscall.SIGCONT)
	case s.Fault == faultinject.Murder:
		return a.clients[s.Client].start()
	case onPath(s):
		return a.applyFault(s, false)
	default:
		return a.during(s, func() error { return faultinject.End(ctx, a.Servers[s.Node], s) })
	}
}

// onPath reports whether a fault concerns the paths between clients and nodes. A node that is cut off from all clients
// is cut off itself.
func onPath(s faultinject.Step) bool {
	switch s.Fault {
	case faultinject.Part:
		return s.Client != faultinject.All
	case faultinject.Deafen, faultinject.Mute, faultinject.Slow:
		return true
	default:
		return false
	}
}

// applyFault starts a fault on the proxies of its paths, or ends it.
func (a *activeRun) applyFault(s faultinject.Step, begin bool) error {
	var errs []error
	for c, paths := range a.paths {
		for n, w := range paths {
			if (s.Client == faultinject.All || s.Client == c) && (s.Node == faultinject.All || s.Node == n) {
				if err := w.applyFault(s, begin); err != nil {
					errs = append(errs, fmt.Errorf("chaos: c%d-n%d: %w", c+1, n+1, err))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// path is the network between one client and one node. Faults may overlap, on the path itself and on all paths of its
// node.
type path struct {
	proxy *faultinject.Proxy

	mu    sync.Mutex
	cuts  map[faultinject.Direction]int
	extra time.Duration
}

func newPath(node string) (*path, error) {
	proxy, err := faultinject.NewProxy(node)
	if err != nil {
		return nil, err
	}
	return &path{proxy: proxy, cuts: make(map[faultinject.Direction]int)}, nil
}

// applyFault begins or ends a fault.
func (w *path) applyFault(s faultinject.Step, begin bool) error {
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
		return fmt.Errorf("%q is not about a path", s)
	}
	return nil
}

func (w *path) cut(d faultinject.Direction, begin bool) {
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

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
	return a.carryOut(ctx, s, true)
}

// End implements [faultinject.Subject].
func (a *activeRun) End(ctx context.Context, s faultinject.Step) error {
	return a.carryOut(ctx, s, false)
}

func (a *activeRun) carryOut(ctx context.Context, s faultinject.Step, begin bool) error {
	due, freeze, kill, ofServer := s.At, syscall.SIGSTOP, (*client).murder, faultinject.Begin
	if !begin {
		due, freeze, kill, ofServer = s.End(), syscall.SIGCONT, (*client).revive, faultinject.End
	}
	defer a.noteLag(due)
	switch {
	case s.Fault == faultinject.Freeze:
		return a.clients[s.Client].signal(freeze)
	case s.Fault == faultinject.Murder:
		return kill(a.clients[s.Client])
	case onPath(s):
		return a.applyFault(s, begin)
	default:
		return a.during(s, func() error { return ofServer(ctx, a.Servers[s.Node], s) })
	}
}

// noteLag notes how late the begin or the end of a step is, which is complete now.
func (a *activeRun) noteLag(due time.Duration) {
	late := clock.System().Now() - a.report.Began - due
	a.mu.Lock()
	defer a.mu.Unlock()
	a.report.Lags[due] = max(a.report.Lags[due], late)
}

// onPath reports whether a fault concerns the paths between clients and nodes. A node that is cut off from all clients
// is cut off itself.
func onPath(s faultinject.Step) bool {
	switch s.Fault {
	case faultinject.Part:
		return s.Client != faultinject.All
	case faultinject.Deafen, faultinject.Mute, faultinject.Slow, faultinject.ArriveLate, faultinject.ArriveTwice:
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
	// proxies lead to the node. There is one for each server of a cluster.
	proxies []*faultinject.Proxy

	mu    sync.Mutex
	cuts  map[faultinject.Direction]int
	extra time.Duration
	// detained has, for each step, what delivers the requests that the proxies keep.
	detained map[faultinject.Step][]func()
}

// lead adds a proxy before an address, and returns the address of the proxy.
func (w *path) lead(to string) (string, error) {
	proxy, err := faultinject.NewProxy(to)
	if err != nil {
		return "", err
	}
	w.proxies = append(w.proxies, proxy)
	return proxy.Addr(), nil
}

func (w *path) close() error {
	var errs []error
	for _, proxy := range w.proxies {
		errs = append(errs, proxy.Close())
	}
	return errors.Join(errs...)
}

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
		for _, proxy := range w.proxies {
			proxy.SetLatency(faultinject.BothWays, w.extra)
		}
	case faultinject.ArriveLate, faultinject.ArriveTwice:
		w.detain(s, begin)
	default:
		return fmt.Errorf("%q is not about a path", s)
	}
	return nil
}

func (w *path) detain(s faultinject.Step, begin bool) {
	if begin {
		for _, proxy := range w.proxies {
			w.detained[s] = append(w.detained[s], proxy.Detain(s.Fault == faultinject.ArriveTwice))
		}
		return
	}
	for _, deliver := range w.detained[s] {
		deliver()
	}
	delete(w.detained, s)
}

func (w *path) cut(d faultinject.Direction, begin bool) {
	change, first := (*faultinject.Proxy).Cut, w.cuts[d] == 0
	if !begin {
		w.cuts[d]--
		change, first = (*faultinject.Proxy).Uncut, w.cuts[d] == 0
	} else {
		w.cuts[d]++
	}
	if !first { // another fault has the same effect
		return
	}
	for _, proxy := range w.proxies {
		change(proxy, d)
	}
}

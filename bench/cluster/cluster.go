// Package cluster starts the servers of a cell, injects their faults, and counts their work.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/faultinject"
)

// Fault is a fault of some of the nodes.
type Fault string

// The faults.
const (
	None      Fault = ""
	Hung      Fault = "hung"      // SIGSTOP
	Killed    Fault = "killed"    // SIGKILL, and it stays down
	Slow      Fault = "slow"      // SlowBy each way, from the start
	Restarted Fault = "restarted" // SIGKILL, and it comes back without its memory
)

// SlowBy is the delay of a slow node, each way.
const SlowBy = 50 * time.Millisecond

// Cluster is the servers of one cell.
type Cluster struct {
	servers  []Server
	closeAll func() error
	proxies  []*faultinject.Proxy
	// addresses are the clients' addresses of the servers.
	addresses []string
	stop      chan struct{} // ends keepTime
	hangs     bool          // some servers may hang
}

// Start starts n servers, behind a network that takes so long each way. The first bad of them will get the fault later,
// or get it now if it is Slow. The caller must close the cluster.
func Start(ctx context.Context, source Source, n int, network time.Duration, fault Fault, bad int) (*Cluster, error) {
	servers, closeAll, err := source.servers(ctx, n)
	if err != nil {
		return nil, err
	}
	c := &Cluster{servers: servers, closeAll: closeAll, stop: make(chan struct{}), hangs: fault == Hung}
	if network > 0 {
		go keepTime(c.stop)
	}
	for i, s := range servers {
		address, latency := s.Addr(), network
		if fault == Slow && i < bad {
			latency += SlowBy
		}
		if latency > 0 {
			proxy, err := faultinject.NewProxy(address)
			if err != nil {
				return nil, errors.Join(err, c.Close())
			}
			proxy.SetLatency(faultinject.BothWays, latency, 0)
			c.proxies = append(c.proxies, proxy)
			address = proxy.Addr()
		}
		c.addresses = append(c.addresses, address)
	}
	return c, nil
}

// keepTime makes timers of this process fire within 0.1 ms. Otherwise the runtime of an idle process rounds them up to
// a millisecond, and a proxy would hold data up for twice the time. The runtime looks for due timers whenever a
// goroutine blocks and leaves its thread without work, so one goroutine here does that every 0.1 ms.
func keepTime(stop <-chan struct{}) {
	tick := make(chan struct{})
	defer close(tick)
	go func() {
		for range tick { // each turn ends with a block
		}
	}()
	for {
		_ = unix.Nanosleep(&unix.Timespec{Nsec: 100_000}, nil) // an early return does no harm
		select {
		case tick <- struct{}{}:
		case <-stop:
			return
		}
	}
}

// Addresses returns the clients' addresses of the servers.
func (c *Cluster) Addresses() []string { return slices.Clone(c.addresses) }

// Mark opens the nodes for this library's clients with that configuration.
func (c *Cluster) Mark(ctx context.Context, cfg quorumlock.Config) error {
	_, err := admin.Init(ctx, cfg)
	return err
}

// Break injects the fault into the first bad servers.
func (c *Cluster) Break(ctx context.Context, fault Fault, bad int) error {
	return c.each(bad, fault, map[Fault]func(Server) error{
		Hung:   func(s Server) error { return s.Pause(ctx) },
		Killed: func(s Server) error { return s.Kill(ctx) },
	})
}

// Mend ends the fault.
func (c *Cluster) Mend(ctx context.Context, fault Fault, bad int) error {
	return c.each(bad, fault, map[Fault]func(Server) error{
		Hung:   func(s Server) error { return s.Resume(ctx) },
		Killed: func(s Server) error { return s.Start(ctx) },
	})
}

// each calls the function of the fault, if it has one, with the first bad servers.
func (c *Cluster) each(bad int, fault Fault, do map[Fault]func(Server) error) error {
	if do[fault] == nil {
		return nil
	}
	for i, s := range c.servers[:bad] {
		if err := do[fault](s); err != nil {
			return fmt.Errorf("node %d: %s: %w", i+1, fault, err)
		}
	}
	return nil
}

// Restart kills the first server, and restarts it without its memory.
func (c *Cluster) Restart(ctx context.Context) error {
	s := c.servers[0]
	if err := errors.Join(s.Kill(ctx), s.Start(ctx)); err != nil {
		return fmt.Errorf("node 1: %s: %w", Restarted, err)
	}
	return nil
}

// Gave reports whether the first server holds any of these locks.
func (c *Cluster) Gave(ctx context.Context, names []string) (bool, error) {
	n, err := c.servers[0].Command(ctx, append([]string{"EXISTS"}, names...)...)
	return err == nil && n != "0", err
}

// lasting are the prefixes of this library's keys that remain by design, until they expire or forever: the marker,
// fences, latches, and tombstones of owners that were forced off.
var lasting = []string{"quorumlock:node", "quorumlock:fences", "quorumlock:latch:", "quorumlock:latched:", "quorumlock:tombstone:"}

// Keys counts the locks, permits and queue entries on the nodes.
func (c *Cluster) Keys(ctx context.Context) (n int, err error) {
	for _, s := range c.servers {
		text, err := s.Command(ctx, "KEYS", "*")
		if err != nil {
			return 0, fmt.Errorf("count keys: %w", err)
		}
		for key := range strings.SplitSeq(text, "\n") {
			stays := func(prefix string) bool { return strings.HasPrefix(key, prefix) }
			if key != "" && !slices.ContainsFunc(lasting, stays) {
				n++
			}
		}
	}
	return n, nil
}

// Close ends all servers.
func (c *Cluster) Close() error {
	close(c.stop)
	var errs []error
	for _, p := range c.proxies {
		errs = append(errs, p.Close())
	}
	return errors.Join(append(errs, c.closeAll())...)
}

// Package cluster starts the servers of a cell, injects their faults, and counts their work.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/internal/redisproc"
)

// Fault is a fault of some of the nodes.
type Fault string

// The faults.
const (
	None   Fault = ""
	Hung   Fault = "hung"   // SIGSTOP
	Killed Fault = "killed" // SIGKILL, and it stays down
	Slow   Fault = "slow"   // SlowBy each way, from the start
)

// SlowBy is the delay of a slow node, each way.
const SlowBy = 50 * time.Millisecond

// Cluster is the servers of one cell.
type Cluster struct {
	servers   []*redisproc.Server
	proxies   []*faultinject.Proxy
	addresses []string // where clients reach the servers
	hangs     bool     // some servers may hang
}

// Start starts n servers. The first bad servers will get the fault later, or get it now if it is Slow. The caller must close
// the cluster.
func Start(ctx context.Context, n int, fault Fault, bad int) (*Cluster, error) {
	servers, err := redisproc.TryLaunchN(ctx, n)
	c := &Cluster{servers: servers, hangs: fault == Hung}
	for i, server := range c.servers {
		address := server.Addr()
		if fault == Slow && i < bad && err == nil {
			var proxy *faultinject.Proxy
			if proxy, err = faultinject.NewProxy(address); err == nil {
				proxy.SetLatency(faultinject.BothWays, SlowBy)
				c.proxies, address = append(c.proxies, proxy), proxy.Addr()
			}
		}
		c.addresses = append(c.addresses, address)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Addresses returns the clients' addresses of the servers.
func (c *Cluster) Addresses() []string { return slices.Clone(c.addresses) }

// Break injects the fault into the first bad servers.
func (c *Cluster) Break(fault Fault, bad int) error {
	var errs []error
	for _, p := range c.servers[:bad] {
		switch fault {
		case Hung:
			errs = append(errs, p.TryPause())
		case Killed:
			p.Kill()
		}
	}
	return errors.Join(errs...)
}

// Mend ends the fault of the first bad servers.
func (c *Cluster) Mend(ctx context.Context, bad int) error {
	var errs []error
	for _, p := range c.servers[:bad] {
		errs = append(errs, p.TryResume(), p.TryStart(ctx))
	}
	return errors.Join(errs...)
}

// all sends a command to each server, and returns the replies as text.
func (c *Cluster) all(ctx context.Context, command ...string) (replies []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	for _, s := range c.servers {
		text, err := s.Do(ctx, command...)
		if err != nil {
			return nil, fmt.Errorf("node %s: %s: %w", s.Addr(), command[0], err)
		}
		replies = append(replies, text)
	}
	return replies, nil
}

// lasting are the prefixes of this library's keys that remain by design, until they expire or forever: the marker,
// fences, the lists of nodes in use, latches, indexes of semaphores, and tombstones of owners that were forced off.
var lasting = []string{
	"quorumlock:node", "quorumlock:fences", "quorumlock:lists:", "quorumlock:latch:", "quorumlock:latched:", "quorumlock:tombstone:",
	"quorumlock:slots:",
}

// Keys counts the locks, permits and queue entries on the nodes.
func (c *Cluster) Keys(ctx context.Context) (n int, err error) {
	replies, err := c.all(ctx, "KEYS", "*")
	for key := range strings.FieldsSeq(strings.Join(replies, "\n")) {
		stays := func(prefix string) bool { return strings.HasPrefix(key, prefix) }
		if !slices.ContainsFunc(lasting, stays) {
			n++
		}
	}
	return n, err
}

// Close ends all servers.
func (c *Cluster) Close() error {
	var errs []error
	for _, p := range c.proxies {
		errs = append(errs, p.Close())
	}
	for _, s := range c.servers {
		errs = append(errs, s.TryClose())
	}
	return errors.Join(errs...)
}

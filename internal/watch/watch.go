// Package watch looks at the locks of a set of nodes, again and again. It asks; what that means is for
// whoever shows it.
//
// It writes nothing, and what it asks for is bounded: so many keys of a node are looked through in one
// look, the next of which goes on where it stopped, and of a queue it reads no more than [MostWaiters].
package watch

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/node"
)

// MostWaiters is how many waiters for a name are counted at most.
const MostWaiters = 100

// mostFound bounds how many locks are followed that were not asked for by name.
const mostFound = 10000

// Config says what to look at.
type Config struct {
	// Nodes are the options with which to connect to each node.
	Nodes []rueidis.ClientOption
	// Limits are those of the programs.
	Limits node.Limits
	// Patience is how long one answer is waited for.
	Patience time.Duration
	// Names are locks to look at, whether they are held or not.
	Names []string
	// Scan is how many keys of each node one look searches for other locks; 0 for none.
	Scan int
}

// Facts are what one look has shown.
type Facts struct {
	// Names are all locks that were asked about: those of [Config.Names] first, in their order, and
	// then those that were found, sorted.
	Names []string
	// Whole is set if no lock is missing: nothing was to be found, or every node that answers has
	// been searched to the end since the [Watcher] was made.
	Whole bool
	Nodes []Node
}

// Node is what one node said.
type Node struct {
	Name string
	// Err is why it does not answer, or is of no use; nil if it answers.
	Err error
	// Latency is how long an answer takes.
	Latency time.Duration
	// Recovering and Unmarked are as in [node.Reply].
	Recovering time.Duration
	Unmarked   bool
	// Locks are the answers about each name; none if Err is set.
	Locks map[string]Lock
	// Unlisted is why it could not be searched for locks; nil if it could, or nobody asked for that.
	Unlisted error
	// Uncounted is why the waiters could not be counted.
	Uncounted error
}

// Lock is what a node says about a name.
type Lock struct {
	Holders []node.Holder
	// Waiters counts those who wait for it, up to [MostWaiters]. A client stands in the queue once
	// for all that it has waiting, unless they wait for fairness. Those who wait for a permit of a
	// semaphore do so for any of them, and count for each.
	Waiters int
	// Err is why there is no answer about this name.
	Err error
}

// Watcher keeps connections to the nodes, and what was found so far. It is for one goroutine.
type Watcher struct {
	cfg   Config
	nodes []*asker
	found map[string]struct{}
}

// New makes a watcher, which connects when it is first used. It fails only for options that do not
// describe a node. Close it.
func New(cfg Config) (*Watcher, error) {
	w := &Watcher{cfg: cfg, found: make(map[string]struct{})}
	for _, opt := range cfg.Nodes {
		opt.Dialer.Timeout = cmp.Or(opt.Dialer.Timeout, cfg.Patience)
		opt.ConnWriteTimeout = cmp.Or(opt.ConnWriteTimeout, cfg.Patience)
		lib, err := node.NewRedis(opt)
		if err != nil {
			w.Close()
			return nil, err
		}
		w.nodes = append(w.nodes, &asker{lib: lib, opt: opt, limits: cfg.Limits})
	}
	return w, nil
}

// Close ends all connections.
func (w *Watcher) Close() {
	for _, a := range w.nodes {
		a.hangUp()
		_ = a.lib.Close() // it never fails
	}
}

// Look asks all nodes at once. What they do not answer, and why, is part of the facts.
func (w *Watcher) Look(ctx context.Context) *Facts {
	w.each(func(a *asker) {
		a.greet(ctx)
		a.search(ctx, w.cfg.Scan, w.found)
	})
	w.gather()
	names := w.names()
	w.each(func(a *asker) {
		a.inspect(ctx, names)
		a.count(ctx, names)
	})
	f := &Facts{Names: names, Whole: w.whole()}
	for _, a := range w.nodes {
		f.Nodes = append(f.Nodes, a.said)
	}
	w.forget()
	return f
}

func (w *Watcher) each(ask func(*asker)) {
	var wg sync.WaitGroup
	for _, a := range w.nodes {
		wg.Go(func() { ask(a) })
	}
	wg.Wait()
}

// gather adds what the nodes have found.
func (w *Watcher) gather() {
	for _, a := range w.nodes {
		for _, name := range a.fresh {
			if len(w.found) < mostFound {
				w.found[name] = struct{}{}
			}
		}
	}
}

func (w *Watcher) names() []string {
	var names []string
	for _, name := range w.cfg.Names {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	given := len(names)
	for _, name := range slices.Sorted(maps.Keys(w.found)) {
		if !slices.Contains(names[:given], name) {
			names = append(names, name)
		}
	}
	return names
}

func (w *Watcher) whole() bool {
	return w.cfg.Scan == 0 || len(w.found) < mostFound &&
		!slices.ContainsFunc(w.nodes, func(a *asker) bool { return a.said.Err == nil && !a.swept })
}

// forget drops the names that were found, and are of no lock now. One that is taken again is found
// again.
func (w *Watcher) forget() {
	for name := range w.found {
		if !slices.ContainsFunc(w.nodes, func(a *asker) bool { return len(a.said.Locks[name].Holders) > 0 }) {
			delete(w.found, name)
		}
	}
}

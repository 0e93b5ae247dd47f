// Package watch polls the locks, semaphores and latches on a set of nodes. It collects facts; the program that shows
// them interprets them.
//
// Only [Watcher.Remove] writes to the nodes. Reads are bounded. One round searches a limited number of keys of each
// node, and the next round continues there. Of a queue, it reads at most [MostWaiters] entries.
package watch

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/node"
)

// MostWaiters limits the number of waiters that are counted for a name.
const MostWaiters = 100

// mostFound limits the number of followed locks that the search found.
const mostFound = 10000

// Config says what to watch.
type Config struct {
	// Nodes are the options of the connections to the nodes.
	Nodes []node.Options
	// Limits are the limits in the configuration of the programs.
	Limits node.Limits
	// Patience is the timeout of one answer.
	Patience time.Duration
	// Prefix begins every name that the programs use, on the nodes. All names here and in the facts are without it.
	Prefix string
	// Names are locks to report, whether they are held or not. If one is also the name of a semaphore, its held permits
	// are found, up to the number MostPermits.
	Names       []string
	MostPermits int
	// Scan is the number of keys that one round searches on each node for other locks; 0 for none.
	Scan int
}

// Facts are the results of one round.
type Facts struct {
	// Names are all locks of the round: first the names of [Config.Names] in their order, then the names that
	// the search found, sorted.
	Names []string
	// Whole is set if no lock is missing: either the search is off, or every node that answers has been searched to
	// the end since the [Watcher] was made.
	Whole bool
	Nodes []Node
}

// Node is the answer of one node.
type Node struct {
	Name string
	// Err is why the node does not answer or cannot be used; nil if it answers.
	Err error
	// Latency is the time of a round trip.
	Latency time.Duration
	// Recovering and Unmarked are as in [wire.Reply].
	Recovering time.Duration
	Unmarked   bool
	// Locks are the answers about each name, and Kinds those about each name of [Config.Names]; none if Err is set.
	Locks map[string]Lock
	Kinds map[string]Kinds
	// Unlisted is why the node could not be searched for locks; nil if it was searched, or the search is off.
	Unlisted error
	// Uncounted is why the waiters could not be counted.
	Uncounted error
}

// Lock is the answer of a node about a name.
type Lock struct {
	Holders []node.Holder
	// Waiters counts the waiters for the name, up to [MostWaiters]. A client has one entry in the queue for all its
	// waiters but readers. A waiter for a permit waits for any permit of the semaphore, and counts for each.
	Waiters int
	// Err is why there is no answer about this name.
	Err error
}

// Watcher keeps connections to the nodes, and the locks found so far. It is for one goroutine.
type Watcher struct {
	cfg   Config
	nodes []*asker
	found map[string]struct{}
}

// New makes a watcher. It connects when it is first used. New fails only for options that do not describe a node. The
// caller must close the watcher.
func New(cfg Config) (*Watcher, error) {
	w := &Watcher{cfg: cfg, found: make(map[string]struct{})}
	for _, opt := range cfg.Nodes {
		peer, err := NewPeer(opt, cfg.Patience, "quorumlock-top")
		if err != nil {
			w.Close()
			return nil, err
		}
		w.nodes = append(w.nodes, &asker{Peer: peer, limits: cfg.Limits, prefix: cfg.Prefix})
	}
	return w, nil
}

// Close closes all connections.
func (w *Watcher) Close() {
	for _, a := range w.nodes {
		a.Close()
	}
}

// Look asks all nodes at once. If a node does not answer, the facts say why.
func (w *Watcher) Look(ctx context.Context) *Facts {
	w.each(func(_ int, a *asker) {
		a.greet(ctx)
		a.explore(ctx, w.cfg.Names, w.cfg.MostPermits)
		a.search(ctx, w.cfg.Scan, w.found)
	})
	w.gather()
	names := w.names()
	w.each(func(_ int, a *asker) {
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

func (w *Watcher) each(ask func(int, *asker)) {
	var wg sync.WaitGroup
	for i, a := range w.nodes {
		wg.Go(func() { ask(i, a) })
	}
	wg.Wait()
}

// gather adds the locks that the nodes have found.
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

// forget drops found locks that no node holds any more. If one is acquired again, the search finds it again.
func (w *Watcher) forget() {
	for name := range w.found {
		if !slices.ContainsFunc(w.nodes, func(a *asker) bool { return len(a.said.Locks[name].Holders) > 0 }) {
			delete(w.found, name)
		}
	}
}

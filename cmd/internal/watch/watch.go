// Package watch asks a set of nodes for locks, semaphores and latches. It collects facts; the program that shows them
// interprets them.
//
// Only [Watcher.ForceRelease] and [Watcher.Evict] write to the nodes. Reads are bounded: a look searches a limited number
// of keys of each node, and reads at most [MostWaiters] entries of a queue.
package watch

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/slots"
	"github.com/quorumlock/quorumlock/node"
)

// MostWaiters limits the number of waiters that are counted for a name.
const MostWaiters = 100

// MostPermits is how many permits a semaphore has at most.
const MostPermits = slots.MaxPermits

// mostFound limits the number of locks that a look finds by its search.
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
	// Scan is the number of keys that a look searches on each node for other locks; 0 for none.
	Scan int
}

// Facts are the results of one look.
type Facts struct {
	// Names are all locks: first the names of [Config.Names] in their order, then the names that
	// the search found, sorted.
	Names []string
	// Whole is set if no lock is missing: either the search is off, or every node that answers was searched to the end.
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

// Watcher keeps connections to the nodes, and their last answers. It is for one goroutine.
type Watcher struct {
	cfg   Config
	nodes []*asker
}

// New makes a watcher. It connects when it is first used. New fails only for options that do not describe a node. The
// caller must close the watcher.
func New(cfg Config) (*Watcher, error) {
	w := &Watcher{cfg: cfg}
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
		a.search(ctx, w.cfg.Scan)
	})
	names, whole := w.names()
	w.each(func(_ int, a *asker) {
		a.inspect(ctx, names)
		a.count(ctx, names)
	})
	f := &Facts{Names: names, Whole: whole}
	for _, a := range w.nodes {
		f.Nodes = append(f.Nodes, a.said)
	}
	return f
}

func (w *Watcher) each(ask func(int, *asker)) {
	var wg sync.WaitGroup
	for i, a := range w.nodes {
		wg.Go(func() { ask(i, a) })
	}
	wg.Wait()
}

// names returns all names of the look, and whether no lock is missing.
func (w *Watcher) names() (names []string, whole bool) {
	found := make(map[string]bool)
	whole = true
	for _, a := range w.nodes {
		for _, name := range a.found {
			found[name] = true
		}
		whole = whole && (a.searched || a.said.Err != nil)
	}
	for _, name := range w.cfg.Names {
		delete(found, name)
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	others := slices.Sorted(maps.Keys(found))
	most := min(len(others), mostFound)
	return append(names, others[:most]...), whole && most == len(others)
}

package latch

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/quorum"
)

// watchers are the calls of one client that wait for latches. It is safe for concurrent use.
type watchers struct {
	env *Env
	// need is how many messages of different nodes make a watcher ask at once.
	need int

	// mu guards the fields below, and those of each watcher. No other mutex is locked while it is held.
	mu sync.Mutex
	of map[string][]*watcher // by the name of the latch, in the order in which they came
}

// watcher is a call that waits for a latch.
type watcher struct {
	all     *watchers
	name    string
	signals chan struct{}
	// listening are the nodes that were asked to report, and toldBy the nodes that have since.
	// mustAsk is set if the watcher should ask in any case. askedSettled is set if the last round
	// was asked with all subscriptions made.
	listening, toldBy     decision.Set
	mustAsk, askedSettled bool
	// entered are all nodes that were ever asked to report.
	entered decision.Set
}

// add routes messages about a latch to a new watcher, from its next round on.
func (ws *watchers) add(name string) *watcher {
	w := &watcher{all: ws, name: name, signals: make(chan struct{}, 1)}
	ws.mu.Lock()
	ws.of[name] = append(ws.of[name], w)
	ws.mu.Unlock()
	ws.env.Subscriptions.Use()
	return w
}

// remove removes a watcher, and reports whether another watcher of this client waits for the same
// latch.
func (ws *watchers) remove(w *watcher) (others bool) {
	ws.mu.Lock()
	rest := slices.DeleteFunc(ws.of[w.name], func(other *watcher) bool { return other == w })
	if others = len(rest) > 0; others {
		ws.of[w.name] = rest
	} else {
		delete(ws.of, w.name)
	}
	ws.mu.Unlock()
	ws.env.Subscriptions.Done()
	return others
}

// each calls f with each watcher of a latch, and makes it look at what f changed.
func (ws *watchers) each(name string, f func(*watcher)) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.of[name] {
		f(w)
		w.signal()
	}
}

// wake makes all watchers of a latch ask.
func (ws *watchers) wake(name string) { ws.each(name, func(w *watcher) { w.mustAsk = true }) }

// wakeAll makes all watchers ask.
func (ws *watchers) wakeAll() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, all := range ws.of {
		for _, w := range all {
			w.mustAsk = true
			w.signal()
		}
	}
}

func (w *watcher) signal() {
	select {
	case w.signals <- struct{}{}:
	default:
	}
}

// begin begins a round. It returns the nodes that should report later changes.
func (w *watcher) begin() decision.Set {
	listening, settled := w.all.env.Subscriptions.Listening()
	w.all.mu.Lock()
	defer w.all.mu.Unlock()
	w.listening, w.toldBy, w.mustAsk, w.askedSettled = decision.Set(listening), 0, false, settled
	w.entered |= w.listening
	return w.listening
}

// wait returns when to make another round: when enough nodes have reported, or a short time after
// the first; when subscriptions have changed; and after about a second in any case.
func (w *watcher) wait(ctx context.Context) Stop {
	env := w.all.env
	due := env.Clock.Now() + env.Recheck - time.Duration(env.Jitter()*float64(env.Recheck/4))
	first := true
	for {
		told, look := w.state()
		switch {
		case look || told.Len() >= w.all.need:
			return NotStopped
		case told != 0 && first:
			due, first = min(due, env.Clock.Now()+env.SettleTime()), false
		}
		left := due - env.Clock.Now()
		if left <= 0 {
			return NotStopped
		}
		if stop := env.sleep(ctx, left, w.signals); stop != NotStopped {
			return stop
		}
	}
}

// state returns which nodes have reported since the last round, and whether to ask in any case.
func (w *watcher) state() (told decision.Set, look bool) {
	_, settled := w.all.env.Subscriptions.Listening()
	w.all.mu.Lock()
	defer w.all.mu.Unlock()
	return w.toldBy, w.mustAsk || settled && !w.askedSettled
}

// Latches are the latches of one client. It is safe for concurrent use.
type Latches struct {
	env      Env
	need     int
	watchers watchers

	// mu guards the fields below. No other mutex is locked while it is held.
	mu sync.Mutex
	// generations has the latest generation of latches that were deleted a moment ago. With it, the
	// next call on such a latch need not be refused first. Entries are useful while clocks may
	// differ; see Call.operationToken. sweepAt is the size at which useless ones are removed.
	generations map[string]uint64
	sweepAt     int
	// restoring are the latches for which a round will restore forgetful nodes in a moment.
	restoring map[string]struct{}
}

// New returns the latches of a client.
func New(env Env) *Latches {
	l := &Latches{
		env:         env,
		need:        quorum.Majority().Need(env.Nodes.Len()),
		generations: make(map[string]uint64),
		restoring:   make(map[string]struct{}),
	}
	l.watchers = watchers{env: &l.env, need: l.need, of: make(map[string][]*watcher)}
	return l
}

// Counted passes a message of node i about a latch to its watchers.
func (l *Latches) Counted(i int, name string) {
	l.watchers.each(name, func(w *watcher) { w.toldBy = w.toldBy.With(i) })
}

// SubscriptionsChanged makes all watchers ask: they may have missed messages, or can receive them
// only from now on.
func (l *Latches) SubscriptionsChanged() { l.watchers.wakeAll() }

// minSweep is the least number of generations for which a sweep is worth its cost.
const minSweep = 64

// observeGeneration records a generation of a latch. Generations up to passed are no longer useful.
func (l *Latches) observeGeneration(name string, generation, passed uint64) {
	if generation <= passed {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.generations) >= max(l.sweepAt, minSweep) {
		maps.DeleteFunc(l.generations, func(_ string, old uint64) bool { return old <= passed })
		l.sweepAt = 2 * len(l.generations)
	}
	l.generations[name] = max(l.generations[name], generation)
}

// generationOf returns the latest known generation of a latch; 0 if none is known.
func (l *Latches) generationOf(name string) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.generations[name]
}

// beginRestore reports whether the caller may restore a latch later: no other round will. endRestore
// must follow.
func (l *Latches) beginRestore(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, later := l.restoring[name]
	l.restoring[name] = struct{}{}
	return !later
}

func (l *Latches) endRestore(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.restoring, name)
}

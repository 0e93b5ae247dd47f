package quorumlock

import (
	"math/bits"
	"time"

	"github.com/quorumlock/quorumlock/quorum"
)

// latchWatcher is a call that waits for a latch. The mutex of the router guards its fields, except
// nudged.
type latchWatcher struct {
	router *messageRouter
	name   string
	need   int
	nudged chan struct{}
	// listening are the nodes that were asked to report, and toldBy the nodes that have since.
	// mustAsk is set if the watcher should ask in any case. askedSettled is set if the last round
	// was asked with all subscriptions made.
	listening, toldBy     uint64
	mustAsk, askedSettled bool
	// entered are all nodes that were ever asked to report.
	entered quorum.Set
}

// addWatcher routes messages about a latch to a new watcher, from its next round on.
func (r *messageRouter) addWatcher(name string, need int) *latchWatcher {
	w := &latchWatcher{router: r, name: name, need: need, nudged: make(chan struct{}, 1)}
	r.mu.Lock()
	r.watchers[w] = struct{}{}
	r.mu.Unlock()
	r.subscriptions.Use(nil)
	return w
}

// removeWatcher removes a watcher, and reports whether another watcher of this client waits for the
// same latch.
func (r *messageRouter) removeWatcher(w *latchWatcher) (others bool) {
	r.mu.Lock()
	delete(r.watchers, w)
	for other := range r.watchers {
		others = others || other.name == w.name
	}
	r.mu.Unlock()
	r.subscriptions.Done(nil)
	return others
}

// wakeWatchersOf makes all watchers of a latch ask: the nodes may just have been told to forget
// them.
func (r *messageRouter) wakeWatchersOf(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for w := range r.watchers {
		if w.name == name {
			w.mustAsk = true
			w.nudge()
		}
	}
}

// onLatchMessage passes a message about a latch to its watchers.
func (r *messageRouter) onLatchMessage(i int, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for w := range r.watchers {
		if w.name == name {
			w.toldBy |= 1 << i
			w.nudge()
		}
	}
}

// wakeWatchers makes all watchers ask: they may have missed messages, or can receive them only from
// now on.
func (r *messageRouter) wakeWatchers() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for w := range r.watchers {
		w.mustAsk = true
		w.nudge()
	}
}

func (w *latchWatcher) nudge() {
	select {
	case w.nudged <- struct{}{}:
	default:
	}
}

// begin begins a round. It returns the nodes that should report later changes.
func (w *latchWatcher) begin() uint64 {
	listening, settled := w.router.subscriptions.Listening()
	w.router.mu.Lock()
	defer w.router.mu.Unlock()
	w.listening, w.toldBy, w.mustAsk, w.askedSettled = listening, 0, false, settled
	w.entered |= quorum.Set(listening)
	return listening
}

// wait returns when to make another round: when enough nodes have reported, or a short time after
// the first; when subscriptions have changed; and after about a second in any case, or less if soon
// is set.
func (w *latchWatcher) wait(x *latchCall, soon bool) error {
	c := w.router.client
	after := recheckInterval - time.Duration(c.cfg.Jitter()*float64(recheckInterval/4))
	if soon {
		after /= 16
	}
	due := c.clock.Now() + after
	first := true
	for {
		told, look := w.state()
		switch {
		case look || bits.OnesCount64(told) >= w.need:
			return nil
		case told != 0 && first:
			due, first = min(due, c.clock.Now()+c.settleTime()), false
		}
		left := due - c.clock.Now()
		if left <= 0 {
			return nil
		}
		if why := x.sleep(left, w.nudged); why != nil {
			return why
		}
	}
}

// state returns which nodes have reported since the last round, and whether to ask in any case.
func (w *latchWatcher) state() (told uint64, look bool) {
	_, settled := w.router.subscriptions.Listening()
	w.router.mu.Lock()
	defer w.router.mu.Unlock()
	return w.toldBy, w.mustAsk || settled && !w.askedSettled
}

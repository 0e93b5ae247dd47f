package quorumlock

import (
	"math/bits"
	"time"

	"github.com/quorumlock/quorumlock/quorum"
)

// watcher is who waits for a latch. All but its channel is guarded by the mutex of the router.
type watcher struct {
	router *router
	name   string
	need   int
	nudged chan struct{}
	// listening are the nodes that were asked to tell it, told those that have since; look is
	// set if it should ask in any case, and asked once it has with its subscriptions made.
	listening, told uint64
	look, asked     bool
	// entered are all nodes that ever were.
	entered quorum.Set
}

// watch has somebody told of a latch, from the next round on that carries its inbox.
func (r *router) watch(name string, need int) *watcher {
	w := &watcher{router: r, name: name, need: need, nudged: make(chan struct{}, 1)}
	r.mu.Lock()
	r.watchers[w] = struct{}{}
	r.mu.Unlock()
	r.subscriptions.Use(nil)
	return w
}

// unwatch ends that, and reports whether others of this client wait for the same latch.
func (r *router) unwatch(w *watcher) (others bool) {
	r.mu.Lock()
	delete(r.watchers, w)
	for other := range r.watchers {
		others = others || other.name == w.name
	}
	r.mu.Unlock()
	r.subscriptions.Done(nil)
	return others
}

// lookAgainFor makes all watchers of a latch ask: the nodes may just have been told to forget them.
func (r *router) lookAgainFor(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for w := range r.watchers {
		if w.name == name {
			w.look = true
			w.nudge()
		}
	}
}

// counted tells those who wait for a latch what a node has said of it.
func (r *router) counted(i int, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for w := range r.watchers {
		if w.name == name {
			w.told |= 1 << i
			w.nudge()
		}
	}
}

// lookAgain has all who wait for latches ask: they may have missed something, or can be told
// from now on.
func (r *router) lookAgain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for w := range r.watchers {
		w.look = true
		w.nudge()
	}
}

func (w *watcher) nudge() {
	select {
	case w.nudged <- struct{}{}:
	default:
	}
}

// begin begins a round: these are the nodes that are to tell what comes after it.
func (w *watcher) begin() uint64 {
	listening, settled := w.router.subscriptions.Listening()
	w.router.mu.Lock()
	defer w.router.mu.Unlock()
	w.listening, w.told, w.look, w.asked = listening, 0, false, settled
	w.entered |= quorum.Set(listening)
	return listening
}

// wait returns when another round is worthwhile: when enough nodes have told of the latch, or a
// moment after the first has; when subscriptions have changed; or after a while in any case, a
// shorter one if it should look soon.
func (w *watcher) wait(x *latchCall, soon bool) error {
	c := w.router.client
	after := recheck - time.Duration(c.cfg.Jitter()*float64(recheck/4))
	if soon {
		after /= 16
	}
	due := c.clock.Now() + after
	first := true
	for {
		told, look := w.news()
		switch {
		case look || bits.OnesCount64(told) >= w.need:
			return nil
		case told != 0 && first:
			due, first = min(due, c.clock.Now()+c.moment()), false
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

// news is what has happened since the last round: which nodes have told of the latch, and
// whether to look again whatever they say.
func (w *watcher) news() (told uint64, look bool) {
	_, settled := w.router.subscriptions.Listening()
	w.router.mu.Lock()
	defer w.router.mu.Unlock()
	return w.told, w.look || settled && !w.asked
}

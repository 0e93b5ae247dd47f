package quorumlock

import (
	"math/bits"
	"time"
)

// watcher is who waits for a latch. All but its channel is guarded by the mutex of the inboxes.
type watcher struct {
	inboxes *inboxes
	name    string
	need    int
	nudged  chan struct{}
	// listening are the nodes that were asked to tell it, told those that have since; look is
	// set if it should ask in any case, and asked once it has with its subscriptions made.
	listening, told uint64
	look, asked     bool
}

// watch has somebody told of a latch, from the next round on that carries its inbox.
func (b *inboxes) watch(name string, need int) *watcher {
	w := &watcher{inboxes: b, name: name, need: need, nudged: make(chan struct{}, 1)}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watchers == nil {
		b.watchers = make(map[*watcher]struct{})
	}
	b.watchers[w] = struct{}{}
	b.waiting++
	b.subscribe()
	return w
}

func (b *inboxes) unwatch(w *watcher) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.watchers, w)
	b.waiting--
	b.linger()
}

// counted tells those who wait for a latch what a node has said of it.
func (b *inboxes) counted(i int, name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for w := range b.watchers {
		if w.name == name {
			w.told |= 1 << i
			w.nudge()
		}
	}
}

// lookAgain has all who wait for latches ask: they may have missed something, or can be told
// from now on. The mutex is held.
func (b *inboxes) lookAgain() {
	for w := range b.watchers {
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
	listening, settled := w.inboxes.listening()
	w.inboxes.mu.Lock()
	defer w.inboxes.mu.Unlock()
	w.listening, w.told, w.look, w.asked = listening, 0, false, settled
	return listening
}

// wait returns when another round is worthwhile: when enough nodes have told of the latch, or a
// moment after the first has; when subscriptions have changed; or after a while in any case, a
// shorter one if it should look soon.
func (w *watcher) wait(x *latchCall, soon bool) error {
	c := w.inboxes.client
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
	_, settled := w.inboxes.listening()
	w.inboxes.mu.Lock()
	defer w.inboxes.mu.Unlock()
	return w.told, w.look || settled && !w.asked
}

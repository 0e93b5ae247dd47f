package latch

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// Await waits until enough ids have counted down.
func (x *Call) Await() (o Outcome) {
	var w *watcher
	var seen *quorum.LatchView
	defer func() {
		if w != nil {
			x.leave(w, o.ok())
		}
	}()
	need := x.latches.need
	var l readPolicy
	var last Outcome // of the last round that was not cut short
	for {
		var inboxes quorum.Set
		if w != nil {
			inboxes = w.begin()
		}
		v, g, o := x.glance(inboxes)
		if o.ok() && v.Full < need && l.shouldRead(g, x.latches.env.Jitter) {
			v, g, o = x.lookUp(seen, true)
			l.recordRead(g, o.ok())
		}
		switch {
		case o.CutShort && last.Result != Done: // the complete round says more
			last.Stopped = o.Stopped
			return last
		case o.Stopped != NotStopped:
			return o
		case v.Known && seen != nil && v.Generation != seen.Generation:
			return Outcome{Result: Deleted}
		case o.Result != Done && o.Result != NoQuorum:
			return o
		case o.ok() && (v.Full >= need || v.Done()):
			return o
		case v.Known && (seen == nil || len(v.IDs) > 0):
			seen = v
		}
		if w == nil {
			w = x.latches.addWatcher(x.name)
		}
		if last = o; o.ok() {
			last = Outcome{Result: Open, Left: v.LeftAtMost(), Count: v.Count}
		}
		if stop := w.wait(x, l.pace); stop != NotStopped {
			last.Stopped = stop
			return last
		}
	}
}

// glance reads how many ids the nodes have. The nodes in inboxes are told to report more ids.
//
// A node may answer after the decision. So a large latch is judged by the glance before this one,
// with the late answers: without them, its sizes seem to change, and rule out less.
func (x *Call) glance(inboxes quorum.Set) (*quorum.LatchView, glance, Outcome) {
	r := &round{kind: node.Latch, token: x.propose(), inboxes: inboxes}
	r.enough = func(v *quorum.LatchView) bool {
		return v.Full >= x.latches.need || v.Count > v.Most || v.Count == 0 && v.Holders >= x.latches.need
	}
	v, g, o := x.read(r, func(v *quorum.LatchView) bool { return v.Count > 0 })
	last := x.glanced
	x.glanced = r
	switch {
	case last == nil && g.isLarge():
		return v, glance{count: g.count, most: g.most}, o
	case last == nil:
		return v, g, o
	}
	last.mu.Lock()
	defer last.mu.Unlock()
	switch lv := last.view(); {
	case g.isLarge():
		most := g.most
		g = last.glance(&lv)
		g.count, g.most = v.Count, max(g.most, most)
	case v.Known:
		g.forgetful = g.forgetful || last.anyForgot(v)
	}
	return v, g, o
}

// leave ends the wait of a watcher. It tells the nodes to forget the client, unless the latch is
// done or another call of this client waits for it.
func (x *Call) leave(w *watcher, done bool) {
	x.mu.Lock()
	x.left = true // later operations of this call ask for no messages
	x.mu.Unlock()
	if others := x.latches.removeWatcher(w); others || done {
		return
	}
	env := &x.latches.env
	op := &node.Op{
		Kind: node.Latch, Names: []string{x.name}, TTL: x.ttl, Token: x.propose(), Limits: env.Limits,
		Latch: &node.LatchOp{Inbox: env.Inbox},
	}
	for i := range w.entered.All() {
		_ = env.Nodes.Submit(i, &dispatch.Call{Op: op, To: dispatch.Ignore}) // if it is lost, the node forgets the client later
	}
	x.latches.wakeWatchersOf(x.name) // the nodes may just have been told to forget them
}

// glance sums up the sizes of a latch on the nodes.
type glance struct {
	// count is the number to which the latch is set, most the largest size, and sum the sum of all
	// sizes. read is how many ids were read, of all nodes together.
	count, most, sum, read int
	// mayBeDone is set if the latch may be done by the sizes, forgetful if a node has lost its
	// memory.
	mayBeDone, forgetful bool
}

// isLarge reports whether reading all ids takes more than one operation on a node.
func (g *glance) isLarge() bool { return g.count > node.MaxListed }

// readPolicy decides when a waiter reads the ids of a latch. Usually it never does: it reads the
// sizes, and the latch is done once enough nodes have enough ids. It must read the ids if each node
// lacks some, or if a node has lost its memory and needs them all.
//
// All ids of a large latch cost as much as thousands of glances, and one waiter that reads them
// restores them for all. So waiters read them one after another: each waits for its turn first, and
// most find then that nothing is left to do.
type readPolicy struct {
	last glance
	// began is how many glances there were, up to firstGlances.
	began int
	// glances counts the glances at a latch that may be done, since the ids were read. read is how
	// many ids there were: while the sum of sizes equals it, there is nothing new to read.
	glances, read int
	// rest is for how many glances the waiter leaves a forgetful node to others, after its own
	// refill did not arrive. pause is the next rest.
	rest, pause int
	// queued is set while the waiter waits for its turn to read. turn is for how many more glances.
	queued bool
	turn   int
	// pace divides the usual time until the next glance.
	pace int
}

const (
	// patientGlances bounds the glances at a latch that may be done while its sizes still grow, for
	// each thousand of its ids. As long as they grow, a node with enough ids is about to report.
	patientGlances = 8
	// firstGlances at a large latch follow each other quickly: they cannot show growth yet.
	firstGlances = 2
	// lastTurn is the last turn to read.
	lastTurn = 4
	// paceOfTurns is the pace while a waiter waits for its turn: another waiter can read 10,000 ids
	// in a fraction of the time between two turns. paceOfLast is the pace while only one more node
	// needs enough ids.
	paceOfTurns, paceOfLast = 4, 16
)

// shouldRead reports whether the waiter should read the ids after a glance.
func (l *readPolicy) shouldRead(g glance, random func() float64) bool {
	needed := l.needsRead(g)
	switch {
	case g.most >= g.count:
		l.pace = paceOfLast
	case l.began < firstGlances && g.isLarge():
		l.began++
		l.pace = paceOfTurns
	default:
		l.pace = 1
	}
	if !needed || !g.isLarge() {
		l.queued = false
		return needed
	}
	if !l.queued {
		l.queued, l.turn = true, drawTurn(random())
	}
	if l.turn == 0 {
		l.queued = false
		return true
	}
	l.turn--
	l.pace = paceOfTurns
	return false
}

// needsRead reports whether some waiter should read the ids after a glance.
func (l *readPolicy) needsRead(g glance) bool {
	grows := g.sum != l.last.sum
	l.last = g
	switch {
	case g.forgetful && l.rest == 0:
		return true
	case g.forgetful:
		l.rest--
	default:
		l.rest, l.pause = 0, 0
	}
	if !g.mayBeDone || g.sum == l.read {
		l.glances = 0
		return false
	}
	l.glances++
	return !g.isLarge() || !grows || l.glances >= patientGlances*(g.count/node.MaxListed)
}

// drawTurn returns the turn of a waiter, from 0 to lastTurn, by a random number in [0, 1). The first
// turns are rare, and each turn is four times as likely as the one before. So of a few hundred
// waiters, few read first, although none knows how many there are. A lone waiter loses about the
// time of a usual glance.
func drawTurn(random float64) (turn int) {
	for turn = lastTurn; turn > 0 && random < 0.25; turn-- {
		random *= 4
	}
	return turn
}

// recordRead records that the caller tried to read the ids, and whether it read them.
func (l *readPolicy) recordRead(g glance, read bool) {
	l.glances, l.read = 0, 0
	if read {
		l.read = g.read
	}
	if g.forgetful {
		l.rest, l.pause = l.pause, min(2*l.pause+1, patientGlances)
	}
}

// watcher is a call that waits for a latch. The mutex of the latches guards its fields, except
// signals.
type watcher struct {
	latches *Latches
	name    string
	signals chan struct{}
	// listening are the nodes that were asked to report, and toldBy the nodes that have since.
	// mustAsk is set if the watcher should ask in any case. askedSettled is set if the last round
	// was asked with all subscriptions made.
	listening, toldBy     quorum.Set
	mustAsk, askedSettled bool
	// entered are all nodes that were ever asked to report.
	entered quorum.Set
}

// addWatcher routes messages about a latch to a new watcher, from its next round on.
func (l *Latches) addWatcher(name string) *watcher {
	w := &watcher{latches: l, name: name, signals: make(chan struct{}, 1)}
	l.mu.Lock()
	if l.watchers[name] == nil {
		l.watchers[name] = make(map[*watcher]struct{})
	}
	l.watchers[name][w] = struct{}{}
	l.mu.Unlock()
	l.env.Subscriptions.Use(nil)
	return w
}

// removeWatcher removes a watcher, and reports whether another watcher of this client waits for the
// same latch.
func (l *Latches) removeWatcher(w *watcher) (others bool) {
	l.mu.Lock()
	delete(l.watchers[w.name], w)
	if others = len(l.watchers[w.name]) > 0; !others {
		delete(l.watchers, w.name)
	}
	l.mu.Unlock()
	l.env.Subscriptions.Done(nil)
	return others
}

// eachWatcherOf calls f with each watcher of a latch, and makes it look at what f changed.
func (l *Latches) eachWatcherOf(name string, f func(*watcher)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.watchers[name] {
		f(w)
		w.signal()
	}
}

func (l *Latches) wakeWatchersOf(name string) {
	l.eachWatcherOf(name, func(w *watcher) { w.mustAsk = true })
}

// Counted passes a message of node i about a latch to its watchers.
func (l *Latches) Counted(i int, name string) {
	l.eachWatcherOf(name, func(w *watcher) { w.toldBy = w.toldBy.With(i) })
}

// SubscriptionsChanged makes all watchers ask: they may have missed messages, or can receive them
// only from now on.
func (l *Latches) SubscriptionsChanged() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, all := range l.watchers {
		for w := range all {
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
func (w *watcher) begin() quorum.Set {
	listening, settled := w.latches.env.Subscriptions.Listening()
	w.latches.mu.Lock()
	defer w.latches.mu.Unlock()
	w.listening, w.toldBy, w.mustAsk, w.askedSettled = quorum.Set(listening), 0, false, settled
	w.entered |= w.listening
	return w.listening
}

// wait returns when to make another round: when enough nodes have reported, or a short time after
// the first; when subscriptions have changed; and after about a second in any case, divided by pace.
func (w *watcher) wait(x *Call, pace int) Stop {
	env := &w.latches.env
	after := env.Recheck - time.Duration(env.Jitter()*float64(env.Recheck/4))
	due := env.Clock.Now() + after/time.Duration(max(pace, 1))
	first := true
	for {
		told, look := w.state()
		switch {
		case look || told.Len() >= w.latches.need:
			return NotStopped
		case told != 0 && first:
			due, first = min(due, env.Clock.Now()+env.SettleTime()), false
		}
		left := due - env.Clock.Now()
		if left <= 0 {
			return NotStopped
		}
		if stop := x.sleep(left, w.signals); stop != NotStopped {
			return stop
		}
	}
}

// state returns which nodes have reported since the last round, and whether to ask in any case.
func (w *watcher) state() (told quorum.Set, look bool) {
	_, settled := w.latches.env.Subscriptions.Listening()
	w.latches.mu.Lock()
	defer w.latches.mu.Unlock()
	return w.toldBy, w.mustAsk || settled && !w.askedSettled
}

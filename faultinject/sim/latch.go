package sim

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/history"
	"github.com/quorumlock/quorumlock/faultinject/workload"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/quorum"
)

// latchName is the name of the latch. A lock has the same name; they are independent.
const latchName = "a"

// mostApart bounds the offset of a client's wall clock in cases with a latch. Late calls can be distinguished from
// later ones only if clients agree within MaxClockSkew. Different rates move the clocks further apart.
func (c *Case) mostApart() time.Duration { return c.limits().MaxClockSkew/2 - span/50 }

// drawLatches draws a case in which most tasks use a latch. It is set, counted down, awaited, read and deleted, and
// then set again with the same ids. In most cases a majority of the nodes never forgets, so all promises of a latch
// hold; in the others they may not.
func drawLatches(seed uint64) *Case {
	c := drawLocks(seed)
	d := drawer{Drawer: workload.NewDrawer(seed, 9)}
	c.Kind = OfLatches
	c.listAll()
	if c.moves() { // no latch survives that
		c.Faults = nil
	}
	if d.IntN(4) > 0 {
		d.spareMajority(c)
	}
	for i, clock := range c.Clients {
		c.Clients[i].Wall = min(max(clock.Wall, -c.mostApart()), c.mostApart())
	}
	for _, s := range c.Faults {
		d.moments = append(d.moments, s.At)
		if s.For > 0 {
			d.moments = append(d.moments, s.At+s.For)
		}
	}
	c.Tasks = slices.DeleteFunc(c.Tasks, func(Task) bool { return d.IntN(4) > 0 })
	ends := []time.Duration{span}
	for range d.IntN(3) {
		ends = append(ends, d.when(span))
	}
	slices.Sort(ends)
	began := d.UpTo(ttl)
	for i, end := range ends {
		if end > began {
			d.generation(c, began, end, i == len(ends)-1)
		}
		began = end + d.UpTo(ttl/20)
	}
	if seed%16 == 9 && len(c.Nodes) == 3 { // from a source of its own, so that other cases stay the same
		drawer{workload.NewDrawer(seed, 12), nil}.lateCountCase(c)
	}
	return c
}

// lateCountCase: a client counts down, and reaches one node at once, the second one late, and the third one not at all.
// Meanwhile the first node loses its memory, and a rival reads the latch and restores it there. Later the rival does not
// reach the second node.
func (d drawer) lateCountCase(c *Case) {
	c.Opened, c.Timeout, c.Sound = true, ttl/3, 2
	c.Clients[holder].Wall, c.Clients[rival].Wall = 0, 0
	c.Weather = Weather{Least: c.Weather.Least, Most: c.Weather.Least + d.UpTo(ttl/500)}
	c.Tasks, c.Faults = nil, nil
	const first = 2 // the others never lose their memory
	second := d.IntN(2)
	began := d.Between(ttl/100, ttl)
	at := began + d.Between(ttl/10, ttl)
	lost := at + 2*c.Weather.Most + d.UpTo(ttl/200)
	late := at + d.Between(ttl/50, ttl/3)
	d.callsOf(c, rival, began, workload.LatchCall{Kind: history.Set, Count: 3})
	d.callsOf(c, holder, at, countDown(0))
	d.callsOf(c, rival, lost+d.Between(ttl/500, ttl/50), workload.LatchCall{Kind: history.Count})
	d.callsOf(c, rival, late+d.Between(ttl/20, ttl/2), workload.LatchCall{Kind: history.Count})
	c.breaks(faultinject.Part, at-d.UpTo(ttl/50), late, second, holder)
	c.breaks(faultinject.Part, at-d.UpTo(ttl/50), late+ttl, 1-second, holder)
	c.breaks(faultinject.Part, late+d.UpTo(ttl/50), late+ttl, second, rival)
	d.loses(c, lost, first)
}

// spareMajority keeps a majority of the nodes from losing their memory; others lose it instead.
func (d drawer) spareMajority(c *Case) {
	c.Sound = quorum.Majority().Need(len(c.Nodes))
	rest := len(c.Nodes) - c.Sound
	c.Faults = slices.DeleteFunc(c.Faults, func(s faultinject.Step) bool {
		return rest == 0 && slices.Contains(losses, s.Fault)
	})
	for i, s := range c.Faults {
		if slices.Contains(losses, s.Fault) && s.Node < c.Sound {
			c.Faults[i].Node = c.Sound + d.IntN(rest)
		}
	}
}

// lastly is just before the faults are over.
const lastly = span - time.Microsecond

// generation draws the calls of a latch from one deletion to the next.
func (d drawer) generation(c *Case, from, to time.Duration, last bool) {
	at := func() time.Duration {
		switch at := d.when(span); {
		case at >= from && at < to:
			return at // soon after something else, mostly
		case d.IntN(4) == 0:
			return max(from, to-d.UpTo(ttl/10))
		default:
			return from + d.UpTo(to-from)
		}
	}
	if !c.undisturbed() && d.IntN(2) == 0 { // a node is late where the latch is deleted
		c.breaks(faultinject.Part, max(from, to-d.UpTo(ttl/2)), min(to+d.UpTo(ttl/2), lastly), d.IntN(len(c.Nodes)), d.IntN(len(c.Clients)))
	}
	n := 1 + d.IntN(4)
	for i := range 1 + d.IntN(3) {
		count := n
		if d.IntN(16) == 0 {
			count++ // a mistake of the program
		}
		soon := from
		if i > 0 {
			soon = at()
		}
		d.calls(c, soon+d.UpTo(ttl/10), workload.LatchCall{Kind: history.Set, Count: count})
	}
	if scatters := !c.undisturbed() && d.IntN(4) == 0; scatters {
		d.cutOffInTurn(c, at(), to, n)
	} else {
		d.counts(c, at, n)
	}
	for range 1 + d.IntN(3) {
		d.calls(c, at(), workload.LatchCall{Kind: history.Await})
	}
	for range d.IntN(5) {
		d.calls(c, at(), workload.LatchCall{Kind: history.Count})
	}
	if !last || d.IntN(4) == 0 {
		d.calls(c, min(to, lastly), workload.LatchCall{Kind: history.Delete})
	}
}

// counts draws the count-downs of a latch that is set to n.
func (d drawer) counts(c *Case, at func() time.Duration, n int) {
	for id := range n + d.IntN(2) {
		for range 1 + d.IntN(2) {
			d.calls(c, at(), countDown(id))
		}
	}
	if d.IntN(2) == 0 { // one client makes these count-downs at once
		begin, client := at(), d.IntN(len(c.Clients))
		for id := range n + d.IntN(2) {
			d.callsOf(c, client, begin+d.UpTo(c.Weather.Most), countDown(id))
		}
	}
}

// cutOffInTurn draws n count-downs of one client. In each, the client is cut off from another node, and
// has noticed that by an earlier call. So if n is large enough, each node lacks an id, and the
// waiters have to combine the ids.
func (d drawer) cutOffInTurn(c *Case, from, to time.Duration, n int) {
	client, first := d.IntN(len(c.Clients)), d.IntN(len(c.Nodes))
	each := min(to-from, 2*ttl) / time.Duration(n)
	for id := range n {
		begin := from + time.Duration(id)*each
		c.breaks(faultinject.Part, begin, begin+each*3/4, (first+id)%len(c.Nodes), client)
		d.callsOf(c, client, begin+d.UpTo(time.Millisecond), workload.LatchCall{Kind: history.Set, Count: n})
		d.callsOf(c, client, begin+each/2+d.UpTo(each/8), countDown(id))
	}
}

func countDown(id int) workload.LatchCall {
	return workload.LatchCall{Kind: history.CountDown, ID: string(rune('p' + id))}
}

func (d drawer) calls(c *Case, at time.Duration, l workload.LatchCall) {
	d.callsOf(c, d.IntN(len(c.Clients)), at, l)
}

func (d drawer) callsOf(c *Case, client int, at time.Duration, l workload.LatchCall) {
	t := Task{At: at, Client: client, Latch: &l, Use: workload.Use{Patience: d.UpTo(3 * ttl)}, Endless: d.IntN(2) == 0}
	if d.IntN(3) == 0 && l.Kind != history.Delete {
		t.Again = 1 + d.IntN(2)
	}
	c.Tasks = append(c.Tasks, t)
}

// lastCall is when the last calls of a latch are cancelled.
func (c *Case) lastCall() time.Duration { return span + c.limits().Recovery() + 3*time.Second }

// useLatch runs a task that uses the latch, repeatedly if the task says so.
func (w *world) useLatch(index int, t Task) {
	rng := rand.New(rand.NewPCG(w.c.Seed, uint64(200+index)))
	for range t.Again + 1 {
		p := w.process(t.Client)
		if p == nil || !p.awake() || w.now() > span {
			return
		}
		until := min(w.now()+t.Patience, span)
		if t.Endless {
			until = w.c.lastCall()
		}
		ctx, cancel := context.WithTimeout(context.Background(), until-w.now()+taskOffset(index))
		_ = w.call(ctx, p, index, *t.Latch)
		cancel()
		w.apart.Sleep(time.Duration(rng.Int64N(int64(ttl / 4))))
	}
}

func (w *world) call(ctx context.Context, p *process, worker int, do workload.LatchCall) error {
	w.note("%s begins to %s", p.label, do)
	w.latch.begins(do.Kind)
	var options quorumlock.LatchOptions
	if worker%2 == 0 {
		options.TTL = 10 * time.Second
	}
	left, err := do.Make(ctx, workload.LatchOf(p.client, latchName, options), p.recorder, worker)
	if do.Kind == history.Count && err == nil {
		w.note("%s has found that %d are left", p.label, left)
	} else {
		w.note("%s is done, as it began to %s: %v", p.label, do, err)
	}
	return err
}

// latchAfterFaults checks that the latch can be read and used anew after the faults.
func (w *world) latchAfterFaults(newcomer *process) {
	if w.c.Kind != OfLatches {
		return
	}
	// Duplicates have arrived by then.
	workload.Sleep(context.Background(), max(0, span+w.c.limits().MaxTTL+ttl*3/2-w.now()))
	w.readsInTheEnd(newcomer)
	old := []*process{newcomer}
	for client, p := range w.processes {
		if p != nil && w.c.timely(client) {
			old = append(old, p)
		}
	}
	w.latch.ends()
	bound, cancel := context.WithTimeout(context.Background(), w.c.limits().Recovery()+2*time.Second)
	defer cancel()
	latch := newcomer.client.Latch(latchName)
	err := cmp.Or(latch.Delete(bound), latch.Set(bound, len(old)))
	// The calls follow one another. On a slow network each is confirmed, and so takes four messages one after another.
	calls, cancel := context.WithTimeout(context.Background(), time.Duration(len(old))*2*time.Second)
	defer cancel()
	for i, p := range old {
		if left, wrong := latch.Count(calls); err == nil && (wrong != nil || left != len(old)-i) {
			w.violated(Counting, "a latch was set to %d anew, %d ids counted down, and %d are left: %v", len(old), i, left, wrong)
		}
		err = cmp.Or(err, p.client.Latch(latchName).CountDown(calls, "again "+p.label))
	}
	for _, p := range old {
		err = cmp.Or(err, p.client.Latch(latchName).Await(calls))
	}
	if err != nil {
		w.violated(Progress, "R and 2 s after the faults, with 2 s for each client, the latch cannot be deleted, set and counted down: %v", err)
	}
}

// readsInTheEnd lets a newcomer read the latch, so that lost count-downs are detected.
func (w *world) readsInTheEnd(newcomer *process) {
	bound, cancel := context.WithTimeout(context.Background(), w.c.limits().Recovery()+2*time.Second)
	defer cancel()
	for {
		err := w.call(bound, newcomer, 0, workload.LatchCall{Kind: history.Count})
		if !errors.Is(err, quorumlock.ErrNoQuorum) {
			return
		}
		if !workload.Sleep(bound, ttl/20) {
			w.latch.checkUnreadable(w, err)
			return
		}
	}
}

// latchMemory is the nodes' knowledge of the latch, and their losses of it. It decides which promises hold.
type latchMemory struct {
	mu    sync.Mutex
	ended bool
	// set is set once a client has begun to set the latch.
	set bool
	// forgot marks nodes that have lost their memory since, and have not got it back.
	forgot []bool
	// nodes are the nodes' knowledge. unreadable are the periods in which too few nodes knew enough to read the latch.
	nodes      []latchNode
	unreadable []unreadablePeriod
	// excused is set if too many nodes have forgotten: the latch may be lost.
	excused bool
}

func (l *latchMemory) begins(kind history.Kind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set = l.set || kind == history.Set
}

// ends ignores what happens later.
func (l *latchMemory) ends() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}

func (l *latchMemory) init(c *Case) {
	l.forgot, l.nodes = make([]bool, len(c.Nodes)), make([]latchNode, len(c.Nodes))
	for i := range l.nodes {
		if !c.Opened {
			l.knows(i, forgetful, 0)
		}
	}
}

// lost records that a node has lost its memory. That may be one too many.
func (l *latchMemory) lost(w *world, server int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.knows(server, forgetful, w.now())
	l.forgot[server] = l.set
	// Nodes that forgot before a client set the latch, and do not know of it yet, count too: this loss may have been
	// of the last majority that knew.
	l.excused = l.excused || tooMany(l.forgot) || l.set && tooMany(unaware(l.nodes))
}

func tooMany(nodes []bool) bool {
	n := 0
	for _, is := range nodes {
		if is {
			n++
		}
	}
	return n > len(nodes)-quorum.Majority().Need(len(nodes))
}

// answered updates the memory from a node's answer: the node got back its memory, or knows of a later deletion. If
// it has recovered and was told nothing, no client could use the latch. Then the latch may count as never set.
func (l *latchMemory) answered(w *world, server int, r wire.Reply) {
	s := r.Latch
	if s == nil || r.Err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	n := newLatchNode(s, w.c.limits())
	l.knows(server, n, w.now())
	switch {
	case !l.forgot[server]:
	case s.Whole, s.Generation > n.certain:
		l.forgot[server] = false
	case r.Recovering == 0 && (s.Count == 0 || l.setAnew(n)):
		l.excused = true
	}
}

// setAnew reports whether a node knows a later time at which the latch was set than another node: a client has set it
// again there. Requires l.mu.
func (l *latchMemory) setAnew(n latchNode) bool {
	return slices.ContainsFunc(l.nodes, func(other latchNode) bool {
		return other.set && other.generation == n.generation && other.since < n.since
	})
}

// checkUnreadable checks whether the latch may be unreadable at the end.
func (l *latchMemory) checkUnreadable(w *world, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.excused && !tooMany(unaware(l.nodes)) {
		w.violated(Progress, "R and 2 s after the faults the latch cannot be read: %v", err)
	}
}

// latchNode is a node's knowledge of the latch when it last answered.
type latchNode struct {
	// forgot is set if the node has ever lost its memory. Everything newer than certain, in tokens, it was told after
	// that, if at all.
	forgot  bool
	certain uint64

	generation, since uint64
	set, whole        bool
}

// forgetful is a node that has lost its memory and has not answered since.
var forgetful = latchNode{forgot: true, certain: math.MaxUint64}

// beforeRestoring is how long no client restores a node after a loss, and the least time between a loss and a later Set
// or deletion that makes up for it (ADR 59).
func beforeRestoring(limits wire.Limits) time.Duration {
	return limits.Recovery()/8*5/4 + time.Millisecond
}

func newLatchNode(s *wire.LatchState, limits wire.Limits) latchNode {
	began := s.Lost
	return latchNode{
		forgot: began > 0, certain: uint64(began + (limits.MaxClockSkew + beforeRestoring(limits)).Microseconds()),
		generation: s.Generation, since: s.Since, set: s.Count > 0, whole: s.Whole,
	}
}

// unaware returns the nodes that may have forgotten parts of the latest generation. They have lost their memory,
// perhaps since it began. Since then, they have neither got it back nor been told that the latch is set. No node
// knows of an earlier time.
func unaware(nodes []latchNode) []bool {
	var latest, first uint64
	for _, n := range nodes {
		latest = max(latest, n.generation)
	}
	for _, n := range nodes {
		if n.set && n.generation == latest && (first == 0 || n.since < first) {
			first = n.since
		}
	}
	is := make([]bool, len(nodes))
	for i, n := range nodes {
		told := n.set && n.generation == latest && (n.whole || first > n.certain)
		is[i] = n.forgot && !told && latest <= n.certain
	}
	return is
}

// unreadablePeriod is a period in which the latch could not be read, because too many nodes were unaware.
type unreadablePeriod struct {
	from, to time.Duration
}

func (l *latchMemory) knows(server int, n latchNode, now time.Duration) {
	l.nodes[server] = n
	last := len(l.unreadable) - 1
	was := last >= 0 && l.unreadable[last].to == forever
	switch is := tooMany(unaware(l.nodes)); {
	case is && !was:
		l.unreadable = append(l.unreadable, unreadablePeriod{now, forever})
	case was && !is:
		l.unreadable[last].to = now
	}
}

// forever is the end of a period that has not ended.
const forever = time.Duration(math.MaxInt64)

// readableFor returns the longest period, between two times, in which the latch could be read because enough nodes were
// aware.
func (l *latchMemory) readableFor(from, to time.Duration) (longest time.Duration) {
	for _, s := range append(slices.Clone(l.unreadable), unreadablePeriod{from: to, to: forever}) {
		longest = max(longest, min(s.from, to)-from)
		from = max(from, s.to)
	}
	return longest
}

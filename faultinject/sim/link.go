package sim

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// link is the way of one process to one server and back, as a node of its client.
type link struct {
	process *process
	server  *server
	rng     *rand.Rand

	path *path

	mu sync.Mutex
	// sent counts exchanges. The first ones, up to number over, had ended before one was sent that has arrived.
	sent, over int
	// flying are the numbers of the exchanges under way, in order.
	flying []int
	// broken is set if the last exchange failed, so that the next must connect first. severed is closed then.
	broken  bool
	severed chan struct{}
	// released has the owners whose release has run.
	released map[string]bool
	// identity and process are those of the server, as the client learned with its connection.
	identity, serving string
}

func newLink(p *process, s *server, w *path, seed uint64) *link {
	w.broken.Store(false) // another process may have left it so
	return &link{process: p, server: s, path: w, rng: rand.New(rand.NewPCG(seed, 3)), released: make(map[string]bool), severed: make(chan struct{})}
}

// RoundTrip implements [node.Node]. Exchanges overlap in half of the cases, if messages take long.
func (l *link) RoundTrip() time.Duration {
	if c := l.server.world.c; c.Seed%2 == 0 {
		return 2 * c.Weather.Most
	}
	return 0
}

// Name implements [node.Node].
func (l *link) Name() string { return l.server.name }

// Server implements [node.Node].
func (l *link) Server() (identity, process string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.identity, l.serving
}

// Close implements [node.Node].
func (l *link) Close() error { return nil }

// Probe implements [node.Node].
func (l *link) Probe(context.Context) error {
	if err, _ := l.exchange(nil, nil); err != nil {
		return &node.Error{Node: l.Name(), Reason: err}
	}
	return nil
}

// Do implements [node.Node].
func (l *link) Do(_ context.Context, ops []wire.Op, replies []wire.Reply) {
	err, unsent := l.exchange(slices.Clone(ops), replies)
	if err == nil {
		return
	}
	for i, op := range ops {
		replies[i] = wire.Reply{Err: &node.Error{Node: l.Name(), Op: op.Kind.String(), Reason: err}, Unsent: unsent}
	}
}

// Eviction implements [node.Node].
func (*link) Eviction() string { return "" }

// Unseen implements [node.Node].
func (*link) Unseen() string { return "" }

// List implements [node.Node]. It comes and goes as a Do without operations does, and then reads what the server has.
func (l *link) List(ctx context.Context, cursor uint64) (names []string, next uint64, err error) {
	if err := l.Probe(ctx); err != nil {
		return nil, 0, err
	}
	return l.server.node().List(ctx, cursor)
}

// exchange sends operations and waits for the answer, at most for the node's timeout. The operations may still run
// later.
func (l *link) exchange(ops []wire.Op, replies []wire.Reply) (err error, unsent bool) {
	if !l.process.awake() {
		return node.ErrClosed, true
	}
	x, began := l.newExchange(ops), l.server.world.now()
	l.carry(x.trip, x.serve, func() { close(x.done) })
	bound := l.server.world.apart.NewTimer(nodeBound)
	defer bound.Stop()
	select {
	case <-x.severed: // another exchange has failed
	case <-x.done:
		err, unsent = x.err, x.err != nil && x.unsent
	case <-bound.C:
		err = node.ErrTimeout
	case <-l.process.dead:
		return node.ErrClosed, false
	}
	l.process.awake() // a frozen process learns of it later
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flying = slices.DeleteFunc(l.flying, func(number int) bool { return number == x.number })
	if x.severed != l.severed {
		return node.ErrUnreachable, false
	}
	switch late := l.server.world.now()-began > l.server.world.c.Timeout/2; {
	case err != nil || late:
		l.path.broken.Store(true)
	case slices.ContainsFunc(ops, func(op wire.Op) bool { return op.Kind != wire.Enlist }):
		l.path.broken.Store(false)
	}
	if l.broken = err != nil; l.broken {
		close(l.severed)
		l.severed = make(chan struct{})
	} else {
		copy(replies, x.replies)
		if x.connects || l.serving != x.process { // a server that forgets leaves connections open
			l.identity, l.serving = x.identity, x.process
		}
	}
	return err, unsent
}

// pausing is the endpoint of a node in memory, whose second rounds can take time.
type pausing interface {
	DoWithPause(ctx context.Context, ops []wire.Op, replies []wire.Reply, pause func() error)
}

// exchange is one batch of operations in flight, and its fate.
type exchange struct {
	link   *link
	number int
	// after is the number of the last exchange such that it and all before it had ended when this one was sent.
	after   int
	severed chan struct{}
	life    int
	ops     []wire.Op
	replies []wire.Reply
	trip
	// double makes it run twice, the second time later by stray.
	double bool
	stray  time.Duration

	// ran is when it ran. connects is set if it made the connection, and identity and process are those of the server.
	ran               time.Duration
	connects          bool
	identity, process string

	done   chan struct{}
	err    error
	unsent bool
}

func (l *link) newExchange(ops []wire.Op) *exchange {
	l.mu.Lock()
	defer l.mu.Unlock()
	after := l.sent
	if len(l.flying) > 0 {
		after = l.flying[0] - 1
	}
	l.sent++
	l.flying = append(l.flying, l.sent)
	w := l.server.world.weather()
	t := newTrip(l.rng, w)
	late := time.Duration(l.rng.Int64N(int64(l.server.world.c.limits().MaxTTL)))
	if l.rng.Float64() < w.Late {
		t.there += late
	}
	return &exchange{
		link: l, number: l.sent, after: after, severed: l.severed, ops: ops, replies: make([]wire.Reply, len(ops)),
		life: l.server.currentLife(), trip: t,
		stray:  time.Duration(l.rng.Int64N(int64(w.Stray) + 1)),
		double: l.rng.Float64() < w.Double,
		done:   make(chan struct{}),
	}
}

// serve runs the batch, and perhaps a duplicate.
func (x *exchange) serve(alive bool) {
	if x.run(alive) && x.double {
		x.link.server.world.Go(x.again)
	}
}

// run runs the batch on the server. A server that has restarted knows nothing of the connection. Requests of an old
// connection do not run after the commands of a new one, which kills it first, unless the weather allows that.
// Exchanges that overlap run in any order.
func (x *exchange) run(alive bool) bool {
	l := x.link
	late := x.late()
	l.mu.Lock()
	l.over = max(l.over, x.after)
	x.connects = l.broken
	l.mu.Unlock()
	if !alive || late {
		x.err, x.unsent = node.ErrUnreachable, x.connects && !alive
		return false
	}
	x.identity, x.process = l.server.who()
	if len(x.ops) > 0 {
		x.inOrder()
		x.ran = l.server.world.now()
		ops, replies := x.inCompany()
		l.server.node().Endpoint.(pausing).DoWithPause(context.Background(), ops, replies, x.pause) //nolint:forcetypeassert // in memory
		copy(x.replies, replies)
		l.server.world.ran(l, x)
		l.server.maybeForget(x)
	}
	return true
}

// inCompany returns the operations that run, and where their replies go. In one case of four, a lone one runs beside the
// release of a lock that nobody holds, because few callers meet here, and the script for many operations would hardly run.
func (x *exchange) inCompany() ([]wire.Op, []wire.Reply) {
	if len(x.ops) != 1 || x.link.server.world.c.Seed%4 != 2 {
		return x.ops, x.replies
	}
	nothing := wire.Op{Kind: wire.Release, Names: []string{"company"}, Owner: "nobody:0", TTL: x.ops[0].TTL, Limits: x.ops[0].Limits}
	return []wire.Op{x.ops[0], nothing}, make([]wire.Reply, 2)
}

// late reports whether the connection of the exchange is gone.
func (x *exchange) late() bool {
	l := x.link
	l.mu.Lock()
	defer l.mu.Unlock()
	return (x.number <= l.over || x.life != l.server.currentLife()) && !l.server.world.weather().Unordered
}

// pause lets the time of a further round trip pass before some operations run again. If the connection is gone then, or the
// server does not run, the exchange fails.
func (x *exchange) pause() error {
	s := x.link.server
	s.world.apart.Sleep(x.there + x.back)
	if x.late() || !s.runs() {
		x.err = node.ErrUnreachable
	}
	return x.err
}

// inOrder checks that no command of an owner runs after its release, unless the network reorders.
func (x *exchange) inOrder() {
	l := x.link
	if w := l.server.world.c.Weather; w.Unordered || w.Double > 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, op := range x.ops {
		switch {
		case op.Owner == "": // a waiter leaves
		case op.Kind == wire.Release:
			l.released[op.Owner] = true
		case l.released[op.Owner]:
			l.server.world.violated(Tidiness, "%s runs an %s of %s after its release", l.Name(), op.Kind, l.server.world.short(op.Owner))
		}
	}
}

// again runs a duplicate. Its answer is dropped.
func (x *exchange) again() {
	x.link.server.world.apart.Sleep(x.stray)
	second := *x
	second.replies = make([]wire.Reply, len(x.ops))
	x.link.server.arrive(func(alive bool) { second.run(alive) })
}

// trip is the way of a request to a server, and of the answer back.
type trip struct {
	// there and back are the delays. settle separates messages that a heal releases at once.
	there, back, settle time.Duration
	lostThere, lostBack bool
}

// newTrip draws a trip. The number of draws is the same in any weather, so that a loss does not change later draws.
func newTrip(rng *rand.Rand, w Weather) trip {
	spread := int64(w.Most-w.Least) + 1
	return trip{
		there:     w.Least + time.Duration(rng.Int64N(spread)),
		back:      w.Least + time.Duration(rng.Int64N(spread)),
		settle:    time.Duration(rng.Int64N(int64(time.Millisecond))),
		lostThere: rng.Float64() < w.Lose,
		lostBack:  rng.Float64() < w.Lose,
	}
}

// deepen makes the goroutine's stack deep enough for a script, whose nested calls would make it grow step by step.
//
//go:noinline
func deepen(at int) byte {
	var room [12 << 10]byte
	return room[at]
}

// carry carries a request to the server, which serves it now, at the end of a pause, or never, and then the answer back.
func (l *link) carry(t trip, serve func(alive bool), answered func()) {
	l.server.world.Go(func() {
		l.path.there.pass(l.server.world.apart, t.there, t.settle)
		if t.lostThere {
			return
		}
		l.server.arrive(func(alive bool) {
			deepen(0)
			serve(alive)
			l.server.world.Go(func() {
				l.path.back.pass(l.server.world.apart, t.back, t.settle)
				if !t.lostBack {
					answered()
				}
			})
		})
	})
}

type path struct {
	there, back direction
	// broken is set once an exchange of the client fails or comes late: it takes the server for down until the server has
	// noted its list again. That is over once it asks for anything else.
	broken atomic.Bool
}

func newPaths(servers int) []*path {
	paths := make([]*path, servers)
	for i := range paths {
		paths[i] = &path{}
	}
	return paths
}

func (w *path) applyFault(step faultinject.Step, begin bool) {
	switch step.Fault {
	case faultinject.Part:
		w.there.cut(begin)
		w.back.cut(begin)
	case faultinject.Deafen:
		w.there.cut(begin)
	case faultinject.Mute:
		w.back.cut(begin)
	case faultinject.Slow:
		w.there.slow(step.Amount, begin)
		w.back.slow(step.Amount, begin)
	}
}

type direction struct {
	mu     sync.Mutex
	cuts   int
	extra  time.Duration
	healed chan struct{}
}

func (d *direction) cut(begin bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if begin {
		if d.cuts++; d.cuts == 1 {
			d.healed = make(chan struct{})
		}
		return
	}
	if d.cuts--; d.cuts == 0 {
		close(d.healed)
	}
}

func (d *direction) slow(by time.Duration, begin bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !begin {
		by = -by
	}
	d.extra += by
}

// state reports whether messages pass without an extra delay both ways, and whether they pass.
func (w *path) state() (clear, open bool) {
	clear, open = true, true
	for _, d := range []*direction{&w.there, &w.back} {
		d.mu.Lock()
		clear, open = clear && d.cuts == 0 && d.extra == 0, open && d.cuts == 0
		d.mu.Unlock()
	}
	return clear, open
}

// pass returns when a message has arrived. A message sent into a cut arrives when the cut heals, because TCP
// retransmits.
func (d *direction) pass(a *apart, takes, settle time.Duration) {
	d.mu.Lock()
	takes += d.extra
	d.mu.Unlock()
	for {
		a.Sleep(takes)
		d.mu.Lock()
		cut, healed := d.cuts > 0, d.healed
		d.mu.Unlock()
		if !cut {
			return
		}
		<-healed
		takes = settle
	}
}

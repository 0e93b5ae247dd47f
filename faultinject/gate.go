package faultinject

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/quorumlock/quorumlock/node"
)

// Gate holds calls until the test lets them through: Hold is the [Effect] of a rule, which
// may be on any number of nodes. It is safe for concurrent use.
//
// A call waits for as long as it takes, also beyond the timeout of its node, so that a test
// is about order and not about time. It is freed by [Held.Pass] or [Held.Do], Open, the
// removal of the rule, the end of its context, and Close of its node. A test that ends with
// any of the last four leaves nothing behind.
type Gate struct {
	// open is closed when the gate is opened.
	open chan struct{}

	mu sync.Mutex
	// waiting are the calls at the gate, in the order of their arrival. Whoever takes one
	// out decides what becomes of it.
	waiting []*Held
	// news is closed, and replaced, when one arrives.
	news chan struct{}
}

// NewGate makes a gate that holds what comes. For a test in a bubble of testing/synctest, it
// must be made in the bubble.
func NewGate() *Gate {
	return &Gate{open: make(chan struct{}), news: make(chan struct{})}
}

// errOpen ends the wait for what will never come.
var errOpen = errors.New("the gate is open")

// Held is a call that waits at a gate, or did.
type Held struct {
	// Node, N, Probe and Ops are as in [Exchange]; Ops is a copy.
	Node  string
	N     int
	Probe bool
	Ops   []node.Op

	gate *Gate
	// awaited is set when a caller of Await was told; guarded by the gate's mutex.
	awaited bool
	// verdict is sent once, by who has taken the call from those that wait.
	verdict chan Effect
	// left is closed when the call has gone through, or failed.
	left chan struct{}
}

// Hold is the effect of a rule: calls wait at the gate.
func (g *Gate) Hold(ctx context.Context, x *Exchange, next Next) {
	h := g.arrive(x)
	if h == nil {
		next(ctx, x)
		return
	}
	defer close(h.left)
	effect, err := h.wait(ctx, x)
	switch {
	case err != nil:
		x.Fail(err, true)
	case effect != nil:
		effect(ctx, x, next)
	default:
		next(ctx, x)
	}
}

// arrive puts a call to those that wait. It returns nil if the gate is open.
func (g *Gate) arrive(x *Exchange) *Held {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isOpen() {
		return nil
	}
	h := &Held{
		Node: x.Node, N: x.N, Probe: x.Probe, Ops: slices.Clone(x.Ops),
		gate: g, verdict: make(chan Effect, 1), left: make(chan struct{}),
	}
	g.waiting = append(g.waiting, h)
	close(g.news)
	g.news = make(chan struct{})
	return h
}

// wait returns what is to become of the call, or why it fails.
func (h *Held) wait(ctx context.Context, x *Exchange) (effect Effect, err error) {
	select {
	case effect = <-h.verdict:
		return effect, nil
	case <-h.gate.open:
	case <-x.removed:
	case <-x.node.ctx.Done():
		err = node.ErrClosed
	case <-ctx.Done():
		err = node.ErrCanceled
	}
	if !h.gate.take(h) {
		// Somebody has just decided.
		return <-h.verdict, nil
	}
	return nil, err
}

// take takes a call out of those that wait, and reports whether it was among them.
func (g *Gate) take(h *Held) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting, h)
	if i < 0 {
		return false
	}
	g.waiting = slices.Delete(g.waiting, i, i+1)
	return true
}

// Pass lets the call through, and returns when it has run, whatever came of it. It reports
// whether the call was still there. Where it has to pass another gate behind this one, that
// takes another goroutine.
func (h *Held) Pass() bool { return h.Do(nil) }

// Do is [Held.Pass], but what the effect does befalls the call on its way: nothing, if nil.
func (h *Held) Do(e Effect) bool {
	if !h.gate.take(h) {
		return false
	}
	h.verdict <- e
	<-h.left
	return true
}

// Await waits for a call at the gate that it has not returned before, in the order of their
// arrival. It fails when ctx ends, and when the gate is open.
func (g *Gate) Await(ctx context.Context) (*Held, error) {
	for {
		h, news := g.next()
		if h != nil {
			return h, nil
		}
		var err error
		select {
		case <-news:
			continue
		case <-g.open:
			err = errOpen
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("faultinject: waiting for a call at a gate: %w", err)
	}
}

// next is the first call that nobody has been told of, or else what tells of another.
func (g *Gate) next() (*Held, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, h := range g.waiting {
		if !h.awaited {
			h.awaited = true
			return h, nil
		}
	}
	return nil, g.news
}

// Waiting are the calls at the gate, in the order of their arrival.
func (g *Gate) Waiting() []*Held {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.waiting)
}

// PassAll lets the calls through that are at the gate now, one after the other in the order
// of their arrival, and returns how many there were. The gate goes on holding what comes.
func (g *Gate) PassAll() int {
	passed := 0
	for _, h := range g.Waiting() {
		if h.Pass() {
			passed++
		}
	}
	return passed
}

// Open lets everything through, at once, from now on. It returns without waiting for what it
// frees. Opening twice is harmless.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isOpen() {
		close(g.open)
	}
}

func (g *Gate) isOpen() bool {
	select {
	case <-g.open:
		return true
	default:
		return false
	}
}

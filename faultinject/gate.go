package faultinject

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/quorumlock/quorumlock/node"
)

// Gate holds calls until the test passes them. Hold is the [Effect] of a rule, which may be on any number of nodes. A
// Gate is safe for concurrent use.
//
// A call may wait longer than the timeout of its node, so that a test concerns order and not time. It is freed by
// [Held.Pass], Open, the removal of the rule, the end of its context, and Close of its node. Any of the
// last four leaves nothing behind at the end of a test.
type Gate struct {
	// open is closed when the gate is opened.
	open chan struct{}

	mu sync.Mutex
	// waiting are the calls at the gate, in the order of their arrival. The goroutine that removes a call decides its
	// fate.
	waiting []*Held
	// news is closed and replaced when a call arrives.
	news chan struct{}
}

// NewGate makes a closed gate. For a test in a bubble of testing/synctest, it must be made in the bubble.
func NewGate() *Gate {
	return &Gate{open: make(chan struct{}), news: make(chan struct{})}
}

// errOpen ends a wait for a call at an open gate.
var errOpen = errors.New("the gate is open")

// Held is a call that waits at a gate, or did.
type Held struct {
	// Node, N, Probe and Ops are as in [Exchange]; Ops is a copy.
	Node  string
	N     int
	Probe bool
	Ops   []node.Op

	gate *Gate
	// awaited is set when Await has returned the call; guarded by the gate's mutex.
	awaited bool
	// passed is closed by the goroutine that removed the call from waiting to pass it.
	passed chan struct{}
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
	if err := h.wait(ctx, x); g.take(h) && err != nil { // otherwise it was passed at the same time
		x.Fail(err, true)
		return
	}
	next(ctx, x)
}

// arrive adds a call to waiting. It returns nil if the gate is open.
func (g *Gate) arrive(x *Exchange) *Held {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isOpen() {
		return nil
	}
	h := &Held{
		Node: x.Node, N: x.N, Probe: x.Probe, Ops: slices.Clone(x.Ops),
		gate: g, passed: make(chan struct{}), left: make(chan struct{}),
	}
	g.waiting = append(g.waiting, h)
	close(g.news)
	g.news = make(chan struct{})
	return h
}

// wait returns once the call may pass, or with the reason why it fails.
func (h *Held) wait(ctx context.Context, x *Exchange) error {
	select {
	case <-h.passed:
	case <-h.gate.open:
	case <-x.removed:
	case <-x.node.ctx.Done():
		return node.ErrClosed
	case <-ctx.Done():
		return node.ErrCanceled
	}
	return nil
}

// take removes a call from waiting, and reports whether it was there.
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

// Pass lets the call through, and returns when it has run, with any result. It reports whether the call was still
// there. If the call must pass another gate behind this one, another goroutine must pass it there.
func (h *Held) Pass() bool {
	if !h.gate.take(h) {
		return false
	}
	close(h.passed)
	<-h.left
	return true
}

// Await waits for a call at the gate that it has not returned before, in the order of arrival. It fails when ctx
// ends, and when the gate is open.
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

// next returns the first call that Await has not returned, or else the channel that announces another.
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

// Waiting returns the calls at the gate, in the order of their arrival.
func (g *Gate) Waiting() []*Held {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.waiting)
}

// PassAll passes the calls that are at the gate now, one after the other in the order of their arrival, and returns
// their number. The gate continues to hold later calls.
func (g *Gate) PassAll() int {
	passed := 0
	for _, h := range g.Waiting() {
		if h.Pass() {
			passed++
		}
	}
	return passed
}

// Open passes all present and future calls at once. It does not wait for them. Opening twice is harmless.
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

package faultinject

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/quorumlock/quorumlock/node"
)

// Gate holds calls until the test passes them. Hold is an [Effect] for any number of nodes. A Gate is safe for
// concurrent use.
//
// A call may wait longer than the timeout of its node, so that a test concerns order and not time. It is freed by
// [Held.Pass], Open, the end of its context, and Close of its node.
type Gate struct {
	// arrived takes the calls to Await, in the order of their arrival.
	arrived chan *Held
	open    chan struct{}
	once    sync.Once // closes open
}

// NewGate makes a closed gate. For a test in a bubble of testing/synctest, it must be made in the bubble.
func NewGate() *Gate { return &Gate{arrived: make(chan *Held), open: make(chan struct{})} }

// errOpen ends a wait for a call at an open gate.
var errOpen = errors.New("the gate is open")

// Held is a call that waits at a gate, or did.
type Held struct {
	// Node and Ops are as in [Exchange]; Ops is a copy.
	Node string
	Ops  []node.Op

	pass func()
	// left is closed when the call has gone through, or failed.
	left chan struct{}
}

// Hold is the effect: calls wait at the gate.
func (g *Gate) Hold(ctx context.Context, x *Exchange) {
	passed := make(chan struct{})
	h := &Held{
		Node: x.Node, Ops: slices.Clone(x.Ops),
		pass: sync.OnceFunc(func() { close(passed) }), left: make(chan struct{}),
	}
	defer close(h.left)
	for waits, arrived := true, g.arrived; waits; {
		select {
		case arrived <- h:
			arrived = nil
		case <-passed:
			waits = false
		case <-g.open:
			waits = false
		case <-x.node.ctx.Done():
			x.Fail(node.ErrClosed, true)
			return
		case <-ctx.Done():
			x.Fail(node.ErrCanceled, true)
			return
		}
	}
	x.Run(ctx)
}

// Pass lets the call through, and returns when it has run, or has failed before.
func (h *Held) Pass() {
	h.pass()
	<-h.left
}

// Await waits for a call at the gate that it has not returned before, in the order of arrival. It fails when ctx
// ends, and when the gate is open.
func (g *Gate) Await(ctx context.Context) (*Held, error) {
	var err error
	select {
	case h := <-g.arrived:
		return h, nil
	case <-g.open:
		err = errOpen
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return nil, fmt.Errorf("faultinject: waiting for a call at a gate: %w", err)
}

// Open passes all present and future calls at once. It does not wait for them. Opening twice is harmless.
func (g *Gate) Open() { g.once.Do(func() { close(g.open) }) }

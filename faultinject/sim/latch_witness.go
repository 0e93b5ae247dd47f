package sim

import (
	"sync"

	"github.com/quorumlock/quorumlock/faultinject/history"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// latchWitness sees every call of the latch in true time, and the memory losses of nodes.
type latchWitness struct {
	mu    sync.Mutex
	list  []*latchCall
	ended bool
	// set is set once a client has begun to set the latch.
	set bool
	// forgot marks nodes that have lost their memory since, and have not got it back.
	forgot []bool
	// nodes are the nodes' knowledge. stuck are the periods in which too few nodes knew enough to read the latch.
	nodes []latchNode
	stuck []stuck
	// excused is set if so many nodes have forgotten that the latch may be lost.
	excused bool
}

// latchCall is one call.
type latchCall struct {
	history.Event
	client int
	err    error
}

// calls records the begin of a call, and its result when the returned function is called.
func (l *latchWitness) calls(w *world, p *process, client, worker int, do *LatchCall) (over func(left int, err error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := &latchCall{client: client, Event: history.Event{
		Client: p.label, Worker: worker, Op: uint64(len(l.list) + 1), Kind: do.Kind, Of: history.Latch,
		Names: []string{latchName}, ID: do.ID, Count: do.Count, Call: w.now() + 1,
	}}
	l.list = append(l.list, one)
	l.set = l.set || do.Kind == history.Set
	return func(left int, err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		one.Return, one.err = w.now()+1, err
		switch {
		case err != nil:
			one.Error = err.Error()
		case do.Kind == history.Count:
			one.Count = left
		}
	}
}

// ends makes the witness ignore later calls.
func (l *latchWitness) ends() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}

func (l *latchWitness) init(c *Case) {
	l.forgot, l.nodes = make([]bool, len(c.Nodes)), make([]latchNode, len(c.Nodes))
	for i := range l.nodes {
		if !c.Opened {
			l.knows(i, forgetful, 0)
		}
	}
}

// lost records that a node has lost its memory. That may be one too many.
func (l *latchWitness) lost(w *world, server int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.knows(server, forgetful, w.now())
	l.forgot[server] = l.set
	l.excused = l.excused || tooMany(l.forgot)
}

// tooMany reports whether the remaining nodes are no majority.
func tooMany(nodes []bool) bool {
	n := 0
	for _, is := range nodes {
		if is {
			n++
		}
	}
	return n > len(nodes)-quorum.Majority().Need(len(nodes))
}

// answered updates the witness from a node's answer: the node got back its memory, or knows of a later deletion. If
// it has recovered and was told nothing, no client has used the latch. Then the latch may count as never set.
func (l *latchWitness) answered(w *world, server int, r node.Reply) {
	s := r.Latch
	if s == nil || r.Err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	n := newLatchNode(s)
	l.knows(server, n, w.now())
	switch {
	case !l.forgot[server]:
	case s.Whole, s.Generation > n.certain:
		l.forgot[server] = false
	case s.Count == 0 && r.Recovering == 0:
		l.excused = true
	}
}

// unreadable checks whether the latch may be unreadable at the end.
func (l *latchWitness) unreadable(w *world, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.excused && !tooMany(unaware(l.nodes)) {
		w.violated(Progress, "R and 2 s after the faults the latch cannot be read: %v", err)
	}
}

// sum returns the number of successful calls, and whether the witness had to excuse losses.
func (l *latchWitness) sum() (calls int, excused bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.list {
		if c.succeeded() {
			calls++
		}
	}
	return calls, l.excused
}

func (c *latchCall) succeeded() bool { return c.Return != 0 && c.err == nil }

// Package admin is for those who run the nodes, not for the programs that take locks.
//
// A node that comes back without its memory looks like a new one. So every node that
// has no marker waits before it gives locks, until all that it may have forgotten has run
// out: Config.MaxTTL and Config.MaxClockSkew together, eleven seconds by default. Who
// sets up new nodes, and so knows that they have never granted anything, spares them the
// wait with [Init]. A program must not do so at its start: it cannot know.
package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
)

// Why nothing, or not all, was done; for errors.Is.
var (
	// ErrInUse: the nodes have been used before, so some may have forgotten what they
	// granted. Those that recover open by themselves; the report says when.
	ErrInUse = errors.New("not all nodes are new")
	// ErrLimits: nodes are set up for clients with another MaxTTL or MaxClockSkew. See
	// ChangeLimits.
	ErrLimits = errors.New("nodes are set up for other limits")
	// ErrUnanswered: nodes did not answer, or not as they should.
	ErrUnanswered = errors.New("not all nodes answer")
	// ErrChanged: nodes lost their memory, or were set up by somebody else, in between.
	ErrChanged = errors.New("nodes changed in the meantime")
)

// State is what became of a node.
type State string

// The states of a node after a call of this package.
const (
	// Open: it gives locks, and did so before.
	Open State = "open"
	// Opened: it gives locks from now on.
	Opened State = "opened"
	// Recovering: it gives locks when its time is over.
	Recovering State = "recovering"
	// Failed: it did not answer; what it does is not known.
	Failed State = "failed"
)

// Report says what became of each node, in the order of the configuration.
type Report struct {
	Nodes []NodeReport
}

// NodeReport is what became of one node.
type NodeReport struct {
	Node  string
	State State
	// Left is how long the node still gives no new locks.
	Left time.Duration
	// Limits are those that it is set up for.
	Limits node.Limits
	// Restarted is set if it recovers with a marker of an earlier life.
	Restarted bool
	// Err is why the state is Failed.
	Err error

	marker *node.Marker
	target node.Node
}

// Init opens nodes that are new, for clients with this configuration. It opens none unless
// every node answers, and all of them are new: where one gives locks already, another that
// does not has lost its memory, and must wait. Nodes that are all open are left as they
// are, without an error, so it can be repeated. A node that has no marker gets one in any
// case, with the limits of this configuration; if those were wrong, and the node was never
// in use, empty it before the next try.
//
// It is safe against whatever happens to the nodes while it runs, or is paused: a node is
// only opened if it is still in the life, and in the recovery, in which it was found. What
// it cannot know is whether all nodes lost their memory together. So it is for new nodes
// only, and after an accident the right thing to do is to wait.
//
// The report has what was learnt, also with an error: ErrUnanswered, ErrLimits, ErrInUse,
// ErrChanged, or a *quorumlock.InvalidError without a report.
func Init(ctx context.Context, cfg quorumlock.Config) (*Report, error) {
	return run(ctx, cfg, func(r *Report) error {
		if err := r.firstError(
			r.check(ErrUnanswered, func(n *NodeReport) bool { return n.State == Failed }),
			r.check(ErrLimits, func(n *NodeReport) bool { return n.Limits != cfg.Limits() }),
			r.checkNew(),
		); err != nil {
			return err
		}
		r.each(func(n *NodeReport) {
			for range openAttempts {
				if n.State == Recovering || n.State == Failed && !errors.Is(n.Err, ErrChanged) {
					n.open(ctx, cfg.Limits())
				}
			}
		})
		return r.outcome()
	})
}

// ChangeLimits sets nodes up for clients with this configuration, whose MaxTTL or
// MaxClockSkew is another than before. Clients with the old limits are refused from then
// on, their renewals too: stop them first, or their leases end. Each node that is changed
// gives no new locks for the longer MaxTTL and the longer MaxClockSkew together.
//
// Nodes whose limits are right already are left alone, so it can be repeated, as is
// needed after an ErrUnanswered or ErrChanged.
func ChangeLimits(ctx context.Context, cfg quorumlock.Config) (*Report, error) {
	return run(ctx, cfg, func(r *Report) error {
		r.each(func(n *NodeReport) {
			if n.State != Failed && n.Limits != cfg.Limits() {
				n.open(ctx, cfg.Limits())
			}
		})
		return r.outcome()
	})
}

// openAttempts is how often a node is asked to open that does not answer. When some are
// open, another Init would refuse the rest.
const openAttempts = 3

// run looks at all nodes, and has do act on what was found.
func run(ctx context.Context, cfg quorumlock.Config, do func(*Report) error) (*Report, error) {
	if ctx == nil {
		return nil, &quorumlock.InvalidError{Problems: []string{"the context is nil"}}
	}
	client, err := quorumlock.New(cfg) // for its checks
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close(ctx) }()
	nodes := cfg.Nodes
	for _, address := range cfg.Addresses {
		n, err := node.OpenRedis(address)
		if err != nil {
			return nil, err
		}
		defer func() { _ = n.Close() }() //nolint:contextcheck // it is bounded by the node's timeouts
		nodes = append(nodes, n)
	}
	r := &Report{Nodes: make([]NodeReport, len(nodes))}
	for i, n := range nodes {
		r.Nodes[i] = NodeReport{Node: n.Name(), target: n}
	}
	r.each(func(n *NodeReport) { n.look(ctx, cfg.Limits()) })
	r.tellTwins()
	return r, do(r)
}

// each runs fn for all nodes at once, and waits.
func (r *Report) each(fn func(*NodeReport)) {
	var wg sync.WaitGroup
	for i := range r.Nodes {
		wg.Go(func() { fn(&r.Nodes[i]) })
	}
	wg.Wait()
}

// look reads the node's marker. One that has none gets one, and so begins to recover.
func (n *NodeReport) look(ctx context.Context, limits node.Limits) {
	reply := n.do(ctx, node.Op{Kind: node.Mark, Limits: limits})
	if reply.Err == nil {
		n.found(reply.Marker)
	}
}

// open asks the node to give locks, or to take the limits, if it is still as it was found.
func (n *NodeReport) open(ctx context.Context, limits node.Limits) {
	reply := n.do(ctx, node.Op{Kind: node.Open, Limits: limits, Marker: n.marker})
	switch {
	case reply.Err != nil:
		return
	case reply.Outcome == node.Denied:
		before := n.Limits
		n.found(reply.Marker)
		// Its answer was lost, or another administrator did it. New limits begin a recovery.
		done := n.State == Open || reply.Repeated && before != limits
		if !done || n.Limits != limits {
			n.State, n.Err = Failed, ErrChanged
			return
		}
	case reply.Recovering > 0:
		n.Limits, n.State, n.Left = limits, Recovering, reply.Recovering
	default:
		n.State, n.Left = Opened, 0
	}
	n.Err = nil
}

// do runs one operation.
func (n *NodeReport) do(ctx context.Context, op node.Op) node.Reply {
	replies := make([]node.Reply, 1)
	n.target.Do(ctx, []node.Op{op}, replies)
	if replies[0].Err != nil {
		n.State, n.Err = Failed, replies[0].Err
	}
	return replies[0]
}

func (n *NodeReport) found(m *node.Marker) {
	n.marker, n.Limits, n.Left, n.Restarted = m, m.Limits, m.Left, m.Restarted && m.Left > 0
	n.State = Open
	if m.Left > 0 {
		n.State = Recovering
	}
}

// tellTwins fails nodes that are one server.
func (r *Report) tellTwins() {
	seen := make(map[string]string)
	for i := range r.Nodes {
		n := &r.Nodes[i]
		id := n.target.Identity()
		if first, ok := seen[id]; ok && n.State != Failed {
			n.State, n.Err = Failed, &node.Error{Node: n.Node, Op: node.Mark, Reason: node.ErrSameServer, Err: fmt.Errorf("it is %s by another address", first)}
		} else {
			seen[id] = n.Node
		}
	}
}

// checkNew demands that all nodes are new, or all are open.
func (r *Report) checkNew() error {
	open := 0
	for _, n := range r.Nodes {
		if n.State == Open {
			open++
		}
	}
	if open == len(r.Nodes) {
		return nil
	}
	return r.check(ErrInUse, func(n *NodeReport) bool {
		return n.State == Recovering && (open > 0 || n.Restarted)
	})
}

// outcome is the error for what failed in the end.
func (r *Report) outcome() error {
	return r.firstError(
		r.check(ErrChanged, func(n *NodeReport) bool { return errors.Is(n.Err, ErrChanged) }),
		r.check(ErrUnanswered, func(n *NodeReport) bool { return n.State == Failed }),
	)
}

func (r *Report) firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// check makes an error that names the nodes of which bad holds; nil if there are none.
func (r *Report) check(reason error, bad func(*NodeReport) bool) error {
	failure := &failure{reasons: []error{reason}}
	for i := range r.Nodes {
		n := &r.Nodes[i]
		if !bad(n) {
			continue
		}
		failure.lines = append(failure.lines, n.Node+": "+n.describe(reason))
		if n.Err != nil {
			failure.reasons = append(failure.reasons, n.Err)
		}
	}
	if failure.lines == nil {
		return nil
	}
	return failure
}

// failure is a reason, and the nodes that it is about.
type failure struct {
	reasons []error
	lines   []string
}

func (f *failure) Error() string {
	return fmt.Sprintf("admin: %v (%s)", f.reasons[0], strings.Join(f.lines, "; "))
}

func (f *failure) Unwrap() []error { return f.reasons }

// describe says what the reason is in the case of this node.
func (n *NodeReport) describe(reason error) string {
	switch {
	case errors.Is(reason, ErrLimits):
		return fmt.Sprintf("MaxTTL %v, MaxClockSkew %v", n.Limits.MaxTTL, n.Limits.MaxClockSkew)
	case n.Err != nil:
		return strings.TrimPrefix(n.Err.Error(), "node "+n.Node+": ")
	default:
		return fmt.Sprintf("gives locks in %v", n.Left)
	}
}

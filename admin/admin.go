// Package admin is for operators of the nodes, not for the programs that take locks.
//
// A node that comes back without its memory looks like a new one. So every node without a marker waits before it
// grants locks, until everything that it may have forgotten has expired. That takes MaxTTL + MaxClockSkew, eleven
// seconds by default. An operator who sets up new nodes knows that they have never granted anything, and skips the
// wait with [Init]. A program must not call Init when it starts: it cannot know that.
package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// Reasons why not every node was changed; for errors.Is.
var (
	// ErrInUse: some nodes have been used before, so others may have forgotten locks that they granted. Nodes that
	// recover open by themselves; the report says when.
	ErrInUse = errors.New("not all nodes are new")
	// ErrUnanswered: some nodes did not answer, gave an invalid answer, or are the same server as another node.
	ErrUnanswered = errors.New("not all nodes answer")
	// ErrChanged: nodes lost their memory, or were opened by another client, in the meantime.
	ErrChanged = errors.New("nodes changed in the meantime")
)

// State is the state of a node after a call of this package.
type State string

// States of a node after a call of this package.
const (
	// Open: the node grants locks, and did so before the call.
	Open State = "open"
	// Opened: the node recovered when the call began, and grants locks now.
	Opened State = "opened"
	// Recovering: the node grants locks after its recovery.
	Recovering State = "recovering"
	// Failed: the node did not answer, is the same server as an earlier node, or changed in the meantime. Err says
	// which.
	Failed State = "failed"
)

// reports are the results of a call, in the order of the configuration.
type reports []NodeReport

// NodeReport is the result of a call for one node.
type NodeReport struct {
	Node  string
	State State
	// Left is the time until the node grants new locks.
	Left time.Duration
	// HadMarker is set if the node recovers and had its marker: it is not new, and did not come back empty.
	HadMarker bool
	// Err explains the state Failed.
	Err error

	marker *wire.Marker
	target node.Node
}

// Init opens new nodes for clients with this configuration. It opens no node unless every node answers and all are
// new. If one node grants locks already, another node that does not has lost its memory and must wait. If all nodes
// are open, Init changes nothing and returns no error, so it can be repeated. Init gives each node without a marker a
// marker.
//
// Init is safe against failures of nodes and pauses of this program while it runs. It opens a node only if the node
// is still in the life and in the recovery in which Init found it. Init cannot know whether all nodes lost their
// memory together. So use it for new nodes only; after an accident, wait instead.
//
// The reports are in the order of the configuration. They are complete also with one of the errors ErrUnanswered, ErrInUse
// and ErrChanged. With a *quorumlock.InvalidError there are none.
func Init(ctx context.Context, cfg quorumlock.Config) ([]NodeReport, error) {
	return run(ctx, cfg, func(r reports) error {
		if err := cmp.Or(
			r.check(ErrUnanswered, func(n *NodeReport) bool { return n.State == Failed }),
			r.checkNew(),
		); err != nil {
			return err
		}
		changed := func(n *NodeReport) bool { return errors.Is(n.Err, ErrChanged) }
		r.each(func(n *NodeReport) {
			for range openAttempts {
				if n.State == Recovering || n.State == Failed && !changed(n) {
					n.open(ctx, cfg.Limits())
				}
			}
		})
		return errors.Join(
			r.check(ErrChanged, changed),
			r.check(ErrUnanswered, func(n *NodeReport) bool { return n.State == Failed && !changed(n) }),
		)
	})
}

// Look reports the state of all nodes, and opens none. Like the first attempt at a lock, it makes a node that is new, or
// has lost its memory, begin its recovery. Clients with this configuration get locks from the nodes that are Open.
// Look returns an error only for an invalid configuration, a *quorumlock.InvalidError.
func Look(ctx context.Context, cfg quorumlock.Config) ([]NodeReport, error) {
	return run(ctx, cfg, func(reports) error { return nil })
}

// openAttempts limits how often an unresponsive node is asked to open. If Init left only some nodes open, another
// Init would refuse the rest.
const openAttempts = 3

// run reads the marker of all nodes, and calls do with the result.
func run(ctx context.Context, cfg quorumlock.Config, do func(reports) error) ([]NodeReport, error) {
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
		n, err := openNode(address, cfg)
		if err != nil {
			return nil, err
		}
		defer func() { _ = n.Close() }()
		nodes = append(nodes, n)
	}
	r := make(reports, len(nodes))
	for i, n := range nodes {
		r[i] = NodeReport{Node: n.Name(), target: n}
	}
	r.each(func(n *NodeReport) { // a node without a marker gets one, which begins a recovery
		if reply := n.do(ctx, wire.Op{Kind: wire.Mark, Limits: cfg.Limits()}); reply.Err == nil {
			n.found(reply.Marker)
		}
	})
	r.tellTwins()
	return r, do(r)
}

// patience bounds each connect and each exchange, unless the address has its own timeouts. It is longer than a
// client's timeouts: no lock depends on these calls, and Init fails if one node is slow.
const patience = 5 * time.Second

func openNode(address string, cfg quorumlock.Config) (node.Node, error) {
	opt, err := node.ParseOptions(address)
	if err != nil {
		return nil, err
	}
	opt.AllowEviction, opt.AllowUnseenLosses = cfg.AllowEviction, cfg.AllowUnseenLosses
	opt.ConnectTimeout = cmp.Or(opt.ConnectTimeout, patience)
	opt.Timeout = cmp.Or(opt.Timeout, patience)
	return node.New(opt)
}

// each runs fn for all nodes at once, and waits for all.
func (r reports) each(fn func(*NodeReport)) {
	var wg sync.WaitGroup
	for i := range r {
		wg.Go(func() { fn(&r[i]) })
	}
	wg.Wait()
}

// open asks the node to open if it is still in the state in which it was found.
func (n *NodeReport) open(ctx context.Context, limits node.Limits) {
	reply := n.do(ctx, wire.Op{Kind: wire.Open, Limits: limits, Marker: n.marker})
	switch {
	case reply.Err != nil:
		return
	case reply.Outcome == wire.Denied:
		recovered := n.marker.Left > 0
		n.found(reply.Marker)
		if n.State != Open { // otherwise its answer was lost, or another administrator did it
			n.State, n.Err = Failed, ErrChanged
			return
		}
		if recovered {
			n.State = Opened
		}
	default:
		n.State, n.Left = Opened, 0
	}
	n.Err = nil
}

func (n *NodeReport) do(ctx context.Context, op wire.Op) wire.Reply {
	replies := make([]wire.Reply, 1)
	n.target.Do(ctx, []wire.Op{op}, replies)
	if replies[0].Err != nil {
		n.State, n.Err = Failed, replies[0].Err
	}
	return replies[0]
}

func (n *NodeReport) found(m *wire.Marker) {
	n.marker, n.Left, n.HadMarker = m, m.Left, m.HadMarker && m.Left > 0
	n.State = Open
	if m.Left > 0 {
		n.State = Recovering
	}
}

// tellTwins marks nodes as failed that lead to the same server.
func (r reports) tellTwins() {
	seen := make(map[string]string)
	for i := range r {
		n := &r[i]
		id, _ := n.target.Server() // empty if the server shows none
		if first, ok := seen[id]; ok && id != "" && n.State != Failed {
			n.State, n.Err = Failed, &node.Error{Node: n.Node, Op: wire.Mark.String(), Reason: node.ErrSameServer, Err: fmt.Errorf("it is %s by another address", first)}
		} else {
			seen[id] = n.Node
		}
	}
}

// checkNew returns an error unless all nodes are new, or all are open.
func (r reports) checkNew() error {
	open := 0
	for _, n := range r {
		if n.State == Open {
			open++
		}
	}
	if open == len(r) {
		return nil
	}
	return r.check(ErrInUse, func(n *NodeReport) bool {
		return n.State == Recovering && (open > 0 || n.HadMarker)
	})
}

// check returns an error that names the nodes for which bad is true; nil if there are none.
func (r reports) check(reason error, bad func(*NodeReport) bool) error {
	failure := &failure{reasons: []error{reason}}
	for i := range r {
		n := &r[i]
		if !bad(n) {
			continue
		}
		why := fmt.Sprintf("gives locks in %v", n.Left)
		if n.Err != nil {
			why = strings.TrimPrefix(n.Err.Error(), "node "+n.Node+": ")
			failure.reasons = append(failure.reasons, n.Err)
		}
		failure.lines = append(failure.lines, n.Node+": "+why)
	}
	if failure.lines == nil {
		return nil
	}
	return failure
}

// failure is a reason, and the nodes that it applies to.
type failure struct {
	reasons []error
	lines   []string
}

func (f *failure) Error() string {
	return fmt.Sprintf("admin: %v (%s)", f.reasons[0], strings.Join(f.lines, "; "))
}

func (f *failure) Unwrap() []error { return f.reasons }

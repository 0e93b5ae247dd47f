package quorumlock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/node"
)

// Status is who holds a lock, as its nodes see it at one time.
type Status struct {
	// Names are the names of the lock, sorted.
	Names []string
	// Need is how many nodes the rule of the lock asks for.
	Need int
	// Nodes has one entry for each node, in the order of the configuration.
	Nodes []NodeStatus
}

// NodeStatus is what one node says.
type NodeStatus struct {
	// Node is the node's name.
	Node string
	// Holders are who has which of the names, each reader by itself; names that are free are
	// left out.
	Holders []node.Holder
	// Recovering is how long the node still gives no new locks, as it has lost its memory
	// or is new; 0 if it gives them.
	Recovering time.Duration
	// Unmarked is set if the recovery has not begun: it will, and last for all of
	// Recovering, with the first attempt to acquire or to renew anything.
	Unmarked bool
	// Latency is the time from sending to the answer.
	Latency time.Duration
	// Err is why there is no answer, a *node.Error unless ctx ended first; nil if there is
	// an answer.
	Err error
}

// Holder is the owner that has every name on enough nodes for the rule, or "" if
// nobody has; of several readers, the first by id.
func (s *Status) Holder() string {
	nodes := make(map[string]int)
	for _, n := range s.Nodes {
		names := make(map[string]int)
		for _, h := range n.Holders {
			names[h.Owner]++
			if names[h.Owner] == len(s.Names) {
				nodes[h.Owner]++
			}
		}
	}
	first := ""
	for owner, n := range nodes {
		if n >= s.Need && (first == "" || owner < first) {
			first = owner
		}
	}
	return first
}

// Owners are all owners that any node knows of, sorted.
func (s *Status) Owners() []string {
	var owners []string
	for _, n := range s.Nodes {
		for _, h := range n.Holders {
			owners = append(owners, h.Owner)
		}
	}
	slices.Sort(owners)
	return slices.Compact(owners)
}

// longest is the longest TTL that any node knows of.
func (s *Status) longest() (ttl time.Duration) {
	for _, n := range s.Nodes {
		for _, h := range n.Holders {
			ttl = max(ttl, h.TTL)
		}
	}
	return ttl
}

// Inspect asks every node who holds the lock. It waits for all of them, each bounded
// by its timeout, and changes nothing. It returns what it learnt also with an error: a
// [*NoQuorumError] if fewer nodes answered than the rule needs, or ctx's error.
func (l *Lock) Inspect(ctx context.Context) (*Status, error) {
	return l.survey(ctx, node.Op{Kind: node.Inspect, Names: l.names, Limits: l.client.cfg.limits()})
}

// ForceRelease takes the lock from whoever holds it, and keeps that lease from
// renewing itself: it ends with an ErrLost at its next renewal, or when its time is
// up. Between the two, its holder and the next one may both be at work; this is for
// holders that are known to be dead. Who acquires it in the same moment may escape, and so
// may a holder of whom a majority of nodes forgets, before its next renewal, that it was
// forced off. It returns what was removed, and the same errors as Inspect. It is harmless
// on a lock that nobody holds.
func (l *Lock) ForceRelease(ctx context.Context) (*Status, error) {
	// Nodes that forgot the lock must know whom to refuse, too: so all owners that any
	// node knows are buried on all nodes.
	before, err := l.Inspect(ctx)
	if err != nil && !errors.Is(err, ErrNoQuorum) {
		return before, err
	}
	return l.survey(ctx, node.Op{
		Kind:   node.ForceRelease,
		Names:  l.names,
		TTL:    max(l.client.cfg.MaxTTL, min(before.longest(), maxMaxTTL)),
		Buried: before.Owners(),

		Announce: l.client.cfg.Redisson,
	})
}

// survey sends one operation to every node and waits for all answers.
func (l *Lock) survey(ctx context.Context, op node.Op) (*Status, error) {
	if err := l.check(ctx); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, whyDone(ctx)
	}
	if err := l.client.enter(); err != nil {
		return nil, err
	}
	defer l.client.leave()

	s := newSurvey(l)
	v := dispatch.NewCalls(l.client.nodes.Len(), op)
	for i := range l.client.nodes.Len() {
		c := v.To(i)
		c.To, c.Urgent = s, true
		if err := l.client.nodes.Submit(i, c); err != nil {
			s.Answer(c, &node.Reply{Err: err, Unsent: true})
		}
	}
	select {
	case <-s.done:
		return s.result(op.Kind)
	case <-ctx.Done():
		status, _ := s.result(op.Kind)
		return status, whyDone(ctx)
	case <-l.client.quit:
		status, _ := s.result(op.Kind)
		return status, ErrClosed
	}
}

// survey gathers every node's answer to one operation.
type survey struct {
	lock *Lock
	done chan struct{}

	mu     sync.Mutex
	left   int
	status Status
}

func newSurvey(l *Lock) *survey {
	s := &survey{
		lock:   l,
		done:   make(chan struct{}),
		left:   l.client.nodes.Len(),
		status: Status{Names: l.Names(), Need: l.need},
	}
	for i := range l.client.nodes.Len() {
		s.status.Nodes = append(s.status.Nodes, NodeStatus{Node: l.client.nodes.Name(i), Err: errNoAnswer})
	}
	return s
}

// errNoAnswer stands for a node that has not answered when a survey is cut short.
var errNoAnswer = errors.New("no answer yet")

// answer is what one node says.
func (s *survey) Answer(c *dispatch.Call, r *node.Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := &s.status.Nodes[c.Node()]
	n.Holders, n.Err, n.Recovering, n.Unmarked = r.Holders, r.Err, r.Recovering, r.Unmarked
	if r.Err == nil {
		n.Latency = s.lock.client.clock.Now() - c.Sent
	}
	if s.left--; s.left == 0 {
		close(s.done)
	}
}

// result is what is known now.
func (s *survey) result(kind node.Kind) (*Status, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.status
	status.Nodes = slices.Clone(status.Nodes)
	var errs []NodeError
	for _, n := range status.Nodes {
		if n.Err != nil {
			errs = append(errs, NodeError{Node: n.Node, Err: n.Err})
		}
	}
	agreed := len(status.Nodes) - len(errs)
	if agreed >= s.lock.need {
		return &status, nil
	}
	return &status, &NoQuorumError{
		Op:     kind.String(),
		Names:  status.Names,
		Need:   s.lock.need,
		Agreed: agreed,
		Total:  len(status.Nodes),
		Nodes:  errs,
	}
}

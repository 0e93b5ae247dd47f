package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/node"
)

// Connecting takes several round trips, and has a bound of its own: Env.ConnectTimeout. The sender
// connects before it takes a batch, so the time that this takes is not taken off any TTL.

// ErrConnecting is why a node that is not connected yet has not been asked.
var ErrConnecting = errors.New("still connecting")

// Connection says that a node is connected, or why it is not.
type Connection struct {
	Node int
	Err  error
}

// connectWaiter waits for a connection, until its deadline at the latest.
type connectWaiter struct {
	told     chan<- Connection
	deadline time.Duration
}

// Connect connects node i, even if it is down and its next probe is not due. told, which must have
// room, gets the outcome once, after Env.ConnectTimeout at the latest.
func (n *Nodes) Connect(i int, told chan<- Connection) {
	s := n.senders[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	now := n.env.Clock.Now()
	w := connectWaiter{told, now + n.env.ConnectTimeout}
	s.connectWaiters = append(s.connectWaiters, w)
	s.startLocked()
	s.armTimeoutLocked(now, w.deadline)
}

// ask probes a node that is down, before any operation is risked. Or it connects a node that is not
// down: it was never asked, or its connection was closed while it was idle. That a node is not connected
// says nothing about it. If another goroutine asks already, that one sends the queue, and this one ends.
func (s *sender) ask(connecting bool) bool {
	s.mu.Lock()
	if s.asking {
		s.workers--
		s.mu.Unlock()
		return false
	}
	s.asking, s.connecting = true, connecting
	timeout := s.health.timeout
	if connecting {
		timeout = s.nodes.env.ConnectTimeout
	}
	f := s.newFlightLocked()
	s.beginLocked(f, s.nodes.env.Clock.Now(), timeout)
	s.mu.Unlock()

	err := s.node.Probe(context.Background())

	s.mu.Lock()
	s.answeredLocked(f)
	return s.concluded(f, s.nodes.env.Clock.Now(), err)
}

// nodeFailure is the failure of an exchange, unless that says nothing about the node: its connection
// broke, and it has a new one.
func (s *sender) nodeFailure(failure error) error {
	if s.connector != nil && errors.Is(failure, node.ErrUnreachable) && s.connector.Connected() {
		return nil
	}
	return failure
}

// connectedLocked passes the result of connecting to the calls that wait for it.
func (s *sender) connectedLocked(err error) {
	for _, w := range s.connectWaiters {
		w.told <- Connection{s.index, err}
	}
	s.connectWaiters = nil
}

// expireConnectsLocked tells the waiters whose deadline has passed. The first has waited longest.
func (s *sender) expireConnectsLocked(now time.Duration) {
	for len(s.connectWaiters) > 0 && s.connectWaiters[0].deadline <= now {
		s.connectWaiters[0].told <- Connection{s.index, s.connectTimeout()}
		s.connectWaiters = s.connectWaiters[1:]
	}
}

// connectTimeout is why a node is not connected in time.
func (s *sender) connectTimeout() error {
	return &node.Error{Node: s.node.Name(), Reason: node.ErrTimeout, Err: ErrConnecting}
}

// splitFailure splits a failure to connect into the reason and the cause of an error of an operation.
func splitFailure(failure error) (reason, cause error) {
	var nodeErr *node.Error
	if errors.As(failure, &nodeErr) {
		return nodeErr.Reason, nodeErr.Err
	}
	return node.ErrUnreachable, failure
}

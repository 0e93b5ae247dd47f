package dispatch

import (
	"context"
	"errors"

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

// Connect connects node i, even if it is down and its next probe is not due. told, which must have
// room, gets the outcome once.
func (n *Nodes) Connect(i int, told chan<- Connection) {
	s := n.senders[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connectWaiters = append(s.connectWaiters, told)
	s.startLocked()
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
	for _, told := range s.connectWaiters {
		told <- Connection{s.index, err}
	}
	s.connectWaiters = nil
}

// splitFailure splits a failure to connect into the reason and the cause of an error of an operation.
func splitFailure(failure error) (reason, cause error) {
	var nodeErr *node.Error
	if errors.As(failure, &nodeErr) {
		return nodeErr.Reason, nodeErr.Err
	}
	return node.ErrUnreachable, failure
}

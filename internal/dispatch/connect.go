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

// asking says what a probe is for that is under way.
type asking uint8

const (
	notAsking asking = iota
	// probing: the node was down. It is asked before any operation is risked.
	probing
	// connecting: the node was never asked, or its connection was closed while it was idle. That it is not connected says
	// nothing about it.
	connecting
)

// ask probes or connects the node. If another goroutine asks already, that one sends the queue, and this one ends.
func (s *sender) ask(why asking) bool {
	s.mu.Lock()
	if s.asking != notAsking {
		s.workers--
		s.mu.Unlock()
		return false
	}
	s.asking = why
	timeout := s.health.timeout
	if why == connecting {
		timeout = s.shared.env.ConnectTimeout
	}
	f, now := s.flights.make(), s.shared.env.Clock.Now()
	s.flights.begin(f, now, timeout)
	s.timeout.arm(now, f.deadline)
	s.mu.Unlock()

	err := s.node.Probe(context.Background())

	s.mu.Lock()
	s.flights.answered(f)
	return s.concluded(f, s.shared.env.Clock.Now(), err, false)
}

// excuses reports whether the failure of an exchange says nothing about the node: its connection broke, and it has a new one.
func (s *sender) excuses(failure error) bool {
	return s.connector != nil && errors.Is(failure, node.ErrUnreachable) && s.connector.Connected()
}

// connectedLocked passes the result of connecting to the calls of Connect that wait for it.
func (s *sender) connectedLocked(err error) {
	for _, w := range s.connects {
		w.told <- Connection{s.index, err}
	}
	s.connects = nil
}

// expireConnectsLocked tells the waiters whose deadline has passed. The first has waited longest.
func (s *sender) expireConnectsLocked(now time.Duration) {
	for len(s.connects) > 0 && s.connects[0].deadline <= now {
		s.connects[0].told <- Connection{s.index, s.connectTimeout()}
		s.connects = s.connects[1:]
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

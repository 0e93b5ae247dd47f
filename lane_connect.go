package quorumlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// Connecting takes several round trips, and has a bound of its own: Config.ConnectTimeout. The lane
// connects before it takes a batch, so the time that this takes is not taken off any TTL.

// errConnecting is why a node that is not connected yet has not been asked.
var errConnecting = errors.New("it is not connected yet")

// ready makes sure that the node can be asked: that it answers again, if it was down, and that it is
// connected, where the node can tell. Those who queue meanwhile wait for that.
func (l *lane) ready() bool {
	l.mu.Lock()
	down, greeters := l.health.down, len(l.greeters)
	l.mu.Unlock()
	switch {
	case down:
		return l.probe()
	case l.connector != nil && !l.connector.Connected(), l.connector == nil && greeters > 0:
		return l.connect()
	default:
		return true
	}
}

// connect has a node connect that is not down: it was never asked, or its connection was closed
// while it was idle. Neither says anything about the node.
func (l *lane) connect() bool {
	l.mu.Lock()
	l.connecting = true
	l.watch(l.client.clock.Now(), l.client.cfg.ConnectTimeout)
	l.mu.Unlock()

	err := l.node.Probe(context.Background())

	l.mu.Lock()
	overdue := l.unwatch()
	return l.concluded(l.client.clock.Now(), overdue, err)
}

// spared is the failure of an exchange, unless it says nothing about the node: its connection broke,
// and it has a new one.
func (l *lane) spared(failure error) error {
	if l.connector != nil && errors.Is(failure, node.ErrUnreachable) && l.connector.Connected() {
		return nil
	}
	return failure
}

// reasonOf splits a failure to connect into what an error of an operation says of it.
func reasonOf(failure error) (reason, why error) {
	if nodeErr, ok := errors.AsType[*node.Error](failure); ok {
		return nodeErr.Reason, nodeErr.Err
	}
	return node.ErrUnreachable, failure
}

// whenConnected has the channel, which must have room, told once the node is connected, or why it is
// not. It connects even where the node is down, and in whatever pause.
func (l *lane) whenConnected(told chan<- greeting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.greeters = append(l.greeters, told)
	l.start()
}

// greet tells the greeters that the node is connected, or why it is not. The mutex is held.
func (l *lane) greet(err error) {
	for _, told := range l.greeters {
		told <- greeting{l.index, err}
	}
	l.greeters = nil
}

// Connect connects to all nodes at once, which the first operation does otherwise, and returns nil
// once a majority is connected: that is enough for a RedLock, and a service can start while a
// minority of its nodes is down. The others go on connecting in the background. After a Connect, the
// first lock takes one round trip. Config.ConnectTimeout bounds it, and so does ctx.
//
// The error is a [*NoQuorumError] that names each node which is not connected, and why. The client
// can be used all the same: it connects with the next operation, too. If ctx ends first, or the
// client is closed, the error is that also.
func (c *Client) Connect(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	if err := c.enter(); err != nil {
		return err
	}
	defer c.leave()
	return newConnecting(c).wait(ctx)
}

// greeting says that a node is connected, or why it is not.
type greeting struct {
	lane int
	err  error
}

// connecting gathers which nodes are connected.
type connecting struct {
	client *Client
	told   chan greeting
	// errs has the reason of each node that is not connected, errConnecting while it is not known.
	errs               []error
	need, agreed, left int
}

// newConnecting has all nodes connect.
func newConnecting(c *Client) *connecting {
	n := len(c.lanes)
	g := &connecting{client: c, told: make(chan greeting, n), errs: make([]error, n), need: quorum.Majority().Need(n), left: n}
	for i, l := range c.lanes {
		g.errs[i] = &node.Error{Node: l.node.Name(), Reason: node.ErrUnreachable, Err: errConnecting}
		l.whenConnected(g.told)
	}
	return g
}

// wait returns once enough nodes are connected, or all have been heard.
func (g *connecting) wait(ctx context.Context) error {
	for g.agreed < g.need {
		if g.left == 0 {
			return g.failure()
		}
		select {
		case one := <-g.told:
			g.left--
			g.errs[one.lane] = one.err
			if one.err == nil {
				g.agreed++
			}
		case <-ctx.Done():
			return fmt.Errorf("%w: gave up: %w", g.failure(), whyDone(ctx))
		case <-g.client.quit:
			return fmt.Errorf("%w: gave up: %w", g.failure(), ErrClosed)
		}
	}
	return nil
}

// failure names the nodes that are not connected.
func (g *connecting) failure() *NoQuorumError {
	e := &NoQuorumError{Op: "connect", Need: g.need, Agreed: g.agreed, Total: len(g.errs), Pending: g.left}
	for i, err := range g.errs {
		if err != nil {
			e.Nodes = append(e.Nodes, NodeError{Node: g.client.lanes[i].node.Name(), Err: err})
		}
	}
	return e
}

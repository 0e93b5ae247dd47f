package quorumlock

import (
	"context"
	"fmt"

	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

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

// connecting gathers which nodes are connected.
type connecting struct {
	client *Client
	told   chan dispatch.Connection
	// errs has the reason of each node that is not connected, dispatch.ErrConnecting while it is not known.
	errs               []error
	need, agreed, left int
}

// newConnecting has all nodes connect.
func newConnecting(c *Client) *connecting {
	n := c.nodes.Len()
	g := &connecting{client: c, told: make(chan dispatch.Connection, n), errs: make([]error, n), need: quorum.Majority().Need(n), left: n}
	for i := range n {
		g.errs[i] = &node.Error{Node: c.nodes.Name(i), Reason: node.ErrUnreachable, Err: dispatch.ErrConnecting}
		c.nodes.Connect(i, g.told)
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
			g.errs[one.Node] = one.Err
			if one.Err == nil {
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
			e.Nodes = append(e.Nodes, NodeError{Node: g.client.nodes.Name(i), Err: err})
		}
	}
	return e
}

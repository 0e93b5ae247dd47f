package quorumlock

import (
	"context"
	"fmt"

	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// Connect connects to all nodes at once, which the first operation does otherwise. It returns nil
// once a majority is connected. That is enough for a RedLock, and a service can start while a
// minority of its nodes is down. Connecting to the other nodes goes on in the background. After a
// Connect, the first lock takes one round trip. Config.ConnectTimeout bounds Connect, and so does
// ctx.
//
// The error is a [*NoQuorumError] that names each node without a connection, and why. The client
// can still be used: the next operation connects too. If ctx ends first, or the client is closed,
// the error wraps that as well.
func (c *Client) Connect(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	if err := c.beginCall(); err != nil {
		return err
	}
	defer c.endCall()
	return newConnecting(c).wait(ctx)
}

// connecting counts which nodes are connected.
type connecting struct {
	client *Client
	told   chan dispatch.Connection
	// errs has the reason for each node that is not connected, dispatch.ErrConnecting until the
	// node has answered.
	errs               []error
	need, agreed, left int
}

// newConnecting makes all nodes connect.
func newConnecting(c *Client) *connecting {
	n := c.nodes.Len()
	cn := &connecting{client: c, told: make(chan dispatch.Connection, n), errs: make([]error, n), need: quorum.Majority().Need(n), left: n}
	for i := range n {
		cn.errs[i] = &node.Error{Node: c.nodes.Name(i), Reason: node.ErrUnreachable, Err: dispatch.ErrConnecting}
		c.nodes.Connect(i, cn.told)
	}
	return cn
}

// wait returns once enough nodes are connected, or all have answered.
func (cn *connecting) wait(ctx context.Context) error {
	for cn.agreed < cn.need {
		if cn.left == 0 {
			return cn.failure()
		}
		select {
		case one := <-cn.told:
			cn.left--
			cn.errs[one.Node] = one.Err
			if one.Err == nil {
				cn.agreed++
			}
		case <-ctx.Done():
			return fmt.Errorf("%w: gave up: %w", cn.failure(), contextError(ctx))
		case <-cn.client.quit:
			return fmt.Errorf("%w: gave up: %w", cn.failure(), ErrClosed)
		}
	}
	return nil
}

// failure returns the error that names the nodes without a connection.
func (cn *connecting) failure() *NoQuorumError {
	e := &NoQuorumError{Op: "connect", Need: cn.need, Agreed: cn.agreed, Total: len(cn.errs), Pending: cn.left}
	for i, err := range cn.errs {
		if err != nil {
			e.Nodes = append(e.Nodes, NodeError{Node: cn.client.nodes.Name(i), Err: err})
		}
	}
	return e
}

package inbox

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// Listen calls the node's Listen if it is a [wire.Listener]. Otherwise the error is an *node.Error with
// node.ErrMisconfigured and [errors.ErrUnsupported]. Nodes that wrap others can use it too. It refuses a client that cannot
// be the part of an id before a colon.
func Listen(ctx context.Context, n node.Node, client string, deliver func(wire.Message)) (wire.Inbox, error) {
	if client == "" || strings.Contains(client, ":") {
		return nil, &node.Error{Node: n.Name(), Reason: node.ErrMisconfigured, Err: fmt.Errorf("invalid client id %.30q", client)}
	}
	if l, ok := n.(wire.Listener); ok {
		return l.Listen(ctx, client, deliver)
	}
	return nil, &node.Error{Node: n.Name(), Reason: node.ErrMisconfigured, Err: errors.ErrUnsupported}
}

package quorumlock

import (
	"context"

	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// Ready returns nil if a majority of the nodes would grant locks to this client now: they answer, have recovered, and are set
// up for the client's MaxTTL and MaxClockSkew. It is for readiness probes, takes no lock, and may be called as often as one
// likes, also by several goroutines. It asks each node once, and returns as soon as a majority is ready.
// Config.NodeTimeoutMax bounds it, besides the time of a connect, and so does ctx. As any attempt at a lock does, it makes a node that is
// new, or has lost its memory, begin its recovery. It does not compare clocks, and
// does not see that a node refuses to write, for want of memory or of replicas.
//
// The error is a [*NoQuorumError] that names each node that is not ready, and why: errors.Is finds node.ErrRecovering,
// node.ErrSettings, node.ErrUnreachable and others. If ctx ends first, or the client is closed meanwhile, the error wraps
// that as well. On a closed client it is ErrClosed alone. A holder may well keep its lease while Ready fails, because
// nodes that recover still renew. So a probe of liveness should not use it.
func (c *Client) Ready(ctx context.Context) error {
	if ctx == nil {
		return invalid(nilContext)
	}
	if ctx.Err() != nil {
		return lease.ContextError(ctx)
	}
	if err := c.beginCall(); err != nil {
		return err
	}
	defer c.endCall()
	need := quorum.Majority().Need(c.nodes.Len())
	count := func(replies []timedReply) (ready int) {
		for i := range replies {
			if c.unready(i, &replies[i]) == nil {
				ready++
			}
		}
		return ready
	}
	replies, err := c.ask(ctx, wire.Op{Kind: wire.Mark, Limits: c.cfg.limits()}, func(r []timedReply) bool { return count(r) >= need })
	e := &NoQuorumError{Op: OpReady, Need: need, Agreed: count(replies), Total: len(replies)}
	if e.Agreed >= need {
		return nil
	}
	for i := range replies {
		if why := c.unready(i, &replies[i]); why != nil {
			e.Nodes = append(e.Nodes, NodeError{Node: c.nodes.Name(i), Err: why})
		}
		if replies[i].Err == errNoAnswer { //nolint:errorlint // it is never wrapped
			e.Pending++
		}
	}
	if err != nil {
		return lease.GaveUp(e, err)
	}
	return e
}

// unready returns why node i, which gave this reply to a Mark, would grant no lock; nil if it would.
func (c *Client) unready(i int, r *timedReply) error {
	limits := c.cfg.Limits()
	why := &node.Error{Node: c.nodes.Name(i), Op: wire.Mark.String()}
	switch {
	case r.Err != nil:
		return r.Err
	case node.Limits(r.Marker.Limits) != limits:
		why.Reason, why.Err = node.ErrSettings, &node.SettingsError{Node: node.Limits(r.Marker.Limits), Client: limits}
		return why
	case r.Marker.Left > 0:
		left := r.Marker.Left
		why.Reason, why.Err = node.ErrRecovering, &node.RecoveryError{Left: left, Length: max(limits.Recovery(), left), HadMarker: r.Marker.HadMarker}
		return why
	default:
		return nil
	}
}

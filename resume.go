package quorumlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/node"
)

// Resume takes over a lease that another process has acquired and left with [Lease.Detach]. owner and token are its
// [Lease.Owner] and [Lease.Token]. The result has the same owner and token, and lasts a TTL of this lock from now.
// Both locks must be Fixed.
//
// Resume does not exclude another Resume: each process that calls it before the release holds the same lease.
//
// Both processes are holders of one lease. The one that acquired it must not use it any more: if it did not detach the
// lease, its Release, Close or end would free the lock under this one. [Lease.Release] of the result frees the lock
// for good: neither process can extend or resume the lease after that.
//
// Resume asks every node once, and puts nothing back. As many nodes as the rule needs must hold all names for the owner
// and prove that no other writer can have held them since. A node that recovers from a loss of its memory proves
// nothing. A lease that has ended is not revived, with one exception: a late renewal of its owner had put the lock back
// before the call, and only readers have had it since. Resume fails with
//
//   - a [*LostError] if the lease has ended: released by force, by ReleaseOwner or by a resumed lease (LossForced),
//     taken by another owner (LossTaken), expired or released (LossGone).
//   - a [*NoQuorumError] if too few nodes answered or could prove it. The lease may be valid, so try again.
//   - an [*InvalidError] if the owner holds the lock with another token, for a lock that is not Fixed, and for readers.
//   - ctx's error, or ErrClosed: joined to a [*NoQuorumError] if it ended the wait for the nodes.
//
// After an error, nodes may keep the lock for up to a TTL of this lock: the owner may still hold it.
func (l *Lock) Resume(ctx context.Context, owner string, token uint64) (*Lease, error) {
	if err := l.validate(ctx); err != nil {
		return nil, err
	}
	if problem := l.resumeProblem(owner, token); problem != "" {
		return nil, &InvalidError{Problems: []string{problem}}
	}
	if ctx.Err() != nil {
		return nil, lease.ContextError(ctx)
	}
	if err := l.client.beginCall(); err != nil {
		return nil, err
	}
	defer l.client.endCall()
	began := l.client.clock.Now()
	got, err := l.client.engine.Resume(ctx, &l.spec, owner, token)
	switch {
	case errors.Is(err, lease.ErrOtherToken):
		return nil, &InvalidError{Problems: []string{fmt.Sprintf("%d is not the token with which %s holds %s", token, DescribeOwner(owner), quoted(l.Names()))}}
	case err != nil:
		return nil, err
	}
	if hook := l.client.cfg.Hooks.Acquired; hook != nil {
		report(&l.client.reporter, hook, AcquiredEvent{
			Names: l.Names(), Owner: owner, Token: token, Attempts: 1, Resumed: true, Waited: got.GrantedAt() - began,
		})
	}
	return newLease(ctx, got), nil
}

// resumeProblem returns the mistake in a call of Resume, or "".
func (l *Lock) resumeProblem(owner string, token uint64) string {
	switch {
	case owner == "" || owner == node.Readers || token == 0:
		return "Resume needs the owner id and the token of a lease"
	case l.spec.Reads:
		return "Resume is not for readers"
	case !l.spec.Fixed:
		return "Resume needs a Fixed lock: other leases are renewed by the client that acquired them"
	default:
		return ""
	}
}
